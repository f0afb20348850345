"""Stays drawn for training, and for how long."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tsmamba.training.settings import Training

__all__ = ["drawn", "training_of"]


def drawn(stays: Tensor, size: int) -> Iterator[Tensor]:
    """Yield batches of stays for ever, every stay once before any comes again.

    Parameters
    ----------
    stays : int Tensor of shape (n,)
        Their numbers.
    size : int >= 1
        Stays of a batch.

    Yields
    ------
    int Tensor
        Of that size, or all of them where there are fewer.

    Examples
    --------
    >>> sorted(next(drawn(torch.arange(3), 4)).tolist())
    [0, 1, 2]
    """
    while True:
        order = stays[torch.randperm(len(stays))]
        for part in order.split(size):
            if len(part) == size or len(stays) < size:
                yield part


def training_of(given: Training | None, usual: Training, stays: int, readings: int) -> Training:
    """Return the knobs of training on some stays; weights are looked at only at its end.

    Parameters
    ----------
    given : Training, optional
        Of the user.
    usual : Training
        Where there are none.
    stays : int >= 1
        So many are learned from.
    readings : int >= 1
        So many are seen in all, each as often as it comes, unless the knobs have `max_steps`.

    Returns
    -------
    Training
        With `max_steps` and `eval_every`.

    Examples
    --------
    >>> training_of(None, Training(batch_size=10), stays=50, readings=100).max_steps
    10
    """
    knobs = usual if given is None else given
    steps = knobs.max_steps
    if steps is None:
        steps = max(1, readings // min(knobs.batch_size, stays))
    return Training(**{**knobs.get_params(), "max_steps": steps, "eval_every": max(1, steps)})
