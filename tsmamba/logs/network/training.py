"""Training of the networks, and which of them are of use."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tsmamba.logs.network.committee import Committee
from tsmamba.logs.network.model import OUTSIDE, UNKNOWN, NextTemplate
from tsmamba.logs.tracker import UNKNOWN_GAP
from tsmamba.training import Training, train

__all__ = ["Trained", "fitted_committee"]

# Networks that are averaged, and how many are trained at most to have so many of use.
_NETWORKS, _TRIES = 2, 4
# Templates that have a number, the most frequent; one seen once is as good as unknown.
_MOST_TEMPLATES, _LEAST_SEEN = 1_024, 2
# Longer sessions are cut, and a step of training takes about so many lines.
_WINDOW, _LINES = 256, 4_096
_STEPS, _BATCH = 400, 64
# One window of so many tells when to stop.
_HELD_OUT = 10
# Share of the lines whose template is hidden in training, so that an unknown one means something.
_HIDDEN = 0.01
_NOTHING = -100

Windows = list[tuple[list[int], list[int], list[float]]]


@dataclass
class Trained:
    """Networks that are of use, and the seeds of all.

    Attributes
    ----------
    committee : Committee or None
        None if none is of use.
    kept, rejected : list of int
        Seeds, in the order in which they were tried.
    """

    committee: Committee | None = None
    kept: list[int] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)


def fitted_committee(
    sessions: list[list[int]],
    gaps: list[list[float]] | None,
    random_state: int,
    is_of_use: Callable[[Committee], bool],
) -> Trained:
    """Train two networks on sessions; one that is of no use is replaced by another, twice at most.

    Parameters
    ----------
    sessions : list of list of int
        Templates, in the order of time.
    gaps : list of list of float, optional
        Seconds before each line of each session, negative where they are not known.
    random_state : int
        Seed; the same sessions give the same networks.
    is_of_use : callable
        Judges a committee of one network.

    Returns
    -------
    Trained
        What came of it.

    Examples
    --------
    >>> fitted_committee([[0, 1, 2]] * 20, None, 0, lambda committee: False).committee is None
    True
    """
    numbers = _numbered(sessions)
    times = gaps or [[UNKNOWN_GAP] * len(session) for session in sessions]
    windows = [
        window
        for session, waits in zip(sessions, times, strict=True)
        for window in _windows([numbers.get(t, UNKNOWN) for t in session], waits)
    ]
    found = Trained()
    networks: list[NextTemplate] = []
    for seed in np.random.SeedSequence(random_state).generate_state(_TRIES).tolist():
        network = _trained(windows, len(numbers) + 2, seed)
        of_use = is_of_use(Committee([network], numbers))
        (found.kept if of_use else found.rejected).append(seed)
        networks += [network] * of_use
        if len(networks) == _NETWORKS:
            break
    if networks:
        found.committee = Committee(networks, numbers)
    return found


def _numbered(sessions: list[list[int]]) -> dict[int, int]:
    """Give the frequent templates numbers, the most frequent the first."""
    seen = Counter(template for session in sessions for template in session)
    frequent = [t for t, count in seen.most_common(_MOST_TEMPLATES) if count >= _LEAST_SEEN]
    return {template: i for i, template in enumerate(frequent, start=UNKNOWN + 1)}


def _windows(numbers: list[int], gaps: list[float]) -> Windows:
    """Cut a session into what is read, what comes next, and the gaps before what is read."""
    before, after, waits = [OUTSIDE, *numbers], [*numbers, OUTSIDE], [UNKNOWN_GAP, *gaps]
    cuts = [slice(start, start + _WINDOW) for start in range(0, len(before), _WINDOW)]
    return [(before[cut], after[cut], waits[cut]) for cut in cuts]


def _trained(windows: Windows, n_numbers: int, seed: int) -> NextTemplate:
    held_out = windows[_HELD_OUT - 1 :: _HELD_OUT] or windows
    lessons = [w for i, w in enumerate(windows, start=1) if i % _HELD_OUT] or windows
    lines = sum(len(before) for before, _, _ in lessons) / len(lessons)
    size = max(1, min(_BATCH, int(_LINES / lines)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = NextTemplate(n_numbers)

        def batch_loss(network: NextTemplate) -> Tensor:
            drawn = torch.randint(len(lessons), (size,)).tolist()
            before, after, gaps = _padded([lessons[i] for i in drawn])
            hidden = (torch.rand(before.shape) < _HIDDEN) & (before != OUTSIDE)
            return _loss(network, before.masked_fill(hidden, UNKNOWN), after, gaps)

        train(
            network,
            Training(max_steps=_STEPS, batch_size=size),
            batch_loss,
            lambda network: _mean_loss(network, held_out, size),
        )
    return network


@torch.no_grad()
def _mean_loss(network: NextTemplate, windows: Windows, size: int) -> float:
    """Loss over all lines of windows, some of them at a time."""
    lines = sum(len(before) for before, _, _ in windows)
    total = 0.0
    for start in range(0, len(windows), size):
        some = windows[start : start + size]
        share = sum(len(before) for before, _, _ in some) / lines
        total += share * _loss(network, *_padded(some)).item()
    return total


def _loss(network: NextTemplate, before: Tensor, after: Tensor, gaps: Tensor) -> Tensor:
    logits = network(before, gaps).flatten(0, 1)
    return F.cross_entropy(logits, after.flatten(), ignore_index=_NOTHING)


def _padded(windows: Windows) -> tuple[Tensor, Tensor, Tensor]:
    """Windows as tensors of shape (B, L), with lines behind the shorter ones that count nothing."""
    length = max(len(before) for before, _, _ in windows)
    filled = (OUTSIDE, _NOTHING, UNKNOWN_GAP)
    columns = [
        torch.tensor([[*row, *[fill] * (length - len(row))] for row in rows])
        for rows, fill in zip(zip(*windows, strict=True), filled, strict=True)
    ]
    return columns[0], columns[1], columns[2]
