"""Covariates of the series of a panel: columns known so far, known ahead, and fixed.

Axis letters: S series, F encoded columns that are known ahead, P those that are not, K static ones,
C = F + P.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tsmamba.data.covariate_checks import (
    check_ahead,
    check_constant,
    check_present,
    check_roles,
    check_values,
    needs_future,
)
from tsmamba.data.encoding import Encoding
from tsmamba.data.frame import column_names
from tsmamba.data.panel import Panel
from tsmamba.data.place import Placed, place_rows

_NUMBER = "__number__"


@dataclass(frozen=True)
class Roles:
    """Names of the user's covariates by what is known of them, and when.

    Parameters
    ----------
    past : tuple of str
        Columns that are known up to now only.
    future : tuple of str
        Columns that are known ahead as well.
    static : tuple of str
        Columns with one value a series.

    Examples
    --------
    >>> Roles(past=("wind",), static=("site",)).pairs
    (('past', 'wind'), ('static', 'site'))
    """

    past: tuple[str, ...] = ()
    future: tuple[str, ...] = ()
    static: tuple[str, ...] = ()

    @property
    def moving(self) -> tuple[str, ...]:
        """Columns that change over time, in the order of `Covariates.values`."""
        return (*self.future, *self.past)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Role and name of every column."""
        return tuple((role, name) for role, names in vars(self).items() for name in names)


@dataclass(frozen=True, eq=False)
class Covariates:
    """Encoded covariates of a panel, and of some steps beyond the end of its series.

    Missing values are zero: the mean of a column of numbers, and no category at all.
    `read_covariates` makes them from a data frame.

    Parameters
    ----------
    values : ndarray of shape (rows, C), float32
        One row for each step of each id, ids end to end; columns that are known ahead come first.
    starts : ndarray of shape (S,), int64
        Row of the first step of each series; the series of a wide frame share the rows of their id.
    n_future : int
        F, how many columns are known ahead.
    static : ndarray of shape (S, K), float32
        One row for each series.
    steps_ahead : int
        Rows that each id has beyond the end of its series; the other columns are zero there.

    Examples
    --------
    >>> values = np.arange(4, dtype=np.float32)[:, None]
    >>> covariates = Covariates(values, np.array([0]), 1, np.zeros((1, 0), np.float32), 0)
    >>> covariates.window(torch.tensor([1]), torch.tensor([0]), first=-2, count=6)[..., 0]
    tensor([[0., 0., 1., 2., 3., 0.]])
    """

    values: np.ndarray
    starts: np.ndarray
    n_future: int
    static: np.ndarray
    steps_ahead: int

    @cached_property
    def _ends(self) -> np.ndarray:
        """Row after the last one of each series, of shape (S,)."""
        edges = np.append(np.unique(self.starts), len(self.values))
        ends: np.ndarray = edges[np.searchsorted(edges, self.starts, side="right")]
        return ends

    def window(self, elapsed: Tensor, series: Tensor, first: int, count: int) -> Tensor:
        """Return the rows around origins.

        Those from an origin on hold what came to be known later, too: a forecast may look at the
        first `n_future` columns of them only.

        Parameters
        ----------
        elapsed : int Tensor of shape (n,)
            Steps from the start of its series to each origin, as `WindowStore.elapsed` gives them.
        series : int Tensor of shape (n,)
            Number of the series.
        first : int
            First row to give, counted from the origin; negative ones lie before it.
        count : int
            Number of rows.

        Returns
        -------
        Tensor of shape (n, count, C)
            Zero before the start of a series and beyond what is known.
        """
        steps = (elapsed + first)[:, None] + torch.arange(count)
        rows = torch.from_numpy(self.starts)[series, None] + steps
        known = (steps >= 0) & (rows < torch.from_numpy(self._ends)[series, None])
        values = torch.from_numpy(self.values)
        # Whole rows are selected several times faster than by indexing with a matrix.
        found = values.index_select(0, rows.clamp(0, len(values) - 1).flatten())
        found = found.view(*rows.shape, values.shape[1])
        found[~known] = 0.0
        return found


def read_covariates(
    df: Any,
    panel: Panel,
    roles: Roles,
    encoding: Encoding | None = None,
    future: Any = None,
    horizon: int = 0,
) -> tuple[Covariates, Encoding]:
    """Check the covariates of a frame and lay them on the grid of a panel.

    Parameters
    ----------
    df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        The frame that the panel was read from; rows beyond the panel are left out.
    panel : Panel
        The series.
    roles : Roles
        The covariates.
    encoding : Encoding, optional
        The one of a fitted model; learned from the frame by default.
    future, horizon
        As in `extend_covariates`; by default nothing is known ahead.

    Returns
    -------
    covariates : Covariates
        Of the panel.
    encoding : Encoding
        Of the columns that are known ahead, then known so far, then static.

    Raises
    ------
    FrameError, CovariateError
        If a column is absent, has two roles, holds infinite values or is of an unusable type; if a
        static one changes; if rows ahead are missing.

    Examples
    --------
    >>> frame = pl.DataFrame({"ds": [1, 2, 4], "y": [1, 3, 5], "open": [True, True, False]})
    >>> from tsmamba.data.panel import read_panel
    >>> covariates, encoding = read_covariates(frame, read_panel(frame), Roles(past=("open",)))
    >>> encoding.names
    ('open=false', 'open=true')
    >>> covariates.values.tolist()
    [[0.0, 1.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """
    check_roles(roles.pairs, panel.columns)
    check_present(roles.pairs, column_names(df), "the frame")
    names = (*roles.moving, *roles.static)
    placed = place_rows(df, panel, names, np.zeros_like(panel.lengths), panel.lengths)
    check_values(placed.frame, panel.columns, names)
    check_constant(placed.numbers, placed.frame, roles.static, panel)
    width = len(panel.columns.targets)
    static = _static_table(placed, roles.static, len(panel) // width)
    if encoding is None:
        learned = Encoding.learn(placed.frame.select(roles.moving))
        fixed = Encoding.learn(static.select(roles.static))
        encoding = Encoding((*learned.columns, *fixed.columns))
    moving = encoding.select(roles.moving)
    values = np.zeros((panel.lengths[::width].sum(), len(moving.names)), np.float32)
    starts = _starts(panel, 0)
    values[starts[placed.numbers] + placed.steps] = moving.encode(placed.frame)
    covariates = Covariates(
        values=values,
        starts=np.repeat(starts, width),
        n_future=len(encoding.select(roles.future).names),
        static=np.repeat(encoding.select(roles.static).encode(static), width, axis=0),
        steps_ahead=0,
    )
    if horizon:
        covariates = extend_covariates(covariates, panel, roles, encoding, future, horizon)
    return covariates, encoding


def extend_covariates(
    covariates: Covariates,
    panel: Panel,
    roles: Roles,
    encoding: Encoding,
    future: Any,
    horizon: int,
) -> Covariates:
    """Add what is known of the steps that follow each series.

    Parameters
    ----------
    covariates : Covariates
        Those of the panel.
    panel : Panel
        The series.
    roles : Roles
        The covariates.
    encoding : Encoding
        The one they were read with.
    future : frame or None
        One row for each id and step ahead with the covariates that are known ahead, in any order;
        other rows and columns are left out. Not looked at if there are no such covariates.
    horizon : int
        Steps ahead, at least 1.

    Returns
    -------
    Covariates
        The same with `horizon` rows more for each id.

    Raises
    ------
    FrameError, CovariateError
        If `future` is not given, or a row or value is missing in it, repeated or unusable.

    Examples
    --------
    >>> frame = pl.DataFrame({"ds": [1, 2], "y": [1, 3], "price": [2.0, 4.0]})
    >>> from tsmamba.data.panel import read_panel
    >>> panel, roles = read_panel(frame), Roles(future=("price",))
    >>> known, encoding = read_covariates(frame, panel, roles)
    >>> ahead = pl.DataFrame({"ds": [3], "price": [5.0]})
    >>> extend_covariates(known, panel, roles, encoding, ahead, 1).values.ravel()
    array([-1.,  1.,  2.], dtype=float32)
    """
    width = len(panel.columns.targets)
    lengths = panel.lengths[::width]
    starts = _starts(panel, horizon)
    ids = np.repeat(np.arange(len(lengths)), lengths)
    steps = np.arange(len(ids)) - _starts(panel, 0)[ids]
    values = np.zeros((starts[-1] + lengths[-1] + horizon, covariates.values.shape[1]), np.float32)
    values[starts[ids] + steps] = covariates.values[covariates.starts[::width][ids] + steps]
    if roles.future:
        placed = _read_ahead(future, panel, roles.future, horizon)
        rows = starts[placed.numbers] + placed.steps
        values[rows, : covariates.n_future] = encoding.select(roles.future).encode(placed.frame)
    return replace(covariates, values=values, starts=np.repeat(starts, width), steps_ahead=horizon)


def _read_ahead(future: Any, panel: Panel, names: Sequence[str], horizon: int) -> Placed:
    """Read and check the rows of the steps ahead."""
    if future is None:
        raise needs_future(names, panel.columns, horizon)
    check_present([("future", name) for name in names], column_names(future), "future")
    placed = place_rows(future, panel, names, panel.lengths, panel.lengths + horizon)
    check_values(placed.frame, panel.columns, names)
    check_ahead(placed, panel, names, horizon)
    return placed


def _starts(panel: Panel, ahead: int) -> np.ndarray:
    """Row at which each id starts, if each has so many rows beyond its end."""
    rows = panel.lengths[:: len(panel.columns.targets)] + ahead
    starts: np.ndarray = np.cumsum(rows) - rows
    return starts


def _static_table(placed: Placed, names: Sequence[str], count: int) -> pl.DataFrame:
    """Give the one value of each of ``count`` ids, null where there is none."""
    rows = placed.frame.select(pl.Series(_NUMBER, placed.numbers), *names)
    found = rows.group_by(_NUMBER).agg(pl.col(name).drop_nulls().first() for name in names)
    every = pl.DataFrame({_NUMBER: np.arange(count)})
    return every.join(found, on=_NUMBER, how="left", maintain_order="left")
