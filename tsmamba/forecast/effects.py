"""What covariates that are known ahead explain by themselves: one additive effect for all series.

A series is this effect plus a rest, and the rest is what base and corrector forecast: regression
with autocorrelated errors. The effect of a number is piecewise linear, in its value and in its mean
over the last season, since houses stay warm for a while; that of a category is a step. Each may
differ with the hour of the day, or with the day of the week where steps are days.

The effect is a ridge on differences from one season to the next: level, trend and season vanish
from them, so that it cannot take what the base forecasts well without it.

Axis letters: F columns that are known ahead, M their means, R ramps, P phases of the clock.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tsmamba.data.clock import Clock
from tsmamba.data.covariates import Covariates
from tsmamba.data.panel import Panel
from tsmamba.forecast.base import N_BLOCKS

_PARTS = 6  # of a column of numbers, about equally full
_LEAST_RISE = 1e-5  # width of a part; columns of numbers have unit variance
_LEAST_SEASONS = 8  # two in each block of time
_PENALTIES = (1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0)
_LEAST_POWER = 1e-4  # of a ramp, from 0 to 1: one that hardly moves tells nothing
_LEAST_BLOCKS_BETTER = 3
_MOST_PAIRS = 400_000
_MOST_CELLS = 50_000_000  # pairs times features, which bounds the time of many covariates
_BATCH = 2048
_ROWS = 65_536
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Effect:
    """What covariates add to each step of some series, in units of the standardised series.

    Parameters
    ----------
    rows : Covariates
        The effect as a single column that is known ahead.
    """

    rows: Covariates

    def removed(self, panel: Panel) -> Panel:
        """Return the series without the effect.

        Parameters
        ----------
        panel : Panel
            The series it was computed for.

        Returns
        -------
        Panel
            The same with other values; missing ones stay missing.
        """
        effect = self.rows.values[_row_of_step(panel, self.rows), 0]
        return replace(panel, values=panel.values - effect)

    def ahead(self, elapsed: Tensor, series: Tensor, horizon: int) -> Tensor:
        """Return the effect from origins on.

        Parameters
        ----------
        elapsed : int Tensor of shape (n,)
            Steps from the start of its series to each origin.
        series : int Tensor of shape (n,)
            Number of the series.
        horizon : int
            Steps, H.

        Returns
        -------
        Tensor of shape (n, H)
            Zero where no covariates are known.
        """
        return self.rows.window(elapsed, series, 0, horizon)[..., 0]


@dataclass(frozen=True)
class Effects:
    """A fitted effect of covariates; `fit_effects` makes one.

    A ramp rises from 0 to 1 between two values of a column and is flat beyond them.

    Parameters
    ----------
    averaged : int Tensor of shape (M,)
        Columns whose means over the last season count as further columns.
    column : int Tensor of shape (R,)
        The column that each ramp looks at, from 0 to F + M - 1.
    low, high : Tensor of shape (R,)
        Where it begins and ends to rise.
    mean : Tensor of shape (R,)
        Mean of the ramp, which is taken off: an effect says what differs from an average day.
    weights : Tensor of shape (R, 1 + P)
        Rise of the effect over each ramp: its mean, and how it differs with the phases.
    season : int Tensor of shape ()
        Steps of a mean.
    period : Tensor of shape (1,) or (0,), float64
        Seconds of the cycle that the phases belong to, if the data have one.
    """

    averaged: Tensor
    column: Tensor
    low: Tensor
    high: Tensor
    mean: Tensor
    weights: Tensor
    season: Tensor
    period: Tensor

    def of(self, panel: Panel, covariates: Covariates) -> Effect:
        """Compute the effect at every step of a panel, and at those known ahead.

        Parameters
        ----------
        panel : Panel
            The series; only their clock counts.
        covariates : Covariates
            Theirs, encoded as in the fit.

        Returns
        -------
        Effect
            To take off the series, and to add to forecasts.
        """
        harmonics = self.weights.shape[1] // 2
        clock = Clock.of(panel, tuple((period, harmonics) for period in self.period.tolist()))
        rows = _Rows.of(panel, covariates, self.averaged, int(self.season))
        ramps = _Ramps(self.column, self.low, self.high, self.mean)
        parts = []
        for index in torch.arange(len(rows.inputs)).split(_ROWS):
            rises = ramps.of(rows.inputs[index]) @ self.weights
            parts.append((rises * rows.phases(clock, index)).sum(1))
        values = torch.cat(parts)[:, None].numpy()
        return Effect(replace(covariates, values=values, n_future=1))

    def tensors(self) -> dict[str, Tensor]:
        """Return all fields, for a model file."""
        return dict(vars(self))

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "Effects":
        """Undo `tensors`."""
        return cls(**tensors)


class _Rows(NamedTuple):
    """The rows of covariates as the effect sees them."""

    inputs: Tensor  # (rows, F + M)
    series: Tensor  # (rows,), one of those that share the row
    times: Tensor  # (rows,), from the start of the series

    @classmethod
    def of(cls, panel: Panel, covariates: Covariates, averaged: Tensor, season: int) -> "_Rows":
        begins, lead = np.unique(covariates.starts, return_index=True)
        count = len(covariates.values)
        ids = np.repeat(np.arange(len(begins)), np.diff(begins, append=count))
        steps = np.arange(count) - begins[ids]
        known = covariates.values[:, : covariates.n_future]
        inputs = np.empty((count, known.shape[1] + len(averaged)), np.float32)
        inputs[:, : known.shape[1]] = known
        # The mean of fewer steps stands in where a series begins.
        taken = np.minimum(steps + 1, season)
        after = np.arange(1, count + 1)
        for place, column in enumerate(averaged.tolist(), start=known.shape[1]):
            sums = np.concatenate([[0.0], known[:, column].cumsum(dtype=np.float64)])
            inputs[:, place] = (sums[after] - sums[after - taken]) / taken
        times = panel.times_at(lead[ids], steps)
        return cls(*map(torch.from_numpy, (inputs, lead[ids], times)))

    def phases(self, clock: Clock, index: Tensor) -> Tensor:
        """Return a one and the phases of some rows, shape (n, 1 + P)."""
        phases = clock.features(self.series[index], self.times[index, None])[:, 0]
        return torch.cat([torch.ones(len(index), 1), phases], dim=1)


class _Ramps(NamedTuple):
    """Functions of a column that rise by 1 between two values, flat beyond and zero on average."""

    column: Tensor  # (R,)
    low: Tensor  # (R,)
    high: Tensor  # (R,)
    mean: Tensor  # (R,)

    @classmethod
    def learn(cls, inputs: Tensor) -> "_Ramps":
        """Return one ramp for each part of each column."""
        parts = []
        for column, values in enumerate(np.ascontiguousarray(inputs.T)):
            for low, high in pairwise(_knots(values).tolist()):
                mean = float(values.clip(low, high).mean(dtype=np.float64))
                parts.append((column, low, high, (mean - low) / (high - low)))
        column, *others = torch.tensor(parts, dtype=torch.float32).view(-1, 4).T
        return cls(column.long(), *others)

    def of(self, inputs: Tensor) -> Tensor:
        """Return every ramp at some inputs, shape (n, R)."""
        risen = inputs[:, self.column].clamp(self.low, self.high) - self.low
        return risen / (self.high - self.low) - self.mean


class _Design(NamedTuple):
    """The features of the ridge: every ramp, alone and times every phase."""

    rows: _Rows
    ramps: _Ramps
    clock: Clock

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.ramps.column) * (1 + self.clock.width)

    def of(self, index: Tensor) -> Tensor:
        """Return the features of some rows, shape (n, R * (1 + P))."""
        ramps = self.ramps.of(self.rows.inputs[index])
        return (ramps[:, :, None] * self.rows.phases(self.clock, index)[:, None, :]).flatten(1)


def fit_effects(panel: Panel, covariates: Covariates, season: int) -> Effects | None:
    """Fit the effect of the covariates that are known ahead.

    Parameters
    ----------
    panel : Panel
        The series.
    covariates : Covariates
        Theirs.
    season : int
        Steps of a season, 1 if there is none.

    Returns
    -------
    Effects or None
        None if no effect is better than one, judged on blocks of time that were left out.

    Examples
    --------
    >>> import polars as pl
    >>> from tsmamba.data.covariates import Roles, read_covariates
    >>> from tsmamba.data.panel import read_panel
    >>> cold = np.random.default_rng(0).normal(size=300)
    >>> frame = pl.DataFrame({"ds": range(300), "y": np.abs(cold), "cold": cold})
    >>> panel = read_panel(frame)
    >>> covariates, _ = read_covariates(frame, panel, Roles(future=("cold",)))
    >>> effects = fit_effects(panel, covariates, season=1)
    >>> rest = effects.of(panel, covariates).removed(panel)
    >>> bool(rest.values.std() < 0.2 * panel.values.std())
    True
    """
    averaged = _to_average(covariates, season)
    rows = _Rows.of(panel, covariates, averaged, season)
    ramps = _Ramps.learn(rows.inputs)
    clock = Clock.of(panel)
    clock = replace(clock, cycles=clock.cycles[:1])
    design = _Design(rows, ramps, clock)
    if not design.width:
        return None
    lag = season if panel.lengths.max() >= _LEAST_SEASONS * season else 1
    pairs = _pairs(panel, covariates, lag, min(_MOST_PAIRS, _MOST_CELLS // design.width))
    weights = _ridge(_moments(design, pairs, lag), _LEAST_POWER * float(pairs.weight.sum()))
    if weights is None:
        return None
    return Effects(
        averaged=averaged,
        **ramps._asdict(),
        weights=weights.float().view(-1, 1 + clock.width),
        season=torch.tensor(season),
        period=torch.tensor([period for period, _ in clock.cycles], dtype=torch.float64),
    )


def _to_average(covariates: Covariates, season: int) -> Tensor:
    """Return the columns that are known ahead and hold more than two values."""
    known = covariates.values[:, : covariates.n_future]
    several = [column for column, values in enumerate(known.T) if len(_knots(values)) > 2]
    return torch.tensor(several if season > 1 else [], dtype=torch.int64)


def _knots(values: np.ndarray) -> np.ndarray:
    """Return the ends of the parts of a column, rising; a single one if it is constant."""
    shares = np.linspace(0, 1, _PARTS + 1)
    ends = np.quantile(values, shares, method="nearest")
    rising: np.ndarray = ends[np.diff(ends, prepend=-np.inf) > _LEAST_RISE]
    return rising


class _Pairs(NamedTuple):
    """Pairs of observed steps of a series that lie a lag apart."""

    row: Tensor  # (n,), of the later step in the covariates
    change: Tensor  # (n,), of the value
    weight: Tensor  # (n,), float64
    block: Tensor  # (n,), block of time that holds both, or N_BLOCKS


def _pairs(panel: Panel, covariates: Covariates, lag: int, most: int) -> _Pairs:
    """Return at most about ``most`` pairs."""
    values, lengths = panel.values, panel.lengths
    step = np.arange(len(values)) - np.repeat(panel.offsets[:-1], lengths)
    late = np.flatnonzero(step >= lag)
    weight = np.ones(len(values)) if panel.weights is None else panel.weights.astype(np.float64)
    weight = np.minimum(weight[late], weight[late - lag])
    change = values[late] - values[late - lag]
    kept = np.flatnonzero(~np.isnan(change) & (weight > 0))
    # Multiples of the golden ratio are even over time and over the phases of any season.
    kept = kept[np.arange(len(kept)) * _GOLDEN % 1 * len(kept) < most]
    late = late[kept]
    length = np.repeat(lengths, lengths)[late]
    begin, end = ((step[at] * N_BLOCKS) // length for at in (late - lag, late))
    return _Pairs(
        torch.from_numpy(_row_of_step(panel, covariates)[late]),
        torch.from_numpy(change[kept]),
        torch.from_numpy(weight[kept]),
        torch.from_numpy(np.where(begin == end, end, N_BLOCKS)),
    )


def _row_of_step(panel: Panel, covariates: Covariates) -> np.ndarray:
    """Return the row of the covariates for each value of the panel."""
    shift = np.repeat(covariates.starts - panel.offsets[:-1], panel.lengths)
    rows: np.ndarray = np.arange(len(panel.values)) + shift
    return rows


def _moments(design: _Design, pairs: _Pairs, lag: int) -> Tensor:
    """Return sums of products of changes, for each block of time and for what straddles two.

    Returns
    -------
    Tensor of shape (blocks + 1, features + 1, features + 1), float64
        Features first, the value last.
    """
    moments = torch.zeros(N_BLOCKS + 1, design.width + 1, design.width + 1, dtype=torch.float64)
    for index in torch.arange(len(pairs.row)).split(_BATCH):
        row, weight, block = pairs.row[index], pairs.weight[index, None], pairs.block[index]
        features = design.of(row) - design.of(row - lag)
        sample = torch.cat([features, pairs.change[index, None]], dim=1).double()
        for number in block.unique().tolist():
            chosen = sample[block == number]
            moments[number] += (chosen * weight[block == number]).T @ chosen
    return moments


def _ridge(moments: Tensor, least_power: float) -> Tensor | None:
    """Return the weights of the ridge whose penalty is best on left-out blocks.

    Parameters
    ----------
    moments : Tensor of shape (blocks + 1, features + 1, features + 1)
        Sums of products of features and target, the last one; the last block is never left out.
    least_power : float
        Features with less are penalised as if they had it.

    Returns
    -------
    Tensor or None
        Of shape (features,); None if they are no better than zero in three of four blocks.
    """
    blocks = moments[:-1]
    folds = blocks.sum(0) - blocks

    def solve(sums: Tensor, penalty: float) -> Tensor:
        gram, cross = sums[..., :-1, :-1], sums[..., :-1, -1:]
        strength = penalty * gram.diagonal(dim1=-2, dim2=-1).clamp(min=least_power)
        return torch.cholesky_solve(cross, torch.linalg.cholesky(gram + strength.diag_embed()))

    def errors(penalty: float) -> Tensor:
        residual = torch.nn.functional.pad(-solve(folds, penalty), (0, 0, 0, 1), value=1.0)
        return (residual.mT @ blocks @ residual).flatten()

    by_penalty = torch.stack([errors(penalty) for penalty in _PENALTIES])  # (penalties, blocks)
    best = int(by_penalty.sum(1).argmin())
    gains = blocks[:, -1, -1] - by_penalty[best]
    if gains.sum() <= 0 or (gains > 0).sum() < _LEAST_BLOCKS_BETTER:
        return None
    return solve(moments.sum(0), _PENALTIES[best])[:, 0]
