"""Splits of frames in time, for scikit-learn's searches and scores."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator

from tsmamba.data.checks import DEFAULT_ID, check_keys, resolve_columns
from tsmamba.data.frame import to_polars
from tsmamba.data.grid import Grid, lay_grid
from tsmamba.errors import FrameError, SeriesTooShortError
from tsmamba.forecast.defaults import check_parameters

_ROW = "__row__"


class RollingOrigin(BaseCrossValidator):
    """Train on what came before an origin, test on the steps after it, and move the origin on.

    Hand it as ``cv`` to ``GridSearchCV``, ``cross_val_score`` and the like. scikit-learn's own
    ``TimeSeriesSplit`` cuts a frame by the number of the row, so in a frame of several series it
    would train on some of them and test on others; here every series is cut in time.

    Origins are counted in steps from the end of each series, as `MambaForecaster.cross_validation`
    counts them. So series that end at different times are all tested, each on its own last steps;
    where what happens to one series tells of another, cut the frame at a common end first.

    Parameters
    ----------
    n_splits : int >= 1
        Number of origins; the last leaves one horizon.
    horizon : int >= 1
        Steps after an origin to test on.
    step_size : int >= 1, optional
        Steps between origins; the horizon by default.
    gap : int >= 0, default 0
        Steps before an origin to leave out of training, as if they had not come in yet.
    id_col, time_col : str, default "unique_id" and "ds"
        Columns of the series id and the time stamp. Without the id column a frame is one series.
    freq : str or int, optional
        The step, such as "1h" or 1; found by default. With "uneven" each row is a step.

    Examples
    --------
    >>> import polars as pl
    >>> df = pl.DataFrame({"unique_id": [*"aaaabbb"], "ds": [1, 2, 3, 4, 1, 2, 3]})
    >>> for train, test in RollingOrigin(2, 1).split(df):
    ...     train.tolist(), test.tolist()
    ([0, 1, 4], [2, 5])
    ([0, 1, 2, 4, 5], [3, 6])
    """

    def __init__(
        self,
        n_splits: int,
        horizon: int,
        *,
        step_size: int | None = None,
        gap: int = 0,
        id_col: str = DEFAULT_ID,
        time_col: str = "ds",
        freq: str | int | None = None,
    ) -> None:
        check_parameters(n_splits=n_splits, horizon=horizon, step_size=step_size)
        check_parameters(least=0, gap=gap)
        self.n_splits = n_splits
        self.horizon = horizon
        self.step_size = step_size
        self.gap = gap
        self.id_col = id_col
        self.time_col = time_col
        self.freq = freq

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Return the number of origins.

        Parameters
        ----------
        X, y, groups : object
            Ignored; here for scikit-learn's interface.

        Returns
        -------
        int
            ``n_splits``.
        """
        return self.n_splits

    def split(
        self, X: Any, y: object = None, groups: object = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Give the rows of each split, from the first origin to the last.

        Parameters
        ----------
        X : polars.DataFrame, pandas.DataFrame or pyarrow.Table
            One row for each series and stamp, in any order.
        y, groups : object
            Ignored; here for scikit-learn's interface.

        Yields
        ------
        train, test : int ndarray
            Numbers of rows of the frame, rising.

        Raises
        ------
        FrameError
            If the frame cannot be used, or a split has no row to test on.
        SeriesTooShortError
            If a series has no step before its first origin.
        """
        remaining = self._remaining(X)
        step = self.step_size or self.horizon
        splits: list[tuple[np.ndarray, np.ndarray]] = []
        for after in range((self.n_splits - 1) * step, -1, -step):
            before = after + self.horizon
            test = np.flatnonzero((after < remaining) & (remaining <= before))
            if not test.size:
                raise FrameError(
                    f"split {len(splits) + 1} of {self.n_splits} has no row to test on: stamps are "
                    f"absent in column {self.time_col!r} from {before} to {after + 1} steps before "
                    "the end; ask for a longer horizon or fewer splits"
                )
            splits.append((np.flatnonzero(remaining > before + self.gap), test))
        yield from splits

    def _remaining(self, df: Any) -> np.ndarray:
        """Count the steps from each row to the end of its series, the row's own included."""
        columns = resolve_columns(df, self.id_col, self.time_col, "y", require_targets=False)
        frame = to_polars(df, columns.keys)
        check_keys(frame, columns)
        # Sorted here, for lay_grid would warn of rows out of order, and indices mind no order.
        frame = frame.with_row_index(_ROW).sort(self.time_col)
        grid = lay_grid(frame, columns, self.freq)
        self._check_lengths(grid)
        remaining = np.empty(frame.height, np.int64)
        remaining[grid.rows.frame.get_column(_ROW).to_numpy()] = (
            np.repeat(grid.lengths, grid.rows.counts) - grid.places
        )
        return remaining

    def _check_lengths(self, grid: Grid) -> None:
        step = self.step_size or self.horizon
        needed = self.horizon + (self.n_splits - 1) * step + self.gap
        short = grid.lengths <= needed
        if short.any():
            shortest = int(grid.lengths.argmin())
            more = f" ({short.sum()} such series in all)" if short.sum() > 1 else ""
            raise SeriesTooShortError(
                f"{grid.rows.name(shortest)} has {grid.lengths[shortest]} steps; {self.n_splits} "
                f"splits of {self.horizon} steps, {step} apart with a gap of {self.gap}, need more "
                f"than {needed}{more}: ask for fewer splits or a shorter horizon, or leave the "
                "series out"
            )
