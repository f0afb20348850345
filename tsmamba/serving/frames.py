"""`score_frame`: the one way from a frame as people send it to what a model says of it.

MLflow, HTTP, Ray and Spark's ``applyInPandas`` all call it, so that they accept the same frames,
refuse the same ones in the same words, and give the same numbers.
"""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import polars as pl
from polars import selectors as cs

from tsmamba.anomaly import MambaDetector
from tsmamba.anomaly.table import score_table
from tsmamba.data.checks import Columns, check_keys, listing, resolve_columns
from tsmamba.data.frame import FrameKind, frame_kind, to_native, to_polars
from tsmamba.errors import (
    CovariateError,
    FrameError,
    HorizonError,
    ParameterError,
    SeriesTooShortError,
)
from tsmamba.forecast import MambaForecaster
from tsmamba.forecast.columns import POINT, Bands
from tsmamba.forecast.defaults import check_parameters
from tsmamba.logs.estimator import LogDetector
from tsmamba.serving.rows import tidy, without_zone

# Forecasts from forecasts from forecasts: farther ahead they say little, and cost as much.
_MOST_ROUNDS = 16
_LOG_TIMES = ("time", "ds", "timestamp")


def score_frame(
    model: Any,
    frame: Any,
    *,
    horizon: int | None = None,
    quantiles: Sequence[float] | None = None,
) -> Any:
    """Say what a fitted model makes of a frame, whatever form its times and ids are in.

    Times may be ISO text, dates or date-times; those with a zone or an offset are brought to UTC,
    those without are taken to be what the model was fitted on, or UTC if it knows a zone. Numbers
    are accepted as times only where the model was
    fitted on them. Ids become text. Null and NaN are missing values. The order of rows does not
    matter, except to a log.

    Parameters
    ----------
    model : MambaForecaster, MambaDetector or LogDetector
        Fitted. It is not changed, and may be used by several threads at once.
    frame : polars.DataFrame, pandas.DataFrame or pyarrow.Table
        For a forecaster the history to start from, at least one season of each series, with the
        columns of its fit; other columns are left out. A model that knows covariates ahead takes
        them from rows that follow the last value of a series. For a detector rows with the
        channels of its fit, any number of series apart. For a log detector what its `score` takes
        as a frame; it is scored in the order of its rows.
    horizon : int >= 1, optional
        Steps to forecast; those of the fit by default, 16 times as many at most.
    quantiles : sequence of float in (0, 1), optional
        Quantiles to forecast; the model's own by default.

    Returns
    -------
    frame of the kind that came in
        Ids as text, times without a zone (UTC, if zones were given), no NaN and no infinities.

        Of a forecaster: id, time, ``MambaForecaster``, and a column for each bound, such as
        ``MambaForecaster-lo-90``, or for each quantile, such as ``MambaForecaster_q2_5`` for the
        2.5 % quantile. Sorted by id and time.

        Of a detector: id and time where there are any, ``score``, ``p_value``, ``is_anomaly``, and
        ``status``, which is "ok", or says why there is no score: "missing" where values are
        missing, "warmup" where a stream has seen too few, "delayed" where it waits for more.
        Sorted by id and time.

        Of a log detector: its records.

    Raises
    ------
    FrameError
        If the frame cannot be used.
    ParameterError
        If ``horizon`` or ``quantiles`` cannot be used, or the model is of another kind.
    NotFittedError
        If the model is not fitted.

    Examples
    --------
    >>> from tsmamba import MambaForecaster
    >>> from tsmamba_datasets import make_seasonal
    >>> history = make_seasonal(length=400)
    >>> model = MambaForecaster(24, mode="base").fit(history)
    >>> sent = history.tail(200).with_columns(pl.col("ds").dt.to_string("iso:strict"))
    >>> score_frame(model, sent, horizon=2, quantiles=[0.1, 0.9]).columns
    ['unique_id', 'ds', 'MambaForecaster', 'MambaForecaster_q10', 'MambaForecaster_q90']
    """
    kind = frame_kind(frame)
    rows = to_polars(frame)
    if rows.is_empty():
        raise FrameError("the frame has no rows; give at least one")
    answer = without_zone(_scored(model, rows, horizon, quantiles))
    finite = pl.when(cs.float().is_finite()).then(cs.float())
    return to_native(answer.with_columns(finite), FrameKind(kind.library))


@singledispatch
def _scored(
    model: object, rows: pl.DataFrame, horizon: int | None, quantiles: Sequence[float] | None
) -> pl.DataFrame:
    raise ParameterError(
        f"a model of type {type(model).__name__}; a MambaForecaster, a MambaDetector or a "
        "LogDetector is accepted"
    )


@_scored.register
def _forecast(
    model: MambaForecaster,
    rows: pl.DataFrame,
    horizon: int | None,
    quantiles: Sequence[float] | None,
) -> pl.DataFrame:
    schema = model.input_schema_
    names = (model.id_col, model.time_col)
    columns = resolve_columns(rows, *names, model.target_col, require_targets=True)
    _check_horizon(model, horizon)
    bands = Bands.of(None, quantiles, model.quantiles)
    # A column without any value has no type of its own.
    empty = [each.name for each in rows.iter_columns() if each.null_count() == rows.height]
    rows = rows.cast({name: schema[name] for name in empty if name in schema})
    rows = tidy(rows, *names, schema[model.time_col])
    check_keys(rows, columns)
    rows, future = _split(model, rows.sort(columns.keys, maintain_order=True), columns, horizon)
    _check_lengths(model, rows, columns)
    answer: pl.DataFrame = model.predict(rows, future=future, horizon=horizon, quantiles=quantiles)
    # Without the dot, by which Spark and SQL would tell apart the parts of a name.
    plain = {name: f"{POINT}_q{100 * q:g}".replace(".", "_") for name, q in bands.columns}
    return answer.rename({name: plain[name] for name in answer.columns if "_ql" in name})


def _check_horizon(model: MambaForecaster, horizon: int | None) -> None:
    check_parameters(horizon=horizon)
    most = _MOST_ROUNDS * model.horizon_
    if horizon is not None and horizon > most:
        raise HorizonError(
            f"horizon={horizon} of a model that was fitted to forecast {model.horizon_} steps; "
            f"{most} at most are accepted: ask for fewer, or fit with a longer horizon"
        )


def _split(
    model: MambaForecaster, rows: pl.DataFrame, columns: Columns, horizon: int | None
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Part sorted rows into history and what is known ahead, where the model can use that."""
    if not model.future_covariates:
        return rows, None
    group = columns.id_col if columns.id_given else pl.lit(0)
    row = pl.int_range(pl.len())
    valued = pl.any_horizontal(pl.col(columns.targets).is_not_null())
    last = pl.when(valued).then(row).max()
    ahead = rows.select((row.over(group) > last.over(group)).fill_null(value=False)).to_series()
    if not ahead.any():
        raise CovariateError(
            f"the model uses covariates that are known ahead ({listing(model.future_covariates)}) "
            f"and no row follows the last value of a series; add the "
            f"{horizon or model.horizon_} rows ahead of each, with these columns and "
            f"{listing(columns.targets)} left empty"
        )
    return rows.filter(~ahead), rows.filter(ahead)


def _check_lengths(model: MambaForecaster, rows: pl.DataFrame, columns: Columns) -> None:
    """Refuse series of less than a season: of such a forecast the user would not know how bad."""
    least = model.season_length_
    group = columns.id_col if columns.id_given else pl.lit(0)
    short = rows.group_by(group, maintain_order=True).len().filter(pl.col("len") < least)
    if short.is_empty():
        return
    series, length = short.row(0)
    more = f" ({short.height} such series in all)" if short.height > 1 else ""
    raise SeriesTooShortError(
        f"{columns.name(series)} is too short{more}: {length} rows of history, and a season of "
        f"{least} is needed at least; give more rows, up to {model.context_length_} are read"
    )


@_scored.register
def _anomalies(
    model: MambaDetector,
    rows: pl.DataFrame,
    horizon: int | None,
    quantiles: Sequence[float] | None,
) -> pl.DataFrame:
    _refuse_options(model, horizon=horizon, quantiles=quantiles)
    rows = tidy(rows, model.id_col, model.time_col)
    keys = [name for name in (model.id_col, model.time_col) if name in rows.columns]
    lost = [name for name in keys if rows[name].null_count()]
    if lost:
        raise FrameError(
            f"{rows[lost[0]].null_count()} of {rows.height} rows have nothing in column "
            f"{lost[0]!r}; every row needs its series and time: drop them"
        )
    channels = getattr(model, "feature_names_in_", None)
    if channels is not None:
        rows = rows.select(*keys, *(name for name in channels if name in rows.columns))
    if not keys:
        return score_table(model, rows)
    rows = rows.sort(keys, maintain_order=True)
    if model.id_col not in keys:
        return pl.concat([rows.select(keys), score_table(model, rows)], how="horizontal")
    parts = []
    for (series,), part in rows.group_by(model.id_col, maintain_order=True):
        try:
            scored = score_table(model, part)
        except FrameError as error:
            raise type(error)(f"series {series!r}: {error}") from None
        parts.append(pl.concat([part.select(keys), scored], how="horizontal"))
    return pl.concat(parts)


@_scored.register
def _log_records(
    model: LogDetector, rows: pl.DataFrame, horizon: int | None, quantiles: Sequence[float] | None
) -> pl.DataFrame:
    _refuse_options(model, horizon=horizon, quantiles=quantiles)
    time = next((name for name in _LOG_TIMES if name in rows.columns), None)
    return model.score(rows if time is None else tidy(rows, "", time))


def _refuse_options(model: object, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise ParameterError(
                f"{name}={value!r} is for forecasts, and the model is a {type(model).__name__}; "
                "leave it out"
            )
