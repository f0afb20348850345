"""Reading of frames by the settings of a forecaster, common to all that it does with them."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import polars as pl
from polars import selectors as cs

from tsmamba.data.covariates import Covariates, Roles
from tsmamba.data.frame import frame_kind, to_native
from tsmamba.data.frequency import Frequency
from tsmamba.data.panel import Panel, future_frame
from tsmamba.forecast.backtest import joined
from tsmamba.forecast.defaults import check_parameters
from tsmamba.forecast.events.forecaster import EventForecasts
from tsmamba.forecast.inputs import Inputs
from tsmamba.forecast.model import ForecastModel
from tsmamba.forecast.saved import Fitted

# Gaps are filled from up to so many seasons back, so history keeps them beside the context.
_SEASONS_KEPT = 8


class FrameReader(EventForecasts):
    """An estimator that reads frames by the columns it was given and keeps their last rows."""

    past_covariates: Sequence[str] | None
    future_covariates: Sequence[str] | None
    static_covariates: Sequence[str] | None
    weight_col: str | None
    context_length_: int
    season_length_: int
    freq_: Frequency
    _fitted: Fitted

    @property
    def input_schema_(self) -> dict[str, pl.DataType]:
        """The columns that `predict` reads and their types, numbers as Float64, as of the fit."""
        self._check_of_series("input_schema_")
        return dict(self._fitted.history.schema)

    def make_future_frame(self, df: Any = None, *, horizon: int | None = None) -> Any:
        """List the series and steps that `predict` forecasts, for known covariates to be added.

        Parameters
        ----------
        df : frame, optional
            History that `predict` will start from; the fitted one by default.
        horizon : int >= 1, optional
            Steps; ``horizon_`` by default.

        Returns
        -------
        frame of the type that came in
            Columns of id and time.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        """
        self._check_of_series("make_future_frame")
        check_parameters(horizon=horizon)
        panel, _ = self._known(df)
        frame = future_frame(panel, horizon or self.horizon_, by_target=False)
        return to_native(frame, self._fitted.kind if df is None else frame_kind(df))

    def update(self, rows: Any) -> Self:
        """Take in newer rows, so that the next forecast starts after them; nothing is fitted.

        Costs time and memory in proportion to the rows and the context, however long the fitted
        history was.

        Parameters
        ----------
        rows : frame
            Newer rows of fitted series, or of new ones; rows already known are replaced.

        Returns
        -------
        self
            Itself.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        FrameError
            If the frame cannot be used; nothing is changed then.
        """
        self._check_of_series("update")
        joined = self._joined(rows)
        panel, _ = self._known(joined)
        self._fitted = self._fitted.continued(
            self._kept(joined, panel, self._fitted.model, self.season_length_)
        )
        return self

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

    def _kept(self, df: Any, panel: Panel, model: ForecastModel, season: int) -> pl.DataFrame:
        """Return the rows that the next forecast needs, the first of them with a value."""
        corrector = model.corrector
        seen = max(model.context.length, corrector.config.history if corrector else 0)
        begin = np.maximum(panel.lengths - seen - _SEASONS_KEPT * season, 0)
        start = panel.offsets[:-1]
        position = np.where(np.isnan(panel.values), -1, np.arange(len(panel.values)))
        before = np.maximum.accumulate(position)[np.minimum(start + begin, panel.offsets[1:] - 1)]
        begin = np.where(before >= start, before - start, begin)
        width = len(panel.columns.targets)
        begin = np.repeat(begin.reshape(-1, width).min(1), width)
        rows = self._inputs().rows(df, panel, begin, panel.lengths)
        # Later rows may bring fractions where there were whole numbers.
        keys = panel.columns.keys
        rows = rows.with_columns(
            (cs.numeric() - cs.by_name(keys, require_all=False)).cast(pl.Float64)
        )
        return rows if self.weight_col is None else rows.drop(self.weight_col, strict=False)

    def _joined(self, rows: Any) -> pl.DataFrame:
        """Return the fitted history and newer rows, which win where both have a stamp."""
        return joined(self._fitted.history, rows, self._known(None)[0].columns)


def _names(columns: Sequence[str] | str | None) -> tuple[str, ...]:
    if columns is None:
        return ()
    return (columns,) if isinstance(columns, str) else tuple(columns)
