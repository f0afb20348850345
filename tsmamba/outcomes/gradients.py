"""Integrated gradients of a network between two readings of the same stays."""

import numpy as np
import torch
from torch import Tensor

from tsmamba.outcomes.network import RecordNetwork
from tsmamba.records.tokens import Batch, Tokens

__all__ = ["STEPS", "integrated_gradients"]

# Maxima make the way between two answers uneven, where many points do more than a clever rule: the
# error is about .001 of the log odds.
STEPS = 64
_STAYS = 4  # at once


def integrated_gradients(
    network: RecordNetwork, given: Tokens, usual: Tokens, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Share a difference of two answers out among the inputs that differ.

    Gradients are averaged on the straight line from one reading to the other and multiplied by
    the difference (Sundararajan, Taly and Yan 2017, Axiomatic attribution for deep networks).

    Parameters
    ----------
    network : RecordNetwork
        In evaluation mode.
    given, usual : Tokens
        The same stays with the same pattern of measurement, none empty.
    weights : ndarray of shape (K,)
        Of the outputs, whose sum is what is explained.

    Returns
    -------
    values : ndarray of shape (total, V)
        Share of each code of each token. What a value does while it is carried forward is added
        to the token in which it was measured.
    statics : ndarray of shape (n, S)
        Share of what is static.
    """
    middles = (torch.arange(STEPS) + 0.5) / STEPS
    weight = torch.from_numpy(weights).float()
    values, statics = torch.zeros(given.values.shape), torch.zeros(given.statics.shape)
    for first in range(0, len(given), _STAYS):
        stays = torch.arange(first, min(first + _STAYS, len(given)))
        end, start = given.batch(stays), usual.batch(stays)
        line = _line(start, end, middles)
        outputs = _final(network, line) @ weight
        slopes = torch.autograd.grad(
            outputs.sum(), (line.values, line.statics), materialize_grads=True
        )
        of_values, of_statics = (each.unflatten(0, (STEPS, -1)).mean(0) for each in slopes)
        shares = _to_origin(of_values * (end.values - start.values), end.since)
        values[given.offsets[first] : given.offsets[stays[-1] + 1]] = shares[end.mask]
        statics[stays] = of_statics * (end.statics - start.statics)
    return values.numpy(), statics.numpy()


def _line(start: Batch, end: Batch, place: Tensor) -> Batch:
    """Return the batches at some places between two, one after the other."""

    def between(low: Tensor, high: Tensor) -> Tensor:
        far = place.view(-1, *[1] * low.ndim)
        return (low + far * (high - low)).flatten(0, 1).requires_grad_()

    def repeated(same: Tensor) -> Tensor:
        return same.repeat(len(place), *[1] * (same.ndim - 1))

    return Batch(
        between(start.values, end.values),
        repeated(end.since),
        repeated(end.elapsed),
        repeated(end.mask),
        between(start.statics, end.statics),
    )


def _final(network: RecordNetwork, batch: Batch) -> Tensor:
    """Return the outputs at the end of each stay, (B, K)."""
    outputs: Tensor = network(batch).outputs
    if network.config.causal:
        outputs = outputs[torch.arange(len(outputs)), batch.mask.sum(1) - 1]
    return outputs


def _to_origin(shares: Tensor, since: Tensor) -> Tensor:
    """Add the shares of carried values to the token in which they were measured, (B, L, V)."""
    step = torch.arange(shares.shape[1])[:, None].expand_as(since)
    origin = torch.where(since == 0, step, 0).cummax(1).values
    return torch.zeros_like(shares).scatter_add(1, origin, shares)
