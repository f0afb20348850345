"""Networks that follow streams of lines: each line costs what it is where it comes."""

import base64
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from tsmamba.logs.network.committee import Committee
from tsmamba.logs.network.model import OUTSIDE, UNKNOWN, gap_features
from tsmamba.logs.tracker import UNKNOWN_GAP

__all__ = ["Follower"]

Place: TypeAlias = tuple[str, str]

_MAX_STREAMS = 256
_STORED = np.dtype("<f4")


@dataclass(slots=True)
class _Stream:
    """State of each network before the last line, and that line: its number and its gap."""

    states: list[Tensor]
    number: int = OUTSIDE
    gap: float = UNKNOWN_GAP


class Follower:
    """Cost of each line after all lines of its stream before it, the mean of several networks.

    A stream is a state of fixed size for each network, so that a line takes the same time however
    many came before. The first line of a stream costs nothing, as the networks know no beginnings,
    and neither does a template that they do not know: that it is new is told by others.

    Parameters
    ----------
    committee : Committee
        The networks.
    max_streams : int
        Streams that are followed; the one not seen for longest gives way, and begins anew when it
        comes again.

    Examples
    --------
    >>> from tsmamba.logs.network.model import NextTemplate
    >>> _ = torch.manual_seed(0)
    >>> follower = Follower(Committee([NextTemplate(4)], {70: 2, 71: 3}))
    >>> place = ("app.log", "")
    >>> [follower.step(place, template) > 0.0 for template in (70, 71, 99)]
    [False, True, False]
    """

    def __init__(self, committee: Committee, max_streams: int = _MAX_STREAMS) -> None:
        self.committee = committee
        self.max_streams = max_streams
        self._streams: dict[Place, _Stream] = {}
        # What all networks know side by side: a line takes few calls, however many there are.
        networks = committee.networks
        with torch.no_grad():
            self._rows = torch.stack([network.embedding.weight for network in networks], dim=1)
            self._gaps = torch.stack([network.gap.weight.T for network in networks])
            self._heads = torch.stack([network.head.weight.T for network in networks])
            self._bias = torch.stack([network.head.bias for network in networks])[:, None]

    def step(self, place: Place, template: int, gap: float = UNKNOWN_GAP) -> float:
        """Cost of a line in nats; the stream goes on with it.

        `gap` are the seconds since the line before in the stream, negative if not known.
        """
        number = self.committee.numbers.get(template, UNKNOWN)
        stream = self._streams.pop(place, None)
        if stream is None:
            if len(self._streams) >= self.max_streams:
                del self._streams[next(iter(self._streams))]
            stream = _Stream([stack.init_state(1) for stack in self.committee.stacks])
        is_first = stream.number == OUTSIDE
        cost = self._advance(stream, None if is_first or number == UNKNOWN else number)
        stream.number, stream.gap = number, gap
        self._streams[place] = stream
        return cost

    def clear(self) -> None:
        """Begin all streams anew."""
        self._streams.clear()

    def rename(self, old: int, new: int) -> None:
        """Take template `new` for what was known as template `old`, unless it is known itself."""
        self.committee.rename(old, new)

    def to_dict(self) -> dict[str, Any]:
        """Return what changes, as plain JSON values."""
        return {
            "committee": self.committee.to_dict(),
            "max_streams": self.max_streams,
            "streams": [
                [*place, stream.number, stream.gap, [*map(_text, stream.states)]]
                for place, stream in self._streams.items()
            ],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any], weights: list[str]) -> "Follower":
        """Build it again from :meth:`to_dict` and the weights of the committee."""
        new = cls(Committee.from_dict(state["committee"], weights), state["max_streams"])
        for source, name, number, gap, texts in state["streams"]:
            states = [stack.init_state(1) for stack in new.committee.stacks]
            for one, text in zip(states, texts, strict=True):
                one.copy_(_values(text).reshape(one.shape))
            new._streams[source, name] = _Stream(states, number, gap)
        return new

    def _advance(self, stream: _Stream, target: int | None) -> float:
        """Let the networks read the last line of a stream; return the cost of what comes next."""
        with torch.inference_mode():
            gap = gap_features(torch.tensor(stream.gap)) @ self._gaps
            lines = (self._rows[stream.number] + gap).split(1)
            pairs = zip(self.committee.stacks, lines, stream.states, strict=True)
            seen = torch.stack([stack.step(line, state) for stack, line, state in pairs])
            if target is None:
                return 0.0
            logits = torch.baddbmm(self._bias, seen, self._heads)[:, 0]
            return float(-logits.log_softmax(-1)[:, target].mean())


def _text(state: Tensor) -> str:
    return base64.b64encode(state.numpy().astype(_STORED).tobytes()).decode("ascii")


def _values(text: str) -> Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), _STORED).astype(np.float32))
