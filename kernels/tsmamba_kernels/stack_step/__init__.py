"""One time step through every layer of a causal stack, for many streams in one call."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tsmamba_kernels._backend import choose
from tsmamba_kernels.errors import ShapeError
from tsmamba_kernels.stack_step.cpu import CompiledStack
from tsmamba_kernels.stack_step.layout import GAIN_LIMIT, LINE, LayerWeights, round_up
from tsmamba_kernels.stack_step.reference import stack_step_reference

__all__ = ["GAIN_LIMIT", "LayerWeights", "StackStep"]


class StackStep:
    """A causal stack that takes one time step of many streams in one call.

    For streaming in production, where the cost of PyTorch's calls is ten times that of the
    arithmetic: norms, projections, convolution windows, scan steps, gates and residuals of all
    layers run inside one native call. The weights are copied when it is made, so later changes to
    the network are not seen. `tsmamba.nn.FusedStack` makes one from a network.

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

    Raises
    ------
    ShapeError
        If there are no layers or they differ in size, or A has a positive entry.
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
        self._layers = [layer.detached() for layer in layers]
        _check_same_sizes(self._layers)
        self._norm_f = norm_f.detach().to("cpu", torch.float32).clone()
        self._eps = eps
        self._backend = choose("stack_step", self._norm_f, backend, absent=("triton",))
        native = self._backend == "native"
        self._compiled = CompiledStack(self._layers, self._norm_f, eps) if native else None

    @property
    def state_shape(self) -> tuple[int, int, int, int]:
        """Shape of the state of one stream: layers, groups of channels, W - 1 + N rows, channels.

        A group of 16 channels is together in memory, so that a step reads it in one go.
        """
        first = self._layers[0]
        rows = first.conv1d.shape[1] - 1 + first.states
        return len(self._layers), round_up(first.D.shape[0]) // LINE, rows, LINE

    def init_state(self, streams: int) -> Tensor:
        """Return the states of as many streams before their first step.

        Returns
        -------
        Tensor of shape (streams, *state_shape)
            Zeros, float32, one contiguous piece for each stream. Its rows are the last W - 1 inputs
            of the convolution, oldest first, then the N states of the scan.
        """
        return torch.zeros(streams, *self.state_shape)

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
        own = state if slots is None else state[slots]
        with torch.no_grad():
            y = stack_step_reference(self._layers, self._norm_f, self._eps, x, own, delta_scale)
        if slots is not None:
            state[slots] = own
        return y

    def _check(
        self, x: Tensor, state: Tensor, delta_scale: Tensor | None, slots: Tensor | None
    ) -> None:
        width = self._norm_f.shape[0]
        if x.dim() != 2 or x.shape[1] != width or x.dtype != torch.float32:
            raise ShapeError(
                f"x is {tuple(x.shape)} of {x.dtype}; pass (streams, {width}) of torch.float32"
            )
        if state.shape[1:] != self.state_shape or not state.is_contiguous():
            raise ShapeError(
                f"state is {tuple(state.shape)}; pass a contiguous one of (streams, "
                f"{', '.join(map(str, self.state_shape))}), as init_state makes it"
            )
        if state.dtype != torch.float32 or x.device.type != "cpu" or state.device.type != "cpu":
            raise ShapeError(
                f"x is on {x.device}, state on {state.device} in {state.dtype}; "
                "pass torch.float32 on the CPU"
            )
        streams = x.shape[0]
        if slots is None and state.shape[0] != streams:
            raise ShapeError(
                f"x has {streams} rows and state {state.shape[0]}; pass one state a row, or slots"
            )
        if delta_scale is not None and (
            delta_scale.shape != (streams,) or delta_scale.dtype != torch.float32
        ):
            raise ShapeError(
                f"delta_scale is {tuple(delta_scale.shape)} of {delta_scale.dtype}; "
                f"pass ({streams},) of torch.float32"
            )
        if slots is not None:
            _check_slots(slots, streams, state.shape[0])


def _check_slots(slots: Tensor, streams: int, states: int) -> None:
    if slots.shape != (streams,) or slots.dtype != torch.int64:
        raise ShapeError(
            f"slots is {tuple(slots.shape)} of {slots.dtype}; pass ({streams},) of torch.int64"
        )
    chosen = slots.tolist()
    if len(set(chosen)) < streams or any(not 0 <= slot < states for slot in chosen):
        raise ShapeError(f"slots must be different numbers from 0 to {states - 1}, but is {chosen}")


def _check_same_sizes(layers: Sequence[LayerWeights]) -> None:
    if not layers:
        raise ShapeError("a stack has at least one layer")
    sizes = [
        {name: x.shape for name, x in vars(layer).items() if x is not None} for layer in layers
    ]
    for i, other in enumerate(sizes):
        if other != sizes[0]:
            differ = sorted(n for n in sizes[0].keys() | other if sizes[0].get(n) != other.get(n))
            raise ShapeError(f"layers 0 and {i} differ in the size of {', '.join(differ)}")
