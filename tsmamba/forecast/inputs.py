"""From the frames of a user to series and covariates, by the names of their columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tsmamba.data.covariate_checks import check_roles
from tsmamba.data.covariates import Covariates, Roles, extend_covariates, read_covariates
from tsmamba.data.encoding import Encoding
from tsmamba.data.frame import column_names
from tsmamba.data.frequency import Frequency
from tsmamba.data.panel import Panel, Scaling, read_panel
from tsmamba.data.place import place_rows
from tsmamba.data.weights import read_weights


@dataclass(frozen=True)
class Inputs:
    """Names of the columns that an estimator reads.

    Parameters
    ----------
    id_col, time_col : str
        Columns of ids and stamps.
    target_col : str or sequence of str
        Column of the values, or those of a wide frame.
    roles : Roles
        Covariates.
    weight_col : str, optional
        Column of sample weights; only training reads it.
    """

    id_col: str
    time_col: str
    target_col: str | Sequence[str]
    roles: Roles
    weight_col: str | None = None

    def panel(
        self,
        df: Any,
        freq: str | int | Frequency | None,
        scaling: Scaling | None = None,
    ) -> Panel:
        """Read the series of a frame."""
        return read_panel(
            df,
            id_col=self.id_col,
            time_col=self.time_col,
            target_col=self.target_col,
            freq=freq,
            scaling=scaling,
        )

    def weighted(self, df: Any, panel: Panel) -> Panel:
        """Return the panel with the sample weights of its frame, if there are any."""
        return panel if self.weight_col is None else read_weights(df, panel, self.weight_col)

    def covariates(
        self, df: Any, panel: Panel, encoding: Encoding | None = None
    ) -> tuple[Covariates | None, Encoding | None]:
        """Read the covariates of a frame; None where the estimator has none."""
        if not self.roles.pairs:
            return None, None
        return read_covariates(df, panel, self.roles, encoding)

    def ahead(
        self,
        covariates: Covariates | None,
        panel: Panel,
        encoding: Encoding | None,
        future: Any,
        horizon: int,
    ) -> Covariates | None:
        """Add what is known of the steps that follow each series."""
        if covariates is None or encoding is None:
            return None
        return extend_covariates(covariates, panel, self.roles, encoding, future, horizon)

    def rows(self, df: Any, panel: Panel, begin: np.ndarray, end: np.ndarray) -> pl.DataFrame:
        """Return the rows of a frame on stretches of its series, with the columns in use.

        They come series by series in order of time, whatever the order in the frame.
        """
        check_roles(self.roles.pairs, panel.columns)
        present = set(column_names(df))
        beside = [*self.roles.moving, *self.roles.static]
        if self.weight_col is not None:
            beside.append(self.weight_col)
        names = [*panel.columns.targets, *(name for name in beside if name in present)]
        placed = place_rows(df, panel, names, begin, end)
        return placed.frame[np.lexsort((placed.steps, placed.numbers))]
