"""What the past values of a code say by themselves: the last, the one before, recent means."""

import torch
from torch import Tensor

from tsmamba.records.tokens import NEVER, Batch

__all__ = ["LAST", "LATEST", "N_FEATURES", "histories"]

# Bins in which a value loses half of its weight in the recent means; the last is the plain mean.
_HALF_LIVES = (1.5, 5.0, float("inf"))
_LEAST_WEIGHT = 1e-6
# Where the last single value and the last mean stand among the features.
LATEST, LAST = 0, 1
N_FEATURES = 5 + len(_HALF_LIVES)


def histories(batch: Batch, latest: Tensor) -> Tensor:
    """Summarise the past of each code at each token.

    Parameters
    ----------
    batch : Batch
        Some stays.
    latest : Tensor of shape (B, L, V)
        Their last single values.

    Returns
    -------
    Tensor of shape (B, L, V, N_FEATURES)
        The last single value, the mean of the last bin that has any, of the bin before it, the last
        by its age, whether there is any, and recent means. All are zero before the first value.
    """
    there = batch.since != NEVER
    new = (batch.since == 0) & batch.mask[..., None]
    rates = torch.tensor([0.5 ** (1 / life) for life in _HALF_LIVES])
    sums = batch.values.new_zeros(len(rates), *batch.values[:, 0].shape)
    counts, last, before = torch.zeros_like(sums), sums[0], sums[0]
    befores, means = [], []
    for step in range(batch.values.shape[1]):
        value, fresh = batch.values[:, step], new[:, step]
        kept = (rates[:, None] ** batch.elapsed[:, step])[..., None]
        sums, counts = sums * kept + value * fresh, counts * kept + fresh
        # What is measured for the first time was the same before.
        again = there[:, step - 1] if step else torch.zeros_like(fresh)
        before = torch.where(fresh, torch.where(again, last, value), before)
        last = value
        befores.append(before)
        means.append(sums / counts.clamp(min=_LEAST_WEIGHT))
    aged = batch.values * torch.log1p(batch.since.float())
    parts = [latest, batch.values, torch.stack(befores, 1), aged, there.float()]
    return torch.cat([torch.stack(parts, -1), torch.stack(means).permute(2, 0, 3, 1)], -1)
