"""The linear base of the forecaster: a ridge in closed form, one map shared by all series.

A forecast is a linear map of the normalised recent window, at full rate, and of means over
stretches of the far past, the longer the farther. There is no bias: it fits the training years and
misleads in later ones. What the far past tells about the level does so, too, where it is not held
back, so its weights bear a penalty that grows with the length of the stretch.

The penalty draws the map towards a simple forecast: the level, the last value, or the last season,
which is hard to beat where series are short, alike in nothing, or near a random walk. The strongest
penalty leaves nothing but that forecast. Penalty and simple forecast are chosen for each step ahead
by cross-validation over blocks of time, and the last value stands unless three of four blocks
contradict it; the folds cost nothing beyond the fit, because the normal equations of a fold are a
difference of block sums.
A base that was fitted before is fitted to newer data in the same way, drawn to its present map.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tsmamba.data.windows import Windows, WindowStore

# Least scale of a window, of the unit variance of its series: flat windows must not blow up.
_SCALE_FLOOR = 0.1
# Squared errors count by scale ** 1.5, between relative (0 + 2) and absolute (2) error.
SCALE_POWER = 1.5
# A mean over w steps enters times (4 / w) ** 1.5, which multiplies its penalty by (w / 4) ** 3.
_FULL_STRETCH = 4
_FAR_POWER = 1.5
_N_DIRECTIONS = 24
_BATCH = 4096
N_BLOCKS = 4
# A stronger pull to the level does well on one block and not on the next; to the others it is
# harmless.
_MOST_TO_LEVEL = 0.1
PENALTIES = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0, 10.0, 1000.0)
_LEAST_BLOCKS_BETTER = 0.75
_LEAST_GAIN = 0.01  # of another simple forecast than the level, against luck in the choice
SIMPLE = ("level", "last value", "last season")
_LAST_VALUE = 1  # its place
_LEAST_TO_CHOOSE = 32  # windows
# What was learned before is harmless, however strong the pull to it.
_PENALTIES_TO_PRESENT = (*PENALTIES[:-1], 100.0, 1000.0)


@dataclass(frozen=True)
class Context:
    """What a forecast sees of the past.

    Parameters
    ----------
    length : int
        Steps of context in all.
    recent : int
        The last steps, read at full rate.
    level : int
        The last steps, which give level and scale.
    stretches : tuple of (int, int)
        Steps of a stretch of the far past and how many there are, nearest first.
    """

    length: int
    recent: int
    level: int
    stretches: tuple[tuple[int, int], ...] = ()

    @property
    def n_features(self) -> int:
        """Number of inputs of the linear base."""
        return self.recent + sum(count for _, count in self.stretches)


class Level(NamedTuple):
    """Mean and scale of the last steps; forecasts are made in units of them."""

    mean: Tensor  # (n, 1)
    scale: Tensor  # (n, 1)

    def normalise(self, x: Tensor) -> Tensor:
        """Return ``x`` in units of the window."""
        return (x - self.mean) / self.scale

    def restore(self, x: Tensor) -> Tensor:
        """Undo `normalise`."""
        return x * self.scale + self.mean


class BaseFit(NamedTuple):
    """A fitted base and what training a corrector on its errors needs."""

    weights: Tensor  # (F, H), fitted on all blocks
    fold_weights: Tensor  # (blocks, F, H): fold b never saw a target of block b
    penalties: Tensor  # (H,)
    simple: Tensor  # (H,), what it is drawn to: the place in `SIMPLE`, or 0 for a present map
    directions: Tensor  # (F, R), in which the inputs vary most

    def out_of_fold(self, block: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the map that forecasts each window by the fold without its block, (n,).

        Windows that straddle two blocks (-1) were in no fold; the first one serves them.
        """

        def forecast(inputs: Tensor) -> Tensor:
            out = inputs.new_empty(len(inputs), self.weights.shape[1])
            for number, weights in enumerate(self.fold_weights):
                chosen = block.clamp(min=0) == number
                out[chosen] = inputs[chosen] @ weights
            return out

        return forecast


def features(store: WindowStore, windows: Windows, context: Context) -> tuple[Tensor, Level]:
    """Return the inputs of the base, shape (n, F), and the level they are normalised by."""
    history = store.history(windows, max(context.level, context.recent))
    last = history[:, -context.level :]
    scale = (last.var(1, unbiased=False, keepdim=True) + _SCALE_FLOOR**2).sqrt()
    level = Level(last.mean(1, keepdim=True), scale)
    inputs = [level.normalise(history[:, -context.recent :])]
    skip = context.recent
    for width, count in context.stretches:
        means, inside = store.past_means(windows, skip, width, count)
        weight = min(1.0, _FULL_STRETCH / width) ** _FAR_POWER
        inputs.append(torch.where(inside, weight * level.normalise(means), 0.0))
        skip += width * count
    return torch.cat(inputs, dim=1), level


def blocks_of(store: WindowStore, windows: Windows, horizon: int) -> Tensor:
    """Return the block of time that holds all targets of a window, or -1 if they straddle two.

    Blocks are equal parts of each series, so that folds differ in time and not in series.
    """
    last = Windows(windows.origin + horizon - 1, windows.series)
    begin = (store.progress(windows) * N_BLOCKS).long().clamp(max=N_BLOCKS - 1)
    end = (store.progress(last) * N_BLOCKS).long().clamp(max=N_BLOCKS - 1)
    return torch.where(begin == end, begin, -1)


def fold_of(store: WindowStore, windows: Windows, horizon: int, n_folds: int) -> Tensor:
    """Return which of some folds never saw the targets of each window, shape (n,).

    Parameters
    ----------
    store, windows, horizon
        Values, where, and how many steps.
    n_folds : int
        As many as blocks, where fold b has not seen block b, or a single one, which has seen none.

    Returns
    -------
    int Tensor
        Windows that straddle two blocks count to the first of all.
    """
    return blocks_of(store, windows, horizon).clamp(min=0) % n_folds


class NormalEquations:
    """Weighted sums over windows from which any ridge, and its error, follows."""

    def __init__(self, n_features: int, horizon: int) -> None:
        self.gram = torch.zeros(n_features, n_features, dtype=torch.float64)
        self.cross = torch.zeros(n_features, horizon, dtype=torch.float64)
        self.power = torch.zeros(horizon, dtype=torch.float64)
        self.count = 0  # windows of some weight

    def add(self, inputs: Tensor, targets: Tensor, weight: Tensor) -> None:
        """Count some windows, each by its weight."""
        weighted = inputs * weight
        self.gram += (weighted.T @ inputs).double()
        self.cross += (weighted.T @ targets).double()
        self.power += (targets * targets * weight).sum(0).double()
        self.count += int((weight > 0).sum())

    def plus(self, other: "NormalEquations", sign: int = 1) -> "NormalEquations":
        """Return the sums over the windows of both, or with -1 over those of one alone."""
        total = NormalEquations(*self.cross.shape)
        total.gram = self.gram + sign * other.gram
        total.cross = self.cross + sign * other.cross
        total.power = self.power + sign * other.power
        total.count = self.count + sign * other.count
        return total

    def solve(self, penalty: float, drawn_to: list[Tensor]) -> list[Tensor]:
        """Return the ridge that is drawn to each of some maps, shape (F, H)."""
        strength = penalty * 10 * self.gram.diagonal().mean() + torch.finfo(torch.float64).tiny
        ridge = self.gram + strength * torch.eye(len(self.gram), dtype=torch.float64)
        factor = torch.linalg.cholesky(ridge)
        return [torch.cholesky_solve(self.cross + strength * to, factor) for to in drawn_to]

    def directions(self) -> Tensor:
        """Return the leading directions of the inputs, shape (F, R)."""
        vectors: Tensor = torch.linalg.eigh(self.gram).eigenvectors
        return vectors[:, -_N_DIRECTIONS:].float().contiguous()

    def error(self, weights: Tensor) -> Tensor:
        """Return the weighted squared error of each step, shape (H,)."""
        quadratic = (weights * (self.gram @ weights)).sum(0)
        return self.power - 2 * (weights * self.cross).sum(0) + quadratic


class _Choice(NamedTuple):
    """What may be chosen for each step ahead."""

    maps: list[Tensor]  # (F, H) each, to draw to
    penalties: tuple[float, ...]
    most_to_first: float  # the strongest penalty of those that draw to the first map


def fit_base(
    store: WindowStore,
    windows: Windows,
    context: Context,
    horizon: int,
    season: int = 1,
    present: Tensor | None = None,
) -> BaseFit:
    """Fit the base and its out-of-fold twins.

    Parameters
    ----------
    store : WindowStore
        The series.
    windows : Windows
        Training windows.
    context : Context
        What the base sees.
    horizon : int
        Steps to forecast, H.
    season : int, default 1
        Steps of a season.
    present : Tensor of shape (F, H), optional
        Weights to draw the map to, in place of the simple forecasts.

    Returns
    -------
    BaseFit
        Weights in units of a window's level.
    """
    parts = [NormalEquations(context.n_features, horizon) for _ in range(N_BLOCKS + 1)]
    for batch in windows.batches(_BATCH):
        inputs, level = features(store, batch, context)
        values, _ = store.future(batch, horizon)
        targets = level.normalise(values)
        # A filled target is a guess: a window counts by its share of real ones.
        share = store.target_weights(batch, horizon).mean(1, keepdim=True)
        weight = level.scale**SCALE_POWER * share
        block = blocks_of(store, batch, horizon)
        for number, part in enumerate(parts):
            chosen = block == (number if number < N_BLOCKS else -1)
            if chosen.any():
                part.add(inputs[chosen], targets[chosen], weight[chosen])
    *blocks, straddling = parts
    inner = blocks[0]
    for block_sums in blocks[1:]:
        inner = inner.plus(block_sums)
    if present is None:
        choice = _Choice(_simple_maps(context, horizon, season), PENALTIES, _MOST_TO_LEVEL)
    else:
        choice = _Choice([present.double()], _PENALTIES_TO_PRESENT, _PENALTIES_TO_PRESENT[-1])
    return _choose(blocks, inner, inner.plus(straddling), choice)


def repeated_inputs(context: Context, horizon: int, period: int) -> Tensor:
    """Return which input each step repeats if the last ``period`` steps come again, (H,)."""
    return context.recent - period + torch.arange(horizon) % period


def _simple_maps(context: Context, horizon: int, season: int) -> list[Tensor]:
    """Return the maps of the simple forecasts, in the order of `SIMPLE`."""
    level = torch.zeros(context.n_features, horizon, dtype=torch.float64)
    maps = [level]
    for period in (1, season):
        one = level.clone()
        if period <= context.recent:
            one[repeated_inputs(context, horizon, period), torch.arange(horizon)] = 1.0
        maps.append(one)
    return maps


def _choose(
    blocks: list[NormalEquations],
    inner: NormalEquations,
    total: NormalEquations,
    choice: _Choice,
) -> BaseFit:
    """Choose penalty and map of each step by the error on left-out blocks."""
    horizon = total.cross.shape[1]
    maps, penalties, most = choice
    if sum(block.count > 0 for block in blocks) < 2:  # too short to leave a block out
        weights = total.solve(most, maps[:1])[0].float()
        # The map has seen no target; the errors of the weights would be in-sample.
        unfitted = maps[0].float().expand(N_BLOCKS, -1, -1)
        penalty = torch.full((horizon,), most)
        return BaseFit(
            weights, unfitted, penalty, torch.zeros(horizon, dtype=torch.long), total.directions()
        )
    # A handful of windows tells no penalty from another; the strongest does the least harm.
    few = inner.count < _LEAST_TO_CHOOSE
    penalties, drawn_to = ((most,), maps[:1]) if few else (penalties, maps)
    folds = [inner.plus(block, -1) for block in blocks]
    # Solving again for the chosen ones costs less memory than keeping all solutions.
    errors = torch.zeros(len(folds), len(penalties), len(drawn_to), horizon, dtype=torch.float64)
    for number, (block, fold) in enumerate(zip(blocks, folds, strict=True)):
        for place, strength in enumerate(penalties):
            solved = fold.solve(strength, drawn_to)
            errors[number, place] = torch.stack([block.error(weights) for weights in solved])
    told = torch.tensor([block.count > 0 for block in blocks])
    best = _best(errors[told], torch.tensor(penalties, dtype=torch.float64) > most)
    row, column = best // len(drawn_to), best % len(drawn_to)
    every = torch.stack(
        [_solved(sums, penalties, drawn_to, row, column) for sums in (total, *folds)]
    ).float()
    penalty = torch.tensor(penalties)[row]
    return BaseFit(every[0].clone(), every[1:].clone(), penalty, column, total.directions())


def _best(errors: Tensor, too_strong: Tensor) -> Tensor:
    """Return the place of penalty and simple forecast of each step, (H,).

    The last value stands where the best map does not beat it in three of four blocks: a few drifts
    of a random walk can make any map look better.

    Parameters
    ----------
    errors : Tensor of shape (blocks, penalties, simple forecasts, H)
        On blocks left out.
    too_strong : bool Tensor of shape (penalties,)
        Penalties that may not draw to the first simple forecast.

    Returns
    -------
    int Tensor of shape (H,)
        In the flattened table of penalties and simple forecasts.
    """
    total = errors.sum(0)
    total[:, 1:] *= 1 + _LEAST_GAIN
    total[too_strong, 0] = torch.inf
    best = smooth(total.flatten(0, 1)).argmin(0)
    if errors.shape[2] == 1:
        return best
    # The strongest pull to the last value leaves nothing else.
    last = (len(total) - 1) * len(SIMPLE) + _LAST_VALUE
    every = torch.stack([smooth(block.flatten(0, 1)) for block in errors])
    better = every.gather(1, best.expand(len(every), 1, -1))[:, 0] <= every[:, last]
    return torch.where(better.double().mean(0) < _LEAST_BLOCKS_BETTER, last, best)


def _solved(
    sums: NormalEquations,
    penalties: tuple[float, ...],
    drawn_to: list[Tensor],
    row: Tensor,
    column: Tensor,
) -> Tensor:
    """Return the ridge with its own penalty and simple forecast for each step."""
    steps = torch.arange(len(row))
    aim = torch.stack(drawn_to)[column, :, steps].T  # (F, H)
    out = torch.empty_like(aim)
    for index in row.unique().tolist():
        out[:, row == index] = sums.solve(penalties[index], [aim])[0][:, row == index]
    return out


def smooth(errors: Tensor, reach: int = 12) -> Tensor:
    """Average errors over neighbouring steps, so that the choice does not follow noise."""
    width = min(2 * reach + 1, errors.shape[1] | 1)
    pad = width // 2
    edges = torch.nn.functional.pad(errors[None], (pad, pad), mode="replicate")[0]
    return edges.unfold(1, width, 1).mean(-1)
