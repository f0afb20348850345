"""Reading of frames by the settings of a forecaster, common to all that it does with them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator

from tsmamba.data.covariates import Covariates, Roles
from tsmamba.data.frequency import Frequency
from tsmamba.data.panel import Panel
from tsmamba.forecast.backtest import joined
from tsmamba.forecast.inputs import Inputs
from tsmamba.forecast.saved import Fitted

# Gaps are filled from up to so many seasons back, so history keeps them beside the context.
_SEASONS_KEPT = 8


class FrameReader(BaseEstimator):
    """An estimator that reads frames by the columns it was given and keeps their last rows."""

    id_col: str
    time_col: str
    target_col: str | Sequence[str]
    past_covariates: Sequence[str] | None
    future_covariates: Sequence[str] | None
    static_covariates: Sequence[str] | None
    weight_col: str | None
    horizon_: int
    context_length_: int
    season_length_: int
    freq_: Frequency
    _fitted: Fitted

    def _inputs(self) -> Inputs:
        """Return the reader of frames."""
        roles = Roles(
            past=_names(self.past_covariates),
            future=_names(self.future_covariates),
            static=_names(self.static_covariates),
        )
        return Inputs(self.id_col, self.time_col, self.target_col, roles, self.weight_col)

    def _known(self, df: Any) -> tuple[Panel, Covariates | None]:
        """Read series and covariates of a frame, of the history by default, as they were fitted."""
        inputs, fitted = self._inputs(), self._fitted
        frame = fitted.history if df is None else df
        panel = inputs.panel(frame, self.freq_, fitted.scaling)
        covariates, _ = inputs.covariates(frame, panel, fitted.encoding)
        return panel, covariates

    def _kept(self, df: Any, panel: Panel) -> pl.DataFrame:
        """Return the rows that the next forecast needs."""
        most = self.context_length_ + _SEASONS_KEPT * self.season_length_
        begin = np.maximum(panel.lengths - most, 0)
        return self._inputs().rows(df, panel, begin, panel.lengths)

    def _joined(self, rows: Any) -> pl.DataFrame:
        """Return the fitted history and newer rows, which win where both have a stamp."""
        return joined(self._fitted.history, rows, self._known(None)[0].columns)


def _names(columns: Sequence[str] | str | None) -> tuple[str, ...]:
    if columns is None:
        return ()
    return (columns,) if isinstance(columns, str) else tuple(columns)
