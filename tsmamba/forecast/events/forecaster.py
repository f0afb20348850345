"""What `MambaForecaster` does with frames of events."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tsmamba.errors import HorizonError, ParameterError
from tsmamba.forecast.columns import Bands
from tsmamba.forecast.events.columns import event_columns
from tsmamba.forecast.events.model import EventModel, fit_events
from tsmamba.forecast.progress import progress_bar
from tsmamba.records.events import EventColumns, tell
from tsmamba.training import Training

__all__ = ["EventForecasts"]

_PRESET = "ehr"
_HORIZON = 3
# What says how series on a grid are to be read or modelled.
_OF_SERIES = (
    "context_length", "freq", "season_length", "past_covariates", "future_covariates",
    "static_covariates", "weight_col", "calendar", "network",
)  # fmt: skip


class EventForecasts(BaseEstimator):
    """A forecaster that takes events of many stays as well as series."""

    preset: str
    mode: str
    id_col: str
    time_col: str
    target_col: str | Sequence[str]
    horizon: int | None
    quantiles: Sequence[float] | None
    multivariate: bool
    training: Training | None
    random_state: int | None
    verbose: int
    horizon_: int
    codes_: list[str]
    report_: dict[str, Any]
    _events: EventModel | None = None

    def _event_columns(self, df: Any) -> EventColumns | None:
        """Return the columns of a frame of events, None where it is one of series."""
        if self.preset != _PRESET:
            return None
        targets = [self.target_col] if isinstance(self.target_col, str) else self.target_col
        return event_columns(df, self.id_col, self.time_col, targets)

    def _fit_events(self, df: Any, columns: EventColumns, val_size: int) -> Self:
        self._check_of_events(val_size)
        with torch.random.fork_rng(devices=[]):
            torch.seed() if self.random_state is None else torch.manual_seed(self.random_state)
            model, report, repairs = fit_events(
                df,
                columns,
                self.horizon or _HORIZON,
                self.training,
                partial(progress_bar, show=self.verbose > 0),
            )
        self._took_events(model, report)
        tell(repairs, stacklevel=4)
        return self

    def _took_events(self, model: EventModel, report: dict[str, Any]) -> None:
        for name in ("context_length_", "season_length_", "freq_", "_fitted"):
            self.__dict__.pop(name, None)
        self.horizon_, self.report_ = model.horizon, report
        self.codes_ = model.codes
        self._events = model

    def _forget_events(self) -> None:
        self.__dict__.pop("codes_", None)
        self._events = None

    def _answer_events(
        self, df: Any, X_df: Any, horizon: int | None, bands: Bands, of_series: dict[str, Any]
    ) -> Any:
        """Forecast stays; what `predict` was given of series must be left out."""
        model = self._events
        if model is None:
            raise RuntimeError("this forecaster was not fitted on events")
        for name, given in of_series.items():
            if given is not None and given is not False:
                raise ParameterError(
                    f"{name}= says something of series, and the forecaster was fitted on events; "
                    "leave it out, and name rows to forecast in X_df="
                )
        if df is None:
            raise ParameterError(
                "df=None: events of the fit are not kept; pass df=, the events so far of the stays "
                "to forecast"
            )
        if horizon is not None and horizon > model.horizon:
            raise HorizonError(
                f"horizon={horizon} is beyond {model.horizon} bins of the fit; fit anew with "
                f"horizon={horizon}, or ask for less"
            )
        columns = event_columns(df, self.id_col, self.time_col, None)
        columns = columns or EventColumns(self.id_col, self.time_col, "code", "numeric_value")
        answer, repairs = model.answer(df, X_df, columns, bands, horizon or model.horizon)
        tell(repairs, stacklevel=3)
        return answer

    def _check_of_series(self, what: str) -> None:
        """Refuse what can be done with series only."""
        check_is_fitted(self)
        if self._events is not None:
            raise ParameterError(
                f"{what} is for series, and this forecaster was fitted on events; predict(df=), "
                "save and report_ are for these. Lay the events on a grid of hours with a column "
                f"{self.target_col!r}, and fit again, to use {what}"
            )

    def _check_of_events(self, val_size: int) -> None:
        """Refuse parameters that say something of series."""
        for name in _OF_SERIES:
            if getattr(self, name) is not None:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r} says something of series on a grid, and the "
                    f"frame holds events; leave {name} out"
                )
        if self.multivariate:
            raise ParameterError(
                "multivariate=True, and the frame holds events, whose codes always tell about each "
                "other; leave multivariate out"
            )
        if self.mode != "fast":
            raise ParameterError(
                f"mode={self.mode!r}, and the frame holds events, which have a single mode; leave "
                "mode out"
            )
        if self.training is not None and self.training.loss != "absolute":
            raise ParameterError(
                f"training: loss={self.training.loss!r}, and the frame holds events, which are "
                "learned by absolute errors; leave loss out"
            )
        if val_size:
            raise ParameterError(
                f"val_size={val_size}, and the frame holds events, of which whole stays are held "
                "out; leave val_size out"
            )
