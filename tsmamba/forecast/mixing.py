"""What the columns of a wide frame tell about each other: one more ridge for each column.

The base forecasts every series from its own past. What it misses in a column, or the column itself,
is forecast here from the recent past of all columns of the same id: their last steps one by one, as
far back as the horizon where there is room, then means over stretches of doubling width. The column
is among them, so that the others get no credit for what it tells by itself.

A column may follow another after any number of steps, so single steps are read far back, and each
bears a penalty that grows with the square of its distance: a strong signal overcomes it, a weak one
is mostly luck. Penalties are chosen by cross-validation over blocks of time, beside base forecasts
that were made out of fold.

Columns of an origin are in one common unit, so that a column that repeats another is the same
linear map of it in every window. All targets then have the same inputs, and one decomposition
serves them all.

Axis letters: n origins, C columns, F inputs, B blocks of time, S segments of each, H steps ahead.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from tsmamba.data.checks import listing
from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast.base import N_BLOCKS, Context, blocks_of, features, smooth

_MOST_INPUTS = 1024  # single steps of all columns together
_MOST_WEIGHTS = 500_000_000  # of all folds; 4 bytes each
_LEAST_STEPS = 4  # of a column, however many columns there are
_NEAR = 4  # steps whose penalty is not raised
_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)  # by the mean power of an input
_MOST_ORIGINS = 4096
_LEAST_ORIGINS = 32  # in each block of time
_KEPT = (1.0, 0.0)  # shares of the base forecast, the first one preferred
_LEAST_GAIN = 0.01
_LEAST_BLOCKS_BETTER = 3
_LEAST_DEVIATIONS = 3.0  # that a gain must lie above zero
_MOST_SEGMENTS = 8
_BATCH = 256


@dataclass(frozen=True)
class Mixing:
    """A fitted mixing; `fit_mixing` makes one.

    Parameters
    ----------
    context : Context
        What is read of each column.
    columns : int Tensor of shape (m,)
        Columns that the others help to forecast, by their place in the frame.
    weights : Tensor of shape (m, F, H)
        Maps of all columns to the rest of the forecast.
    kept : Tensor of shape (m, H)
        Share of the base in it.
    """

    context: Context
    columns: Tensor
    weights: Tensor
    kept: Tensor

    def mixed(self, base: Tensor, store: WindowStore, windows: Windows) -> Tensor:
        """Return the forecast of some windows, base forecasts being given, both (n, H)."""
        width = self.weights.shape[1] // self.context.n_features
        column = windows.series % width
        mixed = base.clone()
        changed = torch.isin(column, self.columns).nonzero()[:, 0]
        for part in changed.split(_BATCH) if len(changed) else ():
            first = _moved(store, windows.select(part), -column[part])
            # Columns that are forecast from the same origin read the same inputs.
            pairs, place = torch.stack([first.origin, first.series]).unique(
                dim=1, return_inverse=True
            )
            inputs, scale = _inputs(store, Windows(*pairs), self.context, width)
            for number, weights, kept in zip(self.columns, self.weights, self.kept, strict=True):
                rows = part[column[part] == number]
                at = place[column[part] == number]
                rest = inputs[at] @ weights / scale[at, number, None]
                mixed[rows] = kept * base[rows] + rest
        return mixed

    def tensors(self) -> dict[str, Tensor]:
        """Return all fields but the context, for a model file."""
        return {"columns": self.columns, "weights": self.weights, "kept": self.kept}


class Base(Protocol):
    """What mixing corrects."""

    @property
    def horizon(self) -> int:
        """Steps of a forecast, H."""

    def out_of_fold(self, store: WindowStore, windows: Windows) -> Callable[[Tensor], Tensor]:
        """Return what forecasts windows by folds that never saw their targets."""


class MixingFit(NamedTuple):
    """A fitted mixing and what training and judging a corrector on top of it needs."""

    mixing: Mixing  # fitted on all blocks
    folds: tuple[Mixing, ...]  # fold b never saw a target of block b

    @classmethod
    def repeated(cls, mixing: Mixing) -> "MixingFit":
        """Return a fit whose folds are all one mixing."""
        return cls(mixing, (mixing,) * N_BLOCKS)

    def mixed(self, base: Tensor, store: WindowStore, windows: Windows, block: Tensor) -> Tensor:
        """Return the forecast of some windows by the fold without their block, (n,)."""
        mixed = base.clone()
        for number, fold in enumerate(self.folds):
            chosen = block == number
            mixed[chosen] = fold.mixed(base[chosen], store, windows.select(chosen))
        return mixed


def fit_mixing(
    store: WindowStore, windows: Windows, base: Base, context: Context, names: Sequence[str]
) -> tuple[MixingFit | None, str]:
    """Fit the mixing of the columns of a wide frame; all ids share it.

    A step ahead of a column uses it if that lowers both absolute and squared error by a percent on
    left-out blocks of time, against the base and against the same ridge on the column alone, and
    by more than chance would.

    Parameters
    ----------
    store : WindowStore
        The series, the columns of an id side by side.
    windows : Windows
        Training windows.
    base : Base
        What it corrects.
    context : Context
        What the base sees.
    names : sequence of str of length C
        Names of the columns.

    Returns
    -------
    fit : MixingFit or None
        None if no column gains.
    report : str
        For which columns it is used and what they gain, or why not.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from tsmamba.data.panel import read_panel
    >>> from tsmamba.forecast.linear import fit_linear_base
    >>> noise = np.random.default_rng(0).normal(size=503)
    >>> frame = pl.DataFrame({"ds": range(500), "a": noise[3:], "b": noise[:-3]})
    >>> store = WindowStore(read_panel(frame, target_col=["a", "b"]))
    >>> context = Context(length=12, recent=12, level=12)
    >>> windows = store.windows(12, horizon=3)
    >>> base = fit_linear_base(store, windows, context, horizon=3)
    >>> _, report = fit_mixing(store, windows, base, context, ["a", "b"])
    >>> report.split(":")[0]
    "used for 1 of 2 columns ('b')"
    """
    width, horizon = len(names), base.horizon
    first = windows.select(windows.series % width == 0)
    first = first.select(blocks_of(store, first, horizon) >= 0).thinned(_MOST_ORIGINS)
    block = blocks_of(store, first, horizon)
    if int(block.bincount(minlength=N_BLOCKS).min()) < _LEAST_ORIGINS:
        return None, f"not used: a fourth of the history holds fewer than {_LEAST_ORIGINS} windows"
    seen = _seen(context, horizon, width)
    if (1 + N_BLOCKS) * width * width * seen.n_features * horizon > _MOST_WEIGHTS:
        return None, f"not used: the maps of {width} columns, {horizon} steps ahead, are too large"
    parts = [_inputs(store, part, seen, width) for part in first.batches(_BATCH)]
    inputs, scale = (torch.cat(x) for x in zip(*parts, strict=True))
    moved = [_moved(store, first, column) for column in range(width)]
    # One decomposition has one weight for an origin: that of its targets on average.
    counted = [store.target_weights(windows, horizon).mean(1, keepdim=True) for windows in moved]
    weight = torch.stack(counted).mean(0)
    times = _Times.of(store, first, horizon)
    ridges = _Ridges(inputs, weight, times)
    columns, fits, errors = [], [], torch.zeros(2)
    for column in range(width):
        target = _Target.of(store, moved[column], base, context, scale[:, column, None])
        fit = ridges.fit(target)
        alone = _Ridges(inputs.view(len(inputs), width, -1)[:, column], weight, times).fit(target)
        plain = times.losses(target, [target.base[rows] for rows in times.rows])
        better = _better(fit.losses, plain) & _better(fit.losses, alone.losses)
        if better.any():
            columns.append(column)
            fits.append((fit.weights * better, torch.where(better, fit.kept, 1.0)))
            gained = torch.where(better, fit.losses, plain)
            errors += torch.stack([plain[0].sum(), gained[0].sum()]) / target.counted.sum()
    if not columns:
        return None, "not used: no column is forecast better with the others"
    kept = torch.stack([share for _, share in fits])
    mixing, *folds = (
        Mixing(seen, torch.tensor(columns), weights.clone(), kept)
        for weights in torch.stack([weights for weights, _ in fits], dim=1)
    )
    without, with_others = (errors / len(columns)).tolist()
    return MixingFit(mixing, tuple(folds)), (
        f"used for {len(columns)} of {width} columns ({listing([names[c] for c in columns])}): "
        f"error of the base {without:.4g} without, {with_others:.4g} with the others"
    )


def _seen(context: Context, horizon: int, width: int) -> Context:
    """Return what is read of each of some columns: no more than the recent window of the base."""
    stretches = []
    steps = min(horizon, context.recent, max(_LEAST_STEPS, _MOST_INPUTS // width))
    edge, stretch = steps, max(_NEAR, steps // 8)
    while edge + stretch <= context.recent:
        stretches.append((stretch, 1))
        edge, stretch = edge + stretch, 2 * stretch
    return Context(max(edge, context.level), steps, context.level, tuple(stretches))


def _moved(store: WindowStore, windows: Windows, columns: int | Tensor) -> Windows:
    """Return the windows so many columns on, which lie side by side and are equally long."""
    length = store.offsets[windows.series + 1] - store.offsets[windows.series]
    return Windows(windows.origin + length * columns, windows.series + columns)


def _inputs(store: WindowStore, first: Windows, seen: Context, width: int) -> tuple[Tensor, Tensor]:
    """Return what is known at windows of the first column, and the scales of all of them.

    Returns
    -------
    inputs : Tensor of shape (n, F)
        The past of all columns, each without its own level, in units of their mean scale.
    scale : Tensor of shape (n, C)
        Scales of the windows of the columns, in the same unit.
    """
    columns = torch.arange(width).repeat(len(first))
    repeated = (x.repeat_interleave(width) for x in (first.origin, first.series))
    inputs, level = features(store, _moved(store, Windows(*repeated), columns), seen)
    distance = torch.arange(seen.recent, 0, -1)
    inputs[:, : seen.recent] *= (_NEAR / distance).clamp(max=1.0)
    scale = level.scale.view(len(first), width)
    scale = scale / scale.mean(1, keepdim=True)
    inputs = inputs.view(len(first), width, seen.n_features) * scale[..., None]
    return inputs.flatten(1), scale


class _Target(NamedTuple):
    """What came in the windows of a column, beside base forecasts made out of fold.

    Values are in the common unit of the origins.
    """

    values: Tensor  # (n, H), the base forecast where they are missing
    base: Tensor  # (n, H)
    counted: Tensor  # (n, H)
    unit: Tensor  # (n, 1), in units of the standardised series

    @classmethod
    def of(
        cls,
        store: WindowStore,
        windows: Windows,
        base: Base,
        context: Context,
        scale: Tensor,
    ) -> "_Target":
        horizon, parts = base.horizon, []
        for part in windows.batches(_BATCH):
            inputs, level = features(store, part, context)
            forecast = base.out_of_fold(store, part)(inputs)
            came, observed = store.future(part, horizon)
            values = torch.where(observed, level.normalise(came), forecast)
            parts.append((values, forecast, store.target_weights(part, horizon), level.scale))
        values, forecast, counted, own = (torch.cat(x) for x in zip(*parts, strict=True))
        return cls(values * scale, forecast * scale, counted, own / scale)


class _Times(NamedTuple):
    """How origins lie in time."""

    rows: list[Tensor]  # origins of each block
    segments: list[Tensor]  # their segments in it
    n_segments: int  # of a block

    @classmethod
    def of(cls, store: WindowStore, windows: Windows, horizon: int) -> "_Times":
        """Cut blocks into segments of about a horizon, the errors of which tell hardly twice."""
        longest = int(store.offsets.diff().max())
        count = min(max(longest // (N_BLOCKS * horizon), 1), _MOST_SEGMENTS)
        segment = (store.progress(windows) * N_BLOCKS).frac() * count
        block = blocks_of(store, windows, horizon)
        rows = [(block == number).nonzero()[:, 0] for number in range(N_BLOCKS)]
        return cls(rows, [segment[of].long() for of in rows], count)

    def losses(self, target: _Target, forecasts: Iterable[Tensor]) -> Tensor:
        """Return absolute and squared errors of the forecasts of each block, (2, B, S, H)."""
        losses = torch.zeros(2, N_BLOCKS, self.n_segments, target.values.shape[1])
        for number, (rows, segment, forecast) in enumerate(
            zip(self.rows, self.segments, forecasts, strict=True)
        ):
            away = (target.values[rows] - forecast) * target.unit[rows]
            for loss, error in zip(losses[:, number], (away.abs(), away.square()), strict=True):
                loss.index_add_(0, segment, error * target.counted[rows])
        return losses


class _Fit(NamedTuple):
    """The ridges of a column, each step with the penalty and the share of the base that suit it."""

    weights: Tensor  # (1 + B, F, H), on all blocks, then without each
    kept: Tensor  # (H,)
    losses: Tensor  # (2, B, S, H), of each block by the weights without it


class _Ridges:
    """Ridges with the same inputs: on all blocks of time, and on all but each in turn.

    Decomposed once, a ridge of any penalty on any target costs two products.

    Parameters
    ----------
    inputs : Tensor of shape (n, F)
        What is known at each origin.
    weight : Tensor of shape (n, 1)
        How much each origin counts.
    times : _Times
        How they lie in time.
    """

    def __init__(self, inputs: Tensor, weight: Tensor, times: _Times) -> None:
        self._times = times
        self._weighted = inputs * weight
        grams = [(self._weighted[rows].T @ inputs[rows]).double() for rows in times.rows]
        self._power, self._vectors = torch.linalg.eigh(_all_and_without(grams))
        self._turned = [
            inputs[rows] @ vectors.float()
            for rows, vectors in zip(times.rows, self._vectors[1:], strict=True)
        ]

    def fit(self, target: _Target) -> _Fit:
        """Fit a column."""
        options = [(kept, penalty) for kept in _KEPT for penalty in _PENALTIES]
        turned = {kept: self._turned_cross(target.values - kept * target.base) for kept in _KEPT}
        losses = torch.stack(
            [self._losses(target, kept, self._shrunk(turned[kept], p)) for kept, p in options]
        )
        squared = smooth(losses[:, 1].sum((1, 2)))
        squared[len(_PENALTIES) :] *= 1 + _LEAST_GAIN
        best = squared.argmin(0)
        kept, penalty = torch.tensor(options, dtype=torch.float64)[best].T
        cross = torch.where(kept == 1.0, turned[1.0], turned[0.0])
        return _Fit(
            (self._vectors @ self._shrunk(cross, penalty)).float(),
            kept.float(),
            losses.gather(0, best.expand(losses[:1].shape))[0],
        )

    def _turned_cross(self, values: Tensor) -> Tensor:
        """Return products of inputs and some values in the axes of the spectra, (1 + B, F, H)."""
        crosses = [(self._weighted[rows].T @ values[rows]).double() for rows in self._times.rows]
        turned: Tensor = self._vectors.mT @ _all_and_without(crosses)
        return turned

    def _shrunk(self, turned: Tensor, penalty: float | Tensor) -> Tensor:
        """Return weights in the axes of the spectra, shape (1 + B, F, H)."""
        strength = penalty * self._power.mean(1)[:, None, None] + torch.finfo(torch.float64).tiny
        shrunk: Tensor = turned / (self._power[..., None].clamp(min=0.0) + strength)
        return shrunk

    def _losses(self, target: _Target, kept: float, shrunk: Tensor) -> Tensor:
        blocks = zip(self._times.rows, self._turned, shrunk[1:].float(), strict=True)
        return self._times.losses(
            target, [kept * target.base[rows] + x @ weights for rows, x, weights in blocks]
        )


def _all_and_without(blocks: Sequence[Tensor]) -> Tensor:
    """Return the sum over all blocks, then the sums over all but each."""
    total = torch.stack(list(blocks)).sum(0)
    return torch.stack([total, *(total - block for block in blocks)])


def _better(losses: Tensor, others: Tensor) -> Tensor:
    """Return for which steps both losses are clearly lower than others, bool of shape (H,).

    They are of shape (2, B, S, H). Clearly is by a percent in total and in three of four blocks,
    and by more than the differences among segments would make by chance.
    """
    gain, base = (smooth(x.flatten(0, -2)).view_as(x) for x in (others - losses, others))
    in_total = gain.sum((1, 2)) > _LEAST_GAIN * base.sum((1, 2))
    in_blocks = (gain.sum(2) > _LEAST_GAIN * base.sum(2)).all(0).sum(0) >= _LEAST_BLOCKS_BETTER
    single = gain.flatten(1, 2)
    chance = single.std(1) * single.shape[1] ** 0.5
    beyond_chance = single.sum(1) > _LEAST_DEVIATIONS * chance
    better: Tensor = (in_total & beyond_chance).all(0) & in_blocks
    return better
