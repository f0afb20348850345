"""The recurrent state beside that of a calibration run: its norm, and its spread."""

import math
import statistics
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from torch import Tensor

from tsmamba.errors import HealthWarning, ParameterError
from tsmamba.health.monitor import Check, Monitor
from tsmamba.nn import MambaState

__all__ = ["State", "StateNorm", "StateSpread", "rows_of"]

State: TypeAlias = Tensor | Sequence[MambaState]

_WINDOW = 25
_LEAST = 1e-30  # a reference below it is that of a dead state


class _Relative(Monitor):
    """The median of the last sizes of a state, relative to the mean size in a calibration run.

    A median, for one point, however wild, or any run of less than half the window cannot move it
    far.
    """

    unit = "ratio"
    _parts = ("reference", "recent")
    _noun: ClassVar[str]

    def __init__(
        self, limits: tuple[float, float], window: int, name: str, reads: str = "state"
    ) -> None:
        super().__init__(name, reads)
        if not 0 <= limits[0] < 1 < limits[1]:
            raise ParameterError(
                f"{name}: limits={limits!r}; pass one from 0 to 1 and one above 1, such as "
                "(0.8, 1.2)"
            )
        if window < 1:
            raise ParameterError(f"{name}: window={window!r}; pass 1 or more, such as {_WINDOW}")
        self.limits = limits
        self.window = window
        self.reference: float | None = None
        self.recent: list[float | None] = []

    def calibrate(self, states: Iterable[State]) -> Self:
        """Learn what is usual from a run that is known to be well.

        Parameters
        ----------
        states : iterable of state
            States of the run, as for `observe`, one after the other, without those of the first
            steps, when the state still fills.

        Returns
        -------
        Self
            This one, with nothing observed yet.

        Raises
        ------
        ParameterError
            If there are none, or they are zero or not finite.

        Warns
        -----
        HealthWarning
            If the run would itself alert.
        """
        sizes = [self._size(rows_of(state)) for state in states]
        reference = math.fsum(sizes) / len(sizes) if sizes else math.nan
        if not _LEAST < reference < math.inf:
            raise ParameterError(
                f"{self.name}: the {self._noun} of {len(sizes)} states is {reference:g} in the "
                "mean; calibrate on states of a run that is well, past its first steps"
            )
        self.reference, self.recent = reference, []
        self._warn_of_narrow_limits(np.array(sizes) / reference)
        return self

    def _warn_of_narrow_limits(self, ratios: NDArray[np.float64]) -> None:
        if ratios.size < self.window:
            return
        medians = np.median(sliding_window_view(ratios, self.window), axis=1)
        low, high = medians.min(), medians.max()
        if low < self.limits[0] or high > self.limits[1]:
            warnings.warn(
                f"{self.name}: the {self._noun} of the calibration run itself goes from {low:.2f} "
                f"to {high:.2f} of its mean, beyond the limits {self.limits}; observe more "
                "streams, take a longer window, or wider limits",
                HealthWarning,
                stacklevel=3,
            )

    def observe(self, value: State) -> Check:
        """Take in the state after a step.

        Parameters
        ----------
        value : list of MambaState, or Tensor of shape (streams, ...)
            What `MambaStack.step` and `MambaStack.prefill` return, of which the state of the scan
            counts, or a row for each stream, of which everything counts. Of a `FusedStack` pass
            ``fused.unpack(state)``: the rows that it keeps also hold the last inputs, which are
            larger than the memory and hide it.

        Returns
        -------
        Check

        Raises
        ------
        NotFittedError
            If it was not calibrated.
        """
        if self.reference is None:
            raise NotFittedError(
                f"{self.name} has no reference; call calibrate with states of a normal run"
            )
        ratio = self._size(rows_of(value)) / self.reference
        # JSON has no infinity, and what is not finite is beyond any limit.
        latest = ratio if math.isfinite(ratio) else None
        self.recent = [*self.recent, latest][-self.window :]
        return self.check()

    def check(self) -> Check:
        """Return what is said now, without new values."""
        recent = self.recent
        if not recent:
            return Check(self.name, None, self.limits, True, f"{self.name}: nothing seen yet")
        finite = [math.inf if ratio is None else ratio for ratio in recent]
        missing = [1.0] * (self.window - len(recent))
        median = statistics.median(finite + missing)
        low, high = self.limits
        ok = low <= median <= high
        value = median if math.isfinite(median) else None
        message = f"{self._noun} of the state is {median:.3g} times that of the calibration run"
        return Check(self.name, value, self.limits, ok, message)

    @abstractmethod
    def _size(self, rows: Tensor) -> float:
        """Return what is watched, of states of shape (streams, elements)."""


class StateNorm(_Relative):
    """Norm of the recurrent state, relative to that of a calibration run.

    The norm of each stream is taken, and the mean over the streams. Alerts when the median of the
    last ``window`` observations leaves the limits.

    Parameters
    ----------
    limits : (float, float), default (0.8, 1.2)
        What is well.
    window : int >= 1, default 25
        Observations of which the median counts; the reference stands for those still to come.
    name : str, default "state_norm"
        Name of the monitor.

    Examples
    --------
    >>> import torch
    >>> from tsmamba.nn import MambaStack
    >>> stack = MambaStack(8)
    >>> states = [stack.prefill(torch.randn(4, 200, 8))[1] for _ in range(20)]
    >>> norm = StateNorm(window=5).calibrate(states)
    >>> norm.observe(states[0]).ok
    True
    >>> dead = stack.init_state(4)
    >>> [norm.observe(dead).ok for _ in range(3)]
    [True, True, False]
    """

    _noun = "norm"

    def __init__(
        self,
        limits: tuple[float, float] = (0.8, 1.2),
        *,
        window: int = _WINDOW,
        name: str = "state_norm",
    ) -> None:
        super().__init__(limits, window, name)

    def _size(self, rows: Tensor) -> float:
        return float(torch.linalg.vector_norm(rows, dim=1).mean())


class StateSpread(_Relative):
    """Spread of the recurrent state, relative to that of a calibration run.

    Streams whose states become alike no longer remember what is their own; channels that become
    alike are saturated. The norm sees neither.

    Parameters
    ----------
    over : {"streams", "channels"}, default "streams"
        Whether the standard deviation is that of each element over the streams, which takes two or
        more, or that of each stream over its elements. The root of their mean square counts.
    limits : (float, float), default (0.5, 2.0)
        What is well.
    window : int >= 1, default 25
        As in `StateNorm`.
    name : str, optional
        Name of the monitor; "state_spread" and what it is taken over when not given.

    Examples
    --------
    >>> import torch
    >>> spread = StateSpread(window=1).calibrate([torch.randn(8, 100) for _ in range(10)])
    >>> spread.observe(torch.randn(8, 100)).ok
    True
    >>> spread.observe(torch.randn(1, 100).expand(8, 100)).ok
    False
    """

    _noun = "spread"

    def __init__(
        self,
        over: Literal["streams", "channels"] = "streams",
        limits: tuple[float, float] = (0.5, 2.0),
        *,
        window: int = _WINDOW,
        name: str | None = None,
    ) -> None:
        if over not in ("streams", "channels"):
            raise ParameterError(f"over={over!r}; pass 'streams' or 'channels'")
        super().__init__(limits, window, name or f"state_spread_{over}")
        self.over = over

    def _size(self, rows: Tensor) -> float:
        if self.over == "streams" and len(rows) < 2:
            raise ParameterError(
                f"{self.name}: a state of one stream has no spread over streams; pass more streams "
                "or over='channels'"
            )
        variance = rows.var(dim=0 if self.over == "streams" else 1, correction=0)
        return float(variance.mean().sqrt())


def rows_of(state: Any) -> Tensor:
    """Return a state as a row for each stream.

    Parameters
    ----------
    state : list of MambaState, or Tensor of shape (streams, ...)
        Of a list, the states of the scans: the other part are the last inputs of the convolutions,
        whose norm is larger and says nothing of the memory.

    Returns
    -------
    Tensor of shape (streams, elements)
        In double precision, so that a large state does not overflow.

    Raises
    ------
    ParameterError
        If it is neither, or has no streams.

    Examples
    --------
    >>> from tsmamba.nn import MambaStack
    >>> rows_of(MambaStack(8, n_layers=2).init_state(3)).shape
    torch.Size([3, 512])
    """
    layers = [state] if isinstance(state, Tensor) else [each.ssm for each in state]
    if not layers or not layers[0].dim() or not layers[0].numel():
        raise ParameterError(
            "the state is empty; pass that of MambaStack, or a tensor with a row for each stream"
        )
    return torch.cat([each.detach().flatten(1) for each in layers], dim=1).double()
