"""NaN and infinity in states, weights and outputs, by the name of the tensor."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tsmamba.errors import ParameterError
from tsmamba.health.monitor import Check, Monitor
from tsmamba.nn import MambaState

__all__ = ["Finite"]

_NAMED = 5  # tensors in a message; one NaN is soon everywhere


class Finite(Monitor):
    """Whether all tensors of a kind are finite, looked at now and then.

    The value is their norm, which is finite only if they all are.

    Parameters
    ----------
    reads : str, default "state"
        What it watches: "state", "weights", "outputs", or any other keyword of `Health.observe`.
    every : int >= 1, default 1000
        Observations from one look to the next; the first is looked at.
    name : str, optional
        Name of the monitor; "finite_" and what it reads when not given.

    Examples
    --------
    >>> import torch
    >>> finite = Finite("weights")
    >>> layer = torch.nn.Linear(2, 3)
    >>> finite.observe(layer).ok
    True
    >>> layer.weight.data[1, 0] = torch.nan
    >>> finite.look(layer).message
    'not finite: weight (1 of 6, first at [1, 0])'
    """

    unit = "norm"
    _parts = ("seen", "norm", "bad")

    def __init__(
        self, reads: str = "state", *, every: int = 1_000, name: str | None = None
    ) -> None:
        super().__init__(name or f"finite_{reads}", reads)
        if every < 1:
            raise ParameterError(f"{self.name}: every={every!r}; pass 1 or more, such as 1000")
        self.every = every
        self._what = reads
        self.seen = 0
        self.norm: float | None = None
        self.bad: list[str] = []

    def observe(self, value: Any) -> Check:
        """Count an observation, and look at it if it is time to.

        Parameters
        ----------
        value : Tensor, array, Module, mapping of names to tensors, or list of MambaState
            What to look at. Tensors of integers, and None in a mapping, are passed over.

        Returns
        -------
        Check
            Of the last look.
        """
        due = self.seen % self.every == 0
        self.seen += 1
        return self.look(value) if due else self.check()

    def look(self, value: Any) -> Check:
        """Look at once.

        Parameters
        ----------
        value : Tensor, array, Module, mapping of names to tensors, or list of MambaState
            What to look at. Tensors of integers, and None in a mapping, are passed over.

        Returns
        -------
        Check
        """
        tensors = _floats(value, self._what)
        with torch.no_grad():
            norms = [
                float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
                for tensor in tensors.values()
            ]
            norm = math.hypot(*norms)
            self.bad = [] if math.isfinite(norm) else _bad(tensors)
            self.norm = norm if math.isfinite(norm) else None
        return self.check()

    def check(self) -> Check:
        """Return what the last look said."""
        limits = (None, None)
        if not self.bad:
            seen = "nothing seen yet" if self.norm is None else "all finite"
            return Check(self.name, self.norm, limits, True, f"{self._what}: {seen}")
        more = len(self.bad) - _NAMED
        names = ", ".join(self.bad[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        return Check(self.name, None, limits, False, f"not finite: {names}")


def _floats(value: Any, name: str) -> dict[str, Tensor]:
    """Return the tensors in a value that could be anything but finite, by name."""
    named: Mapping[str, Any]
    if isinstance(value, nn.Module):
        named = value.state_dict()
    elif isinstance(value, Mapping):
        named = {key: each for key, each in value.items() if each is not None}
    elif isinstance(value, list) and value and isinstance(value[0], MambaState):
        named = {
            f"layers.{depth}.{part}": tensor
            for depth, layer in enumerate(value)
            for part, tensor in layer._asdict().items()
        }
    else:
        named = {name: value}
    tensors = {key: torch.as_tensor(each) for key, each in named.items()}
    return {key: each for key, each in tensors.items() if each.is_floating_point()}


def _bad(tensors: Mapping[str, Tensor]) -> list[str]:
    """Name the tensors that are not finite, and where; as text, for the report."""
    bad = []
    for name, tensor in tensors.items():
        places = (~torch.isfinite(tensor)).nonzero()
        if len(places):
            first = f", first at {places[0].tolist()}" if tensor.dim() else ""
            bad.append(f"{name} ({len(places)} of {tensor.numel()}{first})")
    return bad
