"""What a logged model takes, in the words of MLflow, and an example of it.

Signatures are written by hand. Inferred ones fix the type of each column, and so refuse integer
ids, whole numbers as values, and times with a zone. Here a column may hold anything, and
`tsmamba.serving.frames.score_frame` decides, in words that help.
"""

from datetime import datetime
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tsmamba._optional import require
from tsmamba.anomaly import MambaDetector
from tsmamba.forecast import MambaForecaster
from tsmamba.logs.estimator import LogDetector
from tsmamba.serving.frames import score_frame

_MOST_ROWS = 1_024  # of a series; more say no more, and are slow to show and to check
_LOG_COLUMNS = ("line", "message", "template", "severity", "time")
_OUTPUTS = {
    pl.Boolean: "boolean",
    pl.Date: "datetime",
    pl.Datetime: "datetime",
    pl.Float64: "double",
    pl.Int64: "long",
    pl.String: "string",
}


class Inputs(NamedTuple):
    """What a model takes.

    Attributes
    ----------
    required, optional : tuple of str
        Names of columns.
    example : polars.DataFrame
        Made up, so that it shows nothing of the training data.
    dtypes : dict of str to str
        Types of columns as they were fitted.
    params : tuple of (str, str, default, shape)
        What mlflow's ``ParamSpec`` is made of.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...]
    example: pl.DataFrame
    dtypes: dict[str, str]
    params: tuple[tuple[str, str, Any, tuple[int, ...] | None], ...] = ()


@singledispatch
def inputs_of(model: Any) -> Inputs:
    """Say what a fitted estimator takes.

    Parameters
    ----------
    model : MambaForecaster, MambaDetector or LogDetector
        Fitted.

    Returns
    -------
    Inputs

    Examples
    --------
    >>> from tsmamba_datasets import make_seasonal
    >>> model = MambaForecaster(24, mode="base").fit(make_seasonal(length=400))
    >>> inputs_of(model).required
    ('unique_id', 'ds', 'y')
    >>> inputs_of(model).example.row(0)
    ('a', '2024-01-01T01:00:00', 100.0)
    """
    raise NotImplementedError(f"a model of type {type(model).__name__}")


def signature_of(model: Any, inputs: Inputs) -> Any:
    """Put into MLflow's words what a model takes and gives.

    Parameters
    ----------
    model : MambaForecaster, MambaDetector or LogDetector
        Fitted.
    inputs : Inputs
        Of the model.

    Returns
    -------
    mlflow.models.ModelSignature
        With the columns that the model gives for the example.
    """
    mlflow_models = require("mlflow.models", extra="mlflow")
    schema = require("mlflow.types.schema", extra="mlflow")
    anything = schema.AnyType()
    columns = [schema.ColSpec(anything, name) for name in inputs.required]
    columns += [schema.ColSpec(anything, name, required=False) for name in inputs.optional]
    answer = score_frame(model, inputs.example).schema
    given = [schema.ColSpec(_OUTPUTS[dtype.base_type()], name) for name, dtype in answer.items()]
    params = [schema.ParamSpec(*each) for each in inputs.params]
    return mlflow_models.ModelSignature(
        schema.Schema(columns), schema.Schema(given), schema.ParamSchema(params) if params else None
    )


@inputs_of.register
def _of_forecaster(model: MambaForecaster) -> Inputs:
    known = model.input_schema_
    targets = [model.target_col] if isinstance(model.target_col, str) else [*model.target_col]
    keys = [name for name in (model.id_col, model.time_col) if name in known]
    beside = tuple(name for name in known if name not in (*keys, *targets))
    history = max(model.season_length_, min(model.context_length_, _MOST_ROWS))
    ahead = model.horizon_ if model.future_covariates else 0
    step = np.arange(history + ahead)
    one = pl.DataFrame({model.time_col: _times(model, history + ahead)}).with_columns(
        *(pl.Series(name, _wave(step, model.season_length_, i)) for i, name in enumerate(targets)),
        *(pl.lit(_usual(known[name])).alias(name) for name in beside),
    )
    one = one.with_columns(pl.when(pl.Series(step < history)).then(pl.col(targets)))
    if model.id_col in known:
        one = pl.concat([one.with_columns(pl.lit(name).alias(model.id_col)) for name in "ab"])
    params = (
        ("horizon", "long", model.horizon_, None),
        # MLflow wants a list; an empty one stands for the bands that the model gives by itself.
        ("quantiles", "double", list(model.quantiles or ()), (-1,)),
    )
    example = one.select(*keys, *targets, *beside)
    dtypes = {name: str(dtype) for name, dtype in known.items()}
    return Inputs((*keys, *targets), beside, example, dtypes, params)


@inputs_of.register
def _of_detector(model: MambaDetector) -> Inputs:
    n = model.n_features_in_
    names = tuple(getattr(model, "feature_names_in_", [f"x{i}" for i in range(n)]))
    step, period = np.arange(64), max(2, model.plan_.period)
    example = pl.DataFrame({name: _wave(step, period, i) for i, name in enumerate(names)})
    dtypes = dict.fromkeys(names, "Float64")
    return Inputs(names, (model.id_col, model.time_col), example, dtypes)


@inputs_of.register
def _of_log_detector(model: LogDetector) -> Inputs:
    streams: Any = model.stream_by
    fields = (streams,) if isinstance(streams, str) else tuple(streams)
    if model.session is not None and model.session.isidentifier():
        fields = (model.session, *fields)
    lines = ["2024-01-01 00:00:00 INFO started", "2024-01-01 00:00:01 INFO ready in 12 ms"]
    columns = tuple(dict.fromkeys((*_LOG_COLUMNS, *fields)))
    return Inputs((), columns, pl.DataFrame({"line": lines}), {})


def _times(model: MambaForecaster, count: int) -> pl.Series:
    """Return stamps on a grid like that of the fit, as text."""
    dtype = model.input_schema_[model.time_col]
    if dtype.is_integer():
        return model.freq_.future(pl.Series([0], dtype=dtype), count)
    start = datetime(2023, 12, 31) if model.freq_.month_end else datetime(2024, 1, 1)
    if not isinstance(dtype, pl.Datetime):
        first = pl.Series([start]).cast(pl.Date)
        return model.freq_.future(first, count).dt.to_string("%Y-%m-%d")
    first = pl.Series([start]).cast(pl.Datetime(dtype.time_unit))
    offset = ""
    if dtype.time_zone is not None:
        first, offset = first.dt.replace_time_zone(dtype.time_zone), "%:z"
    return model.freq_.future(first, count).dt.to_string("%Y-%m-%dT%H:%M:%S%.f" + offset)


def _wave(step: np.ndarray, period: int, number: int) -> np.ndarray:
    wave: np.ndarray = 100 + 10 * np.sin(2 * np.pi * step / max(2, period) + number)
    return wave.round(1)


def _usual(dtype: pl.DataType) -> float | bool | str:
    if dtype.is_numeric():
        return 1.0
    return True if dtype == pl.Boolean else "a"
