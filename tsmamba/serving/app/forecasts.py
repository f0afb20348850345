"""Forecasts of what a request holds; nothing is kept."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import polars as pl

from tsmamba.errors import FrameError, ParameterError
from tsmamba.forecast import MambaForecaster
from tsmamba.serving.app.engine import Engine
from tsmamba.serving.frames import score_frame

__all__ = ["ForecastEngine"]

_MOST_STEPS = 1_000_000
# Series are kept in 32 bits, and the sum of squares of many values must fit as well.
_LARGEST: dict[type, float] = {int: 2**63 - 1, float: 1e15}


class ForecastEngine(Engine):
    """Forecasts series from the history in a request.

    Parameters
    ----------
    forecaster : MambaForecaster
        Fitted.
    """

    kind = MambaForecaster.__name__

    def __init__(self, forecaster: MambaForecaster) -> None:
        self._forecaster = forecaster

    def columns(self) -> dict[str, Any]:
        """Return the columns of a record."""
        model = self._forecaster
        target = model.target_col
        return {
            "id": model.id_col,
            "time": model.time_col,
            "target": [target] if isinstance(target, str) else list(target),
            "past_covariates": list(model.past_covariates or ()),
            "future_covariates": list(model.future_covariates or ()),
            "static_covariates": list(model.static_covariates or ()),
        }

    def settings(self) -> dict[str, Any]:
        """Return horizon and lengths, in steps."""
        model = self._forecaster
        return {
            "horizon": model.horizon_,
            "context_length": model.context_length_,
            "season_length": model.season_length_,
        }

    def forecast(
        self,
        records: Sequence[dict[str, Any]],
        horizon: int | None = None,
        quantiles: Sequence[float] | None = None,
    ) -> list[dict[str, Any]]:
        """Forecast the steps that follow each series.

        Parameters
        ----------
        records : sequence of dict
            History, a record for each series and step.
        horizon : int, optional
            Steps; those of the fit by default.
        quantiles : sequence of float, optional
            Quantiles to forecast, beside the point.

        Returns
        -------
        list of dict
            A record for each series and step ahead, JSON values; times are ISO text in UTC.

        Raises
        ------
        FrameError, ParameterError
            If the records or the arguments cannot be used.
        """
        frame = _frame(records)
        self._check_size(frame, horizon or self._forecaster.horizon_)
        answer = score_frame(self._forecaster, frame, horizon=horizon, quantiles=quantiles)
        columns = [map(_plain, answer[name].to_list()) for name in answer.columns]
        return [dict(zip(answer.columns, row, strict=True)) for row in zip(*columns, strict=True)]

    def _check_size(self, frame: pl.DataFrame, horizon: int) -> None:
        ids = self._forecaster.id_col
        series = frame[ids].n_unique() if ids in frame.columns else 1
        if series * horizon > _MOST_STEPS:
            raise ParameterError(
                f"{series} series of {horizon} steps are {series * horizon} forecasts, and "
                f"{_MOST_STEPS} a request are accepted; send fewer series, or a shorter horizon"
            )


def _frame(records: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Put records into columns; what a record leaves out is missing."""
    names = dict.fromkeys(name for record in records for name in record)
    columns = {name: [record.get(name) for record in records] for name in names}
    return pl.DataFrame([_column(name, values) for name, values in columns.items()])


def _column(name: str, values: list[Any]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    kinds = {float} if kinds == {int, float} else kinds
    if len(kinds) > 1:
        listed = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise FrameError(f"column {name!r} holds {listed}; send values of one type")
    kind = kinds.pop() if kinds else type(None)
    if kind in _LARGEST:
        largest = max(abs(value) for value in values if value is not None)
        if largest > _LARGEST[kind]:
            raise FrameError(
                f"column {name!r} holds {largest:.3g}, and {_LARGEST[kind]:.3g} is the largest "
                f"{kind.__name__} that is accepted; send it in a larger unit"
            )
    return pl.Series(name, values, dtype=pl.Float64 if kind is float else None)


def _plain(value: Any) -> Any:
    """Turn times into ISO text; those of `score_frame` are in UTC."""
    if isinstance(value, datetime):
        return f"{value.isoformat()}Z"
    return value.isoformat() if isinstance(value, date) else value
