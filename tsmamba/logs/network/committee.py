"""Several networks that read a session and are averaged, and how they are kept."""

import base64
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn import functional as F

from tsmamba.logs.network.model import OUTSIDE, UNKNOWN, NextTemplate
from tsmamba.logs.tracker import UNKNOWN_GAP
from tsmamba.nn import FusedStack

__all__ = ["Committee"]

# Lines whose logits are in memory at once.
_PIECE = 1_024


class Committee:
    """Cost of each template of a session, the mean of what several networks say.

    A session is read by itself, step by step in the native kernel. What it costs must not depend on
    which others are over at the same moment, and in a batch of them the last digits would. The
    networks do not learn while they score.

    Parameters
    ----------
    networks : list of NextTemplate
        At least one.
    numbers : dict of int to int
        The number that stands for each template in the networks. All others share one.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> committee = Committee([NextTemplate(4), NextTemplate(4)], {70: 2, 71: 3})
    >>> costs = committee.costs([70, 71, 99])
    >>> len(costs), min(costs) > 0.0
    (4, True)
    """

    def __init__(self, networks: list[NextTemplate], numbers: dict[int, int]) -> None:
        self.networks = [network.eval() for network in networks]
        self.numbers = dict(numbers)
        self.stacks = [FusedStack(network.stack) for network in networks]

    def costs(self, session: list[int], gaps: list[float] | None = None) -> list[float]:
        """Cost of each template of a whole session, and of its end, in nats.

        `gaps` are the seconds before each line; those not known are negative.
        """
        get = self.numbers.get
        numbers = torch.tensor([OUTSIDE, *[get(t, UNKNOWN) for t in session], OUTSIDE])
        waits = [UNKNOWN_GAP] * len(session) if gaps is None else gaps
        times = torch.tensor([UNKNOWN_GAP, *waits])
        with torch.inference_mode():
            told = [
                _costs(network, stack, numbers, times)
                for network, stack in zip(self.networks, self.stacks, strict=True)
            ]
            mean: list[float] = torch.stack(told).mean(dim=0).tolist()
        return mean

    def rename(self, old: int, new: int) -> None:
        """Take template `new` for what was known as template `old`, unless it is known itself."""
        number = self.numbers.pop(old, None)
        if number is not None:
            self.numbers.setdefault(new, number)

    def weights(self) -> list[str]:
        """Return the weights of each network as text: they are the same for ever."""
        return [_text(network) for network in self.networks]

    def to_dict(self) -> dict[str, Any]:
        """Return what changes, as plain JSON values."""
        return {"numbers": list(self.numbers.items())}

    @classmethod
    def from_dict(cls, state: dict[str, Any], weights: list[str]) -> "Committee":
        """Build it again from :meth:`to_dict` and :meth:`weights`."""
        return cls([_network(text) for text in weights], dict(state["numbers"]))


def _costs(network: NextTemplate, stack: FusedStack, numbers: Tensor, times: Tensor) -> Tensor:
    """Cost of each number but the first after those before it."""
    state = stack.init_state(1)
    lines = network.embed(numbers[:-1], times).split(1)
    seen = torch.cat([stack.step(line, state) for line in lines])
    return torch.cat(
        [
            F.cross_entropy(network.head(part), target, reduction="none")
            for part, target in zip(seen.split(_PIECE), numbers[1:].split(_PIECE), strict=True)
        ]
    )


def _text(network: NextTemplate) -> str:
    return base64.b64encode(save(network.state_dict())).decode("ascii")


def _network(text: str) -> NextTemplate:
    weights = load(base64.b64decode(text))
    with torch.device("meta"):  # no first values are drawn that are overwritten at once
        network = NextTemplate(len(weights["embedding.weight"]))
    network.load_state_dict(weights, assign=True)
    return network.eval()
