"""One time step through every layer of a causal stack, for many streams in one call."""

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from tsmamba_kernels._backend import choose
from tsmamba_kernels.errors import ShapeError
from tsmamba_kernels.stack_step.cpu import CompiledStack
from tsmamba_kernels.stack_step.layout import (
    AXES,
    GAIN_LIMIT,
    LINE,
    LayerWeights,
    pack_state,
    round_up,
    unpack_state,
)
from tsmamba_kernels.stack_step.reference import stack_step_reference

__all__ = ["GAIN_LIMIT", "LayerWeights", "StackStep"]


class StackStep:
    """A causal stack that takes one time step of many streams in one call.

    For streaming, where PyTorch's calls cost more than the arithmetic inside them: norms,
    projections, convolution windows, scan steps, gates and residuals of all layers run in one
    native call. The weights are copied when it is made, so it does not see later changes to the
    network. `tsmamba.nn.FusedStack` makes one from a network.

    Parameters
    ----------
    layers : sequence of LayerWeights
        One for each block, all of the same sizes.
    norm_f : Tensor of shape (M,)
        Of the norm after the last block.
    eps : float, default 1e-5
        Of the norms.
    backend : {"auto", "native", "reference"}, default "auto"
        Implementation to use; see `backend_report`.

    Attributes
    ----------
    state_shape : tuple of int
        Shape of the state of one stream: layers, groups of channels, W - 1 + N rows, 16 channels.
        A group is together in memory, so that a step reads it in one go.

    Raises
    ------
    ShapeError
        If there are no layers, they differ in size, their weights do not fit together, or A has a
        positive entry.
    BackendUnavailableError
        If the backend asked for by name cannot run.

    Examples
    --------
    >>> import torch
    >>> layer = LayerWeights(
    ...     norm=torch.ones(2), in_proj=torch.ones(4, 2), conv1d=torch.ones(2, 3),
    ...     x_proj=torch.ones(3, 2), dt_proj=torch.ones(2, 1), dt_proj_bias=torch.zeros(2),
    ...     A=-torch.ones(2, 1), D=torch.ones(2), out_proj=torch.ones(2, 2),
    ... )
    >>> stack = StackStep([layer], torch.ones(2))
    >>> state = stack.init_state(5)
    >>> stack(torch.randn(5, 2), state).shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        layers: Sequence[LayerWeights],
        norm_f: Tensor,
        *,
        eps: float = 1e-5,
        backend: str = "auto",
    ) -> None:
        sizes = _common_sizes(layers)
        if norm_f.shape != (sizes["M"],):
            raise ShapeError(
                f"stack_step: norm_f has shape {tuple(norm_f.shape)}; pass ({sizes['M']},)"
            )
        self._layers = [layer.frozen() for layer in layers]
        self._norm_f = norm_f.detach().to("cpu", torch.float32).clone()
        self._eps = eps
        self._width, self._inner, self._reach = sizes["M"], sizes["E"], sizes["W"] - 1
        groups, rows = round_up(sizes["E"]) // LINE, self._reach + sizes["N"]
        self.state_shape = (len(layers), groups, rows, LINE)
        self._backend = choose("stack_step", self._norm_f, backend, absent=("triton",))
        native = self._backend == "native"
        self._compiled = CompiledStack(self._layers, self._norm_f, eps) if native else None

    def init_state(self, streams: int) -> Tensor:
        """Return the states of as many streams before their first step.

        Returns
        -------
        Tensor of shape (streams, *state_shape)
            Zeros, float32, one contiguous piece for each stream. Its rows are the last W - 1 inputs
            of the convolution, oldest first, then the N states of the scan.
        """
        return torch.zeros(streams, *self.state_shape)

    def pack(self, states: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Return states given layer by layer in the form of `init_state`.

        Parameters
        ----------
        states : sequence of (Tensor, Tensor)
            For each layer the state of its convolution, of shape (streams, W - 1, E), and that of
            its scan, of shape (streams, E, N).

        Returns
        -------
        Tensor of shape (streams, *state_shape)
            A copy.

        Raises
        ------
        ShapeError
            If they are those of another stack.
        """
        layers, _, rows, _ = self.state_shape
        axes = (self._reach, self._inner), (self._inner, rows - self._reach)
        shapes = [tuple(tuple(part.shape[1:]) for part in state) for state in states]
        if shapes != [axes] * layers:
            raise ShapeError(
                f"stack_step: states have the shapes {shapes} after the axis of streams; pass "
                f"{layers} times {axes}"
            )
        convs, ssms = (
            torch.stack([part.detach().to("cpu", torch.float32) for part in parts], dim=1)
            for parts in zip(*states, strict=True)
        )
        return pack_state(convs, ssms)

    def unpack(self, state: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return a copy of the states in the form that `pack` takes."""
        self._check_state(state)
        convs, ssms = unpack_state(state, self._reach, self._inner)
        return list(zip(convs.unbind(1), ssms.unbind(1), strict=True))

    def __call__(
        self,
        x: Tensor,
        state: Tensor,
        *,
        delta_scale: Tensor | None = None,
        slots: Tensor | None = None,
    ) -> Tensor:
        """Take one step.

        Parameters
        ----------
        x : Tensor of shape (B, M)
            Inputs of the step, float32.
        state : Tensor
            States from `init_state`, one for each row of ``x``; updated in place.
        delta_scale : Tensor of shape (B,), optional
            Real time elapsed since the last step, in units of the usual gap.
        slots : int64 Tensor of shape (B,), optional
            Which of the states each row advances, all different; the others stay as they are.

        Returns
        -------
        Tensor of shape (B, M)
            Outputs of the step.

        Raises
        ------
        ShapeError
            If an operand's shape or type does not fit, before any state is changed.
        """
        self._check(x, state, delta_scale, slots)
        x = x.contiguous()
        delta_scale = None if delta_scale is None else delta_scale.contiguous()
        slots = None if slots is None else slots.contiguous()
        if self._compiled is not None:
            return self._compiled.step(x, state, delta_scale, slots)
        with torch.no_grad():
            own = state if slots is None else state[slots]
            y = stack_step_reference(self._layers, self._norm_f, self._eps, x, own, delta_scale)
            if slots is not None:
                state[slots] = own
        return y

    def _check(
        self, x: Tensor, state: Tensor, delta_scale: Tensor | None, slots: Tensor | None
    ) -> None:
        if x.dim() != 2 or x.shape[1] != self._width or x.dtype != torch.float32 or not x.is_cpu:
            raise _misfit("x", x, f"(streams, {self._width}) of torch.float32")
        self._check_state(state)
        streams, states = x.shape[0], state.shape[0]
        if slots is not None:
            _check_slots(slots, streams, states)
        elif states != streams:
            raise ShapeError(
                f"stack_step: x has {streams} rows, but there are {states} states; pass one for "
                "each row, or slots"
            )
        if delta_scale is not None and (
            delta_scale.shape != (streams,)
            or delta_scale.dtype != torch.float32
            or not delta_scale.is_cpu
        ):
            raise _misfit("delta_scale", delta_scale, f"({streams},) of torch.float32")

    def _check_state(self, state: Tensor) -> None:
        if (
            state.shape[1:] != self.state_shape
            or state.dtype != torch.float32
            or not state.is_cpu
            or not state.is_contiguous()
        ):
            shape = ", ".join(map(str, self.state_shape))
            raise _misfit("state", state, f"a contiguous (streams, {shape}) of torch.float32")


def _misfit(name: str, given: Tensor, wanted: str) -> ShapeError:
    layout = "" if given.is_contiguous() else "non-contiguous "
    return ShapeError(
        f"stack_step: {name} is {layout}{tuple(given.shape)} of {given.dtype} on {given.device}; "
        f"pass {wanted} on the CPU"
    )


def _check_slots(slots: Tensor, streams: int, states: int) -> None:
    if slots.shape != (streams,) or slots.dtype != torch.int64 or not slots.is_cpu:
        raise _misfit("slots", slots, f"({streams},) of torch.int64")
    chosen = slots.tolist()
    if chosen and not 0 <= min(chosen) <= max(chosen) < states:
        raise ShapeError(
            f"stack_step: slots go from {min(chosen)} to {max(chosen)}; there are {states} states, "
            "counted from 0"
        )
    if len(set(chosen)) < streams:
        twice = Counter(chosen).most_common(1)[0][0]
        raise ShapeError(f"stack_step: slots name state {twice} more than once; pass each once")


def _common_sizes(layers: Sequence[LayerWeights]) -> dict[str, int]:
    """Return the sizes that all layers share."""
    if not layers:
        raise ShapeError("stack_step: there are no layers; pass at least one")
    first = layers[0]
    for i, layer in enumerate(layers):
        differ = [name for name in AXES if _shape(layer, name) != _shape(first, name)]
        if differ:
            raise ShapeError(
                f"stack_step: layers 0 and {i} differ in the shape of {', '.join(differ)}; pass "
                "layers that are alike"
            )
    return first.sizes()


def _shape(layer: LayerWeights, name: str) -> torch.Size | None:
    weight: Tensor | None = getattr(layer, name)
    return None if weight is None else weight.shape
