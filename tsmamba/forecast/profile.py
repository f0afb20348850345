"""What the clock and the calendar explain by themselves: a seasonal profile of each series.

A profile says what each phase of a day, a week or another season adds to the level, and how that
and the level itself vary through the year. It is taken off the series before anything else, and
added to forecasts. Years of data say more about a week in May than the recent window can.

Profiles are a ridge in closed form, drawn to no profile at all. A profile that was fitted to a
block of time always does well on it, so each candidate is judged on blocks that neither profile
nor base have seen, beside the base without one. Where the phases change over the years, as they
often do, none is better, and none is used.

Axis letters: S series, P phases, Q = 1 + 2 K terms of the year, a one and K harmonics.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import pi
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tsmamba.data.panel import Panel
from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast.base import (
    N_BLOCKS,
    SCALE_POWER,
    Context,
    Level,
    NormalEquations,
    blocks_of,
    features,
)
from tsmamba.forecast.local import gains

_DAY, _YEAR = 86_400.0, 31_556_952.0
_LONGEST = 10_080  # phases: a week of minutes
_LEAST_CYCLES = 8  # of the longest profile, two in each block of time
_LEAST_YEARS = 2
_HARMONICS = (1, 2)  # of the year
_PHASES_A_YEAR = 4  # the year says something of its own only beside shorter seasons
# In numbers of observations that say zero.
_PENALTY, _PENALTY_YEAR = 5.0, 20.0
_NONE = 1e12  # leaves the year out
_MOST_CELLS = 4_000_000  # of normal equations, S P Q Q, in each block of time
_JUDGED, _JUDGED_STEPS = 5_000, 96  # windows, and steps of their horizon
_JUDGE_PENALTY = 0.03  # of the base beside which profiles are judged
_ROWS, _BATCH = 65_536, 1_024


@dataclass(frozen=True)
class Profile:
    """A fitted profile; `fit_profile` makes one.

    Parameters
    ----------
    tables : Tensor of shape (S, P, Q)
        What each phase adds to a series, in units of the standardised series: on average, and by
        sine and cosine of each harmonic of the year.
    """

    tables: Tensor

    def at(self, panel: Panel, series: Tensor, steps: Tensor) -> Tensor:
        """Return the profile at some steps.

        Parameters
        ----------
        panel : Panel
            The series; those that were not fitted have none.
        series : int Tensor of shape (n,)
            Number of the series in it.
        steps : int Tensor of shape (n, T)
            Steps since the start of the series; may lie beyond its end.

        Returns
        -------
        Tensor of shape (n, T), float32
        """
        numbers = torch.from_numpy(panel.numbers)[series][:, None]
        count = torch.from_numpy(_first_counts(panel))[series][:, None] + steps
        terms = _terms(count, self.tables.shape[2], _steps_a_year(panel))
        rows = self.tables[numbers.clamp(min=0), count % self.tables.shape[1]]
        return torch.where(numbers >= 0, (rows * terms).sum(-1), 0.0)

    def removed(self, panel: Panel) -> Panel:
        """Return the series without the profile; missing values stay missing."""
        rest = panel.values.copy()
        for rows in torch.arange(len(rest)).split(_ROWS):
            series, steps = _rows_of(panel, rows)
            rest[rows] -= self.at(panel, series, steps[:, None])[:, 0].numpy()
        return replace(panel, values=rest)

    def renumbered(self, numbers: Tensor) -> "Profile":
        """Return the same for series in another order, -1 for new ones, which have none."""
        return Profile(torch.where((numbers < 0)[:, None, None], 0.0, self.tables[numbers]))

    def completed(self, panel: Panel) -> "Profile":
        """Return the profile of a panel in which some series are new, fitted to these as well.

        Parameters
        ----------
        panel : Panel
            Series with the numbers of the fit, -1 for new ones.

        Returns
        -------
        Profile
            In the order of the panel.
        """
        known = self.renumbered(torch.from_numpy(panel.numbers))
        period, terms = self.tables.shape[1:]
        every = _Sums(panel, 0).whole(_Shape(period, terms // 2))
        new = torch.from_numpy(panel.numbers < 0)[:, None, None]
        return Profile(torch.where(new, every.tables, known.tables))


def fit_profile(
    panel: Panel, windows: Windows, context: Context, horizon: int, season: int, held_out: int = 0
) -> tuple[Profile | None, str]:
    """Fit a profile, if one helps the base.

    Candidates are a season, a day and a week, each where eight of them are there and the clock
    makes it a whole number of steps. The best of them, or none, is then tried with one and with two
    harmonics of the year, where two years are there. Each step has to lower the squared error of
    the base by a percent, in the mean over series and in three of four blocks of time.

    Parameters
    ----------
    panel : Panel
        The series.
    windows : Windows
        Training windows.
    context : Context
        What the base sees.
    horizon : int
        Steps to forecast.
    season : int
        Steps of a season, 1 if there is none.
    held_out : int, default 0
        Steps at the end of each series that must not be learned from.

    Returns
    -------
    profile : Profile or None
        The best one.
    said : str
        Its phases and what it gained, or why there is none.

    Examples
    --------
    >>> import polars as pl
    >>> from tsmamba.data.panel import read_panel
    >>> weekdays = np.tile(np.repeat([0.0, 3.0], [120, 48]), 12)
    >>> noise = np.random.default_rng(0).normal(size=2016)
    >>> hours = pl.datetime_range(pl.date(2024, 1, 1), pl.date(2024, 4, 1), "1h", eager=True)
    >>> panel = read_panel(pl.DataFrame({"ds": hours.head(2016), "y": weekdays + noise}))
    >>> context = Context(length=48, recent=48, level=48)
    >>> windows = WindowStore(panel).windows(48, horizon=24)
    >>> profile, said = fit_profile(panel, windows, context, 24, season=24)
    >>> profile.tables.shape
    torch.Size([1, 168, 1])
    """
    if panel.freq.uneven:
        return None, "not used: uneven time has no phases"
    shapes = [_Shape(period, 0) for period in _periods(panel, season)]
    judge = _Judge.of(panel, windows, context, horizon, season)
    if len(judge.block.unique()) < 2 or not (shapes or _shapes_of_year(panel, 1)):
        return None, "not used: too few seasons to judge one by"
    sums = _Sums(panel, held_out)
    best, part = _chosen(shapes, judge, sums)
    if best is None:
        return None, "not used: none lowers the error of the base on blocks left out"
    return sums.whole(best), f"used: {best}, squared error of the base {part:.4g} of that without"


def _chosen(
    shapes: "list[_Shape]", judge: "_Judge", sums: "_Sums"
) -> "tuple[_Shape | None, float]":
    """Return the best shape, and its error as a part of that without a profile."""
    without = judge.errors([None] * N_BLOCKS)
    best, least = _better(None, without, shapes, judge, sums)
    of_year = _shapes_of_year(judge.panel, 1 if best is None else best.period)
    best, least = _better(best, least, of_year, judge, sums)
    return best, float(least.sum() / without.sum())


def _better(
    best: "_Shape | None", least: Tensor, shapes: "list[_Shape]", judge: "_Judge", sums: "_Sums"
) -> "tuple[_Shape | None, Tensor]":
    """Return the shape of least error and its errors, if any betters the best so far."""
    for shape in shapes:
        errors = judge.errors(sums.without_blocks(shape))
        if bool(gains(errors[..., None], least[..., None])):
            best, least = shape, errors
    return best, least


class _Shape(NamedTuple):
    """What a profile may vary with."""

    period: int  # steps
    harmonics: int  # of the year

    def __str__(self) -> str:
        parts = [f"season of {self.period} steps"] if self.period > 1 else []
        parts += [f"year ({self.harmonics} harmonics)"] if self.harmonics else []
        return " and ".join(parts)

    @property
    def terms(self) -> int:
        """Numbers that say what a phase adds, Q."""
        return 1 + 2 * self.harmonics

    def fits(self, panel: Panel) -> bool:
        """Tell whether its normal equations are few enough to keep."""
        return len(panel) * self.period * self.terms**2 <= _MOST_CELLS


def _periods(panel: Panel, season: int) -> list[int]:
    """Return the seasons that profiles are tried for, in steps."""
    step = panel.freq.seconds
    days = season if step is None else _DAY / step
    found = (season, days, 7 * days) if season > 1 or step else ()
    most = min(_LONGEST, float(np.median(panel.lengths)) / _LEAST_CYCLES)
    whole = {int(x) for x in found if x == int(x) and 2 <= x <= most}
    return sorted(period for period in whole if _Shape(period, 0).fits(panel))


def _shapes_of_year(panel: Panel, period: int) -> list[_Shape]:
    """Return the shapes with some harmonics of the year."""
    year = _steps_a_year(panel)
    if np.median(panel.lengths) < _LEAST_YEARS * year or year < _PHASES_A_YEAR * period:
        return []
    return [shape for k in _HARMONICS if (shape := _Shape(period, k)).fits(panel)]


def _steps_a_year(panel: Panel) -> float:
    """Return the steps of a year, infinite for integer stamps."""
    return _YEAR / panel.freq.seconds if panel.freq.seconds else np.inf


def _first_counts(panel: Panel) -> np.ndarray:
    """Return the count of the first step of each series; equal stamps have equal counts."""
    places = panel.freq.line(panel.first).to_numpy()
    counts: np.ndarray = places // panel.freq.step_length(panel.first.dtype)
    return counts


def _terms(count: Tensor, n_terms: int, steps_a_year: float) -> Tensor:
    """Return a one, and sine and cosine of each harmonic of the year, shape (..., Q)."""
    angle = 2 * pi * (count.double() / steps_a_year % 1)
    waves = [f(k * angle) for k in range(1, n_terms // 2 + 1) for f in (torch.sin, torch.cos)]
    return torch.stack([torch.ones_like(angle), *waves], dim=-1).float()


def _rows_of(panel: Panel, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return series and step of some values of a panel."""
    offsets = torch.from_numpy(panel.offsets)
    series = torch.searchsorted(offsets, rows, right=True) - 1
    return series, rows - offsets[series]


class _Sums(NamedTuple):
    """The normal equations of profiles."""

    panel: Panel
    held_out: int

    def without_blocks(self, shape: _Shape) -> "list[Profile | None]":
        """Return profiles that never saw a block, one for each."""
        blocks = self._blocks(shape)
        return [Profile(self._solved(blocks.sum(0) - block)) for block in blocks]

    def whole(self, shape: _Shape) -> Profile:
        """Return the profile fitted to all rows."""
        return Profile(self._solved(self._blocks(shape).sum(0)))

    def _blocks(self, shape: _Shape) -> Tensor:
        """Return the normal equations of each block, (blocks, S, P, Q, Q + 1)."""
        panel, q, n = self.panel, shape.terms, len(self.panel)
        lengths = torch.from_numpy(panel.lengths)
        first, year = torch.from_numpy(_first_counts(panel)), _steps_a_year(panel)
        out = torch.zeros(N_BLOCKS * n * shape.period, q * (q + 1), dtype=torch.float64)
        # The penalties count whole observations, so weights have a mean of one.
        weights = np.ones(1) if panel.weights is None else panel.weights
        weight = torch.from_numpy(weights / weights[weights > 0].mean()).double()
        for rows in torch.arange(len(panel.values)).split(_ROWS):
            series, steps = _rows_of(panel, rows)
            value = torch.from_numpy(panel.values)[rows].double()
            kept = ~value.isnan() & (steps < lengths[series] - self.held_out)
            series, steps, value = series[kept], steps[kept], value[kept]
            count = first[series] + steps
            terms = _terms(count, q, year).double()
            left = terms * weight.expand(len(panel.values))[rows][kept, None]
            right = torch.cat([terms, value[:, None]], dim=1)
            block = steps * N_BLOCKS // lengths[series]
            group = (block * n + series) * shape.period + count % shape.period
            out.index_add_(0, group, (left[:, :, None] * right[:, None]).flatten(1))
        return out.view(N_BLOCKS, n, shape.period, q, q + 1)

    def _solved(self, sums: Tensor) -> Tensor:
        """Return the tables of normal equations (S, P, Q, Q + 1): a level, and what phases add."""
        q = sums.shape[-2]
        short = self.panel.lengths < _LEAST_YEARS * _steps_a_year(self.panel)
        of_year = torch.from_numpy(np.where(short, _NONE, _PENALTY_YEAR))[:, None].expand(-1, q - 1)

        def solve(sums: Tensor, of_mean: float) -> Tensor:
            penalty = torch.cat([torch.full((len(sums), 1), of_mean).double(), of_year], dim=1)
            shape = (len(sums),) + (1,) * (sums.dim() - 3) + (q, q)
            gram = sums[..., :q] + penalty.diag_embed().view(shape)
            solved: Tensor = torch.linalg.solve(gram, sums[..., q])
            return solved

        level = solve(sums.sum(1), 1e-6)  # (S, Q)
        rest = sums.clone()
        rest[..., q] -= (sums[..., :q] @ level[:, None, :, None])[..., 0]
        tables = solve(rest, _PENALTY)
        tables[..., 1:] += level[:, None, 1:]  # the mean level is for the base to see
        return tables.float()


class _Judge(NamedTuple):
    """Tells how much a profile helps the base on blocks of time that neither has seen."""

    panel: Panel
    store: WindowStore  # of its values as they are
    windows: Windows
    block: Tensor  # (n,), of each window
    context: Context
    horizon: int
    season: int

    @classmethod
    def of(
        cls, panel: Panel, windows: Windows, context: Context, horizon: int, season: int
    ) -> "_Judge":
        """Take as many windows as tell, of those inside a block."""
        store = WindowStore(panel, season)
        windows = windows.select(blocks_of(store, windows, horizon) >= 0).thinned(_JUDGED)
        block = blocks_of(store, windows, horizon)
        return cls(panel, store, windows, block, context, horizon, season)

    def errors(self, profiles: "list[Profile | None]") -> Tensor:
        """Return the squared errors of each series in each block, (S, blocks)."""
        out = torch.zeros(N_BLOCKS, len(self.panel), dtype=torch.float64)
        steps = torch.linspace(0, self.horizon - 1, min(self.horizon, _JUDGED_STEPS)).long()
        to_level = torch.zeros(self.context.n_features, len(steps), dtype=torch.float64)
        for block, profile in enumerate(profiles):
            store = self.store
            if profile is not None:
                store = WindowStore(profile.removed(self.panel), self.season)
            equations = NormalEquations(self.context.n_features, len(steps))
            for part in self._batches(store, self.block != block, steps):
                scale = part.level.scale
                share = part.counted.mean(1, keepdim=True)
                equations.add(part.inputs, part.targets, scale**SCALE_POWER * share)
            weights = equations.solve(_JUDGE_PENALTY, [to_level])[0].float()
            for part in self._batches(store, self.block == block, steps):
                errors = (part.inputs @ weights - part.targets) * part.level.scale
                each = (errors.square() * part.counted).sum(1).double()
                out[block].index_add_(0, part.series, each)
        return out.T

    def _batches(self, store: WindowStore, chosen: Tensor, steps: Tensor) -> "Iterator[_Batch]":
        """Give the chosen windows with the targets at some steps of the horizon."""
        some = self.windows.select(chosen)
        for windows in some.batches(_BATCH) if len(some) else ():
            inputs, level = features(store, windows, self.context)
            values, _ = store.future(windows, self.horizon)
            counted = store.target_weights(windows, self.horizon)[:, steps]
            yield _Batch(inputs, level, level.normalise(values[:, steps]), counted, windows.series)


class _Batch(NamedTuple):
    """Some windows for the judge."""

    inputs: Tensor  # (n, F)
    level: Level
    targets: Tensor  # (n, steps)
    counted: Tensor  # (n, steps)
    series: Tensor  # (n,)
