"""What each series has of its own: a map near the shared one, and its mixture of simple forecasts.

One map shared by all series is hard to beat where series are alike, and wrong for each where they
are not. So every series gets, in closed form, a ridge of its own on the errors of the shared map,
in the few directions in which the inputs vary most, and a convex mixture of the shared map, its own
and simple forecasts: the last value, the last season, and the season seven seasons ago, which is
the same day of last week where a season is a day.

Maps and mixtures are fitted for each fold of the base without the targets of its block, so that
what a series gains is measured on values that neither has seen. Where it gains nothing the mixture
is the shared map alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import torch
from torch import Tensor

from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast.base import (
    N_BLOCKS,
    SCALE_POWER,
    BaseFit,
    Context,
    blocks_of,
    features,
    repeated_inputs,
)

MEMBERS = ("shared map", "own map", "last value", "last season", "seven seasons ago")
_SHARED = 0  # the place of that member
_PENALTY = 0.03  # of an own map
_PARTS = 4  # of the horizon, each with its own mixture
_PULL = 0.03  # of the mixture to the shared map, in units of its squared error
_BATCH = 8192
_LEAST_GAIN = 0.01
_LEAST_BLOCKS_BETTER = 0.75
LEAST_WINDOWS = 24  # of a series, in the mean
_MOST_OUTPUTS = 1_000_000  # series times steps; 500 bytes each while fitting


@dataclass(frozen=True)
class Local:
    """Own maps and mixtures of the fitted series.

    The leading axis is 1, or in training 1 + blocks: fitted on all, then without each block.

    Parameters
    ----------
    directions : Tensor of shape (F, R)
        In which the inputs vary most.
    maps : Tensor of shape (folds, S, R, H)
        What the own map of each series adds to the shared one.
    shares : Tensor of shape (folds, S, K, H)
        Weights of shared map, own map and simple forecasts; they sum to one.
    places : int Tensor of shape (K - 2, H)
        Which input each of the simple forecasts repeats at each step.
    """

    directions: Tensor
    maps: Tensor
    shares: Tensor
    places: Tensor

    def members(self, inputs: Tensor, shared: Tensor, series: Tensor, fold: Tensor) -> Tensor:
        """Return what is mixed, shape (n, K, H)."""
        scores = inputs @ self.directions
        own = torch.bmm(scores[:, None], self.maps[fold, series])[:, 0]
        simple = inputs[:, self.places]
        return torch.cat([shared[:, None], (shared + own)[:, None], simple], dim=1)

    def __call__(
        self, inputs: Tensor, shared: Tensor, series: Tensor, fold: Tensor | None = None
    ) -> Tensor:
        """Return the mixed forecast.

        Parameters
        ----------
        inputs : Tensor of shape (n, F)
            Of the base.
        shared : Tensor of shape (n, H)
            Forecast of the shared map.
        series : int Tensor of shape (n,)
            Number of each series among the fitted ones; others, -1, keep the shared forecast.
        fold : int Tensor of shape (n,), optional
            Which fit to use; that on all by default.

        Returns
        -------
        Tensor of shape (n, H)
            In units of the window's level.
        """
        known = series >= 0
        if not known.all():
            mixed = shared.clone()
            if known.any():
                part = fold if fold is None else fold[known]
                mixed[known] = self(inputs[known], shared[known], series[known], part)
            return mixed
        fold = torch.zeros_like(series) if fold is None else fold
        shares = self.shares[fold, series]
        return (self.members(inputs, shared, series, fold) * shares).sum(1)

    def whole(self) -> "Local":
        """Return the fit on all blocks alone."""
        return replace(self, maps=self.maps[:1].clone(), shares=self.shares[:1].clone())

    def repeated(self) -> "Local":
        """Return the fit on all blocks in the place of that of every fold, too."""
        folds = 1 + N_BLOCKS
        return replace(
            self,
            maps=self.maps[:1].expand(folds, -1, -1, -1),
            shares=self.shares[:1].expand(folds, -1, -1, -1),
        )

    def renumbered(self, numbers: Tensor) -> "Local":
        """Return the same for series in another order.

        Parameters
        ----------
        numbers : int Tensor of shape (S,)
            The present number of each series; -1 for a new one, which keeps the shared map.
        """
        new = (numbers < 0)[None, :, None, None]
        alone = torch.zeros_like(self.shares[:, :1])
        alone[:, :, _SHARED] = 1.0
        return replace(
            self,
            maps=torch.where(new, 0.0, self.maps[:, numbers]),
            shares=torch.where(new, alone, self.shares[:, numbers]),
        )

    def summary(self) -> dict[str, float]:
        """Return the mean share of each member."""
        shares = self.shares[0].mean((0, 2)).tolist()
        return {name: round(share, 3) for name, share in zip(MEMBERS, shares, strict=False)}


def fit_local(
    store: WindowStore, windows: Windows, context: Context, base: BaseFit, season: int
) -> Local | None:
    """Fit own maps and mixtures.

    Parameters
    ----------
    store : WindowStore
        The series.
    windows : Windows
        Training windows, in order of series.
    context : Context
        What the base sees.
    base : BaseFit
        The shared map and its folds.
    season : int
        Steps of a season.

    Returns
    -------
    Local or None
        None where series do not gain by it, are too short to tell, or too many to keep maps of.
    """
    n_series, horizon = len(store.offsets) - 1, base.weights.shape[1]
    if len(windows) < LEAST_WINDOWS * n_series or n_series * horizon > _MOST_OUTPUTS:
        return None
    maps = _own_maps(store, windows, context, base)
    shares = torch.zeros(1, 1, 2, horizon)
    local = Local(base.directions, maps, shares, _places(context, horizon, season))
    errors = _error_products(store, windows, context, base, local)
    return _mixed(local, errors, horizon)


def _places(context: Context, horizon: int, season: int) -> Tensor:
    """Return which input each simple forecast repeats at each step; only those in reach."""
    periods = (1, season, 7 * season) if season > 1 else (1,)
    reached = [period for period in periods if period <= context.recent]
    return torch.stack([repeated_inputs(context, horizon, period) for period in reached])


def _own_maps(store: WindowStore, windows: Windows, context: Context, base: BaseFit) -> Tensor:
    """Return a ridge on the errors of the shared map for each fold and series, (folds, S, R, H)."""
    folds = torch.stack([base.weights, *base.fold_weights])
    out = []
    for first, end, run in _runs_of_series(store, windows):
        parts = [
            _sums(store, batch, context, base, batch.series - first, end - first)
            for batch in run.batches(_BATCH)
        ]
        sums = [torch.stack(part).sum(0) for part in zip(*parts, strict=True)]
        out.append(torch.stack([_ridge(sums, weights, f) for f, weights in enumerate(folds)]))
    return torch.cat(out, dim=1)


def _sums(
    store: WindowStore,
    windows: Windows,
    context: Context,
    base: BaseFit,
    series: Tensor,
    n_series: int,
) -> list[Tensor]:
    """Return products of scores in the directions with scores, inputs and targets of windows.

    Each has shape (S, blocks + 1, R, ·); the last block is for windows that straddle two.
    """
    horizon = base.weights.shape[1]
    inputs, level = features(store, windows, context)
    targets = level.normalise(store.future(windows, horizon)[0])
    share = store.target_weights(windows, horizon).mean(1, keepdim=True)
    scores = inputs @ base.directions
    weighted = scores * (level.scale**SCALE_POWER * share)
    block = blocks_of(store, windows, horizon) % (N_BLOCKS + 1)
    group, count = series * (N_BLOCKS + 1) + block, n_series * (N_BLOCKS + 1)
    products = _grouped(group, count, weighted, [scores, inputs, targets])
    return [x.view(n_series, N_BLOCKS + 1, *x.shape[1:]) for x in products]


def _ridge(sums: list[Tensor], shared: Tensor, fold: int) -> Tensor:
    """Return the own maps of some series without the block of a fold, 0 for all, (S, R, H)."""
    kept = [b for b in range(N_BLOCKS) if b != fold - 1] if fold else slice(None)
    gram, cross, aim = (x[:, kept].sum(1).double() for x in sums)
    mean = gram.diagonal(dim1=1, dim2=2).sum(1) / len(shared)
    strength = _PENALTY * 10 * mean + torch.finfo(torch.float64).tiny
    eye = torch.eye(gram.shape[1], dtype=torch.float64)
    errors = aim - cross @ shared.double()
    maps: Tensor = torch.linalg.solve(gram + strength[:, None, None] * eye, errors)
    return maps.float()


def _grouped(group: Tensor, n_groups: int, left: Tensor, rights: list[Tensor]) -> list[Tensor]:
    """Return ``left.T @ right`` over the rows of each group, (groups, R, ·), for each right."""
    order = group.argsort(stable=True)
    present, counts = group[order].unique_consecutive(return_counts=True)
    rank = torch.arange(len(group)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    row = torch.arange(len(present)).repeat_interleave(counts)
    most = int(counts.max())

    def padded(x: Tensor) -> Tensor:
        out = x.new_zeros(len(present), most, x.shape[1])
        out[row, rank] = x[order]
        return out

    turned = padded(left).transpose(1, 2)
    sums = []
    for right in rights:
        total = left.new_zeros(n_groups, left.shape[1], right.shape[1])
        total[present] = torch.bmm(turned, padded(right))
        sums.append(total)
    return sums


def _runs_of_series(store: WindowStore, windows: Windows) -> Iterator[tuple[int, int, Windows]]:
    """Yield first and end of runs of whole series, as many as share a batch, and their windows."""
    n_series = len(store.offsets) - 1
    ends = torch.bincount(windows.series, minlength=n_series).cumsum(0)

    def up_to(count: int) -> int:
        """Return how many series have that many windows or fewer in all."""
        return int(torch.searchsorted(ends, count, right=True))

    first, begin = 0, 0
    while first < n_series:
        stop = int(ends[max(up_to(begin + _BATCH), up_to(begin) + 1) - 1])
        end = up_to(stop)  # series without windows join a run that has some
        yield first, end, windows.select(torch.arange(begin, stop))
        first, begin = end, stop


def _error_products(
    store: WindowStore, windows: Windows, context: Context, base: BaseFit, local: Local
) -> Tensor:
    """Return sums of products of the errors of the members, (S, blocks, parts, K, K).

    Each window is forecast by the fold that has not seen its targets.
    """
    horizon = base.weights.shape[1]
    n_series, k = len(store.offsets) - 1, 2 + len(local.places)
    total = torch.zeros(n_series * N_BLOCKS, _PARTS, k, k, dtype=torch.float64)
    inside = windows.select(blocks_of(store, windows, horizon) >= 0)
    for batch in inside.batches(_BATCH // 4) if len(inside) else ():
        block = blocks_of(store, batch, horizon)
        inputs, level = features(store, batch, context)
        shared = base.out_of_fold(block)(inputs)
        members = local.members(inputs, shared, batch.series, block + 1)
        values, _ = store.future(batch, horizon)
        counted = level.scale * store.target_weights(batch, horizon).sqrt()
        errors = (members - level.normalise(values)[:, None]) * counted[:, None]
        group = batch.series * N_BLOCKS + block
        for part, steps in enumerate(torch.arange(horizon).tensor_split(_PARTS)):
            some = errors[:, :, steps]
            total[:, part].index_add_(0, group, torch.bmm(some, some.transpose(1, 2)).double())
    return total.view(n_series, N_BLOCKS, _PARTS, k, k)


def _mixed(local: Local, errors: Tensor, horizon: int) -> Local | None:
    """Return the maps with mixtures of least error, where those gain on blocks left out."""
    every = errors.sum(1)  # (S, parts, K, K)
    folds = [every, *(every - errors[:, b] for b in range(N_BLOCKS))]
    shares = torch.stack([_mixture(products) for products in folds])  # (folds, S, parts, K)
    honest = shares[1:].transpose(0, 1)  # (S, blocks, parts, K)
    mixed = (honest[..., None, :] @ errors @ honest[..., None])[..., 0, 0]  # (S, blocks, parts)
    shared = errors[..., _SHARED, _SHARED]
    helps = gains(mixed, shared)
    if not helps.any():
        return None
    alone = torch.zeros_like(shares)
    alone[..., _SHARED] = 1.0
    shares = torch.where(helps[:, None], shares, alone)
    lengths = torch.tensor([len(x) for x in torch.arange(horizon).tensor_split(_PARTS)])
    return replace(
        local, shares=shares.repeat_interleave(lengths, dim=2).transpose(2, 3).float().contiguous()
    )


def gains(mixed: Tensor, shared: Tensor) -> Tensor:
    """Return for which parts of the horizon the mixture is worth it, (parts,).

    Errors have shape (S, blocks, parts). Every series counts the same, or a few with large errors
    would decide for all.
    """
    unit = shared.sum(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    with_it, without = (mixed / unit).sum(0), (shared / unit).sum(0)
    present = without.sum(1) > 0
    better = (with_it < without)[present].float().mean(0) >= _LEAST_BLOCKS_BETTER
    worth: Tensor = better & (with_it.sum(0) < (1 - _LEAST_GAIN) * without.sum(0))
    return worth


def _mixture(products: Tensor) -> Tensor:
    """Return convex weights of least squared error, pulled a little to the shared map, (..., K).

    The best point of a simplex is the best point of one of its faces, and with a handful of members
    all faces can be tried at once for all series.
    """
    k = products.shape[-1]
    pull = _PULL * products[..., _SHARED, _SHARED, None] + 1e-12
    aim = torch.zeros_like(products[..., 0])
    aim[..., _SHARED] = pull[..., 0]
    products = products + torch.diag_embed(pull.expand_as(aim))
    best = torch.zeros_like(aim)
    least = aim.new_full(aim.shape[:-1], torch.inf)
    for size in range(1, k + 1):
        for face in combinations(range(k), size):
            at = list(face)
            square = products[..., at, :][..., :, at]
            sides = torch.stack([aim[..., at], torch.ones_like(aim[..., at])], dim=-1)
            free, along = torch.linalg.solve(square, sides).unbind(-1)
            along = along / along.sum(-1, keepdim=True)
            weights = free + (1 - free.sum(-1, keepdim=True)) * along
            whole = torch.zeros_like(aim)
            whole[..., at] = weights
            cost = ((whole[..., None, :] @ products)[..., 0, :] * whole - 2 * aim * whole).sum(-1)
            better = (weights >= 0).all(-1) & (cost < least)
            least = torch.where(better, cost, least)
            best = torch.where(better[..., None], whole, best)
    return best
