"""A frozen copy of a causal stack that advances many streams in one native call."""

from collections.abc import Sequence

from torch import Tensor

from tsmamba.nn.mamba import Mamba, MambaState
from tsmamba.nn.stack import MambaStack
from tsmamba_kernels import LayerWeights, StackStep


class FusedStack:
    """One time step of a causal `MambaStack`, for one to thousands of streams, in one native call.

    Use it to score points as they arrive: it gives the numbers that `forward` of the stack in
    evaluation mode has there, without the many PyTorch calls of `MambaStack.step`. It is a copy of
    the weights as they are when it is made, in float32 on the CPU, and does not train. Its state is
    one tensor with a contiguous row for each stream, changed in place.

    Parameters
    ----------
    stack : MambaStack
        A causal stack without attention blocks.

    Raises
    ------
    RuntimeError
        If the stack is bidirectional or has attention blocks.
    ShapeError
        If the stack has no blocks.

    Examples
    --------
    >>> import torch
    >>> stack = MambaStack(8, n_layers=2).eval()
    >>> fused = FusedStack(stack)
    >>> state = fused.init_state(1)
    >>> x = torch.randn(1, 3, 8)
    >>> for t in range(3):
    ...     y = fused.step(x[:, t], state)
    >>> torch.allclose(y, stack(x)[:, -1], atol=1e-5)
    True
    """

    def __init__(self, stack: MambaStack) -> None:
        layers = [_weights(block.mixer, block.norm.weight) for block in stack.causal_blocks()]
        self._step = StackStep(layers, stack.norm_f.weight, eps=stack.norm_eps)

    def init_state(self, streams: int) -> Tensor:
        """Return the states of as many streams before their first step.

        Returns
        -------
        Tensor of shape (streams, ...)
            Zeros, float32. Rows may be selected, stacked and saved; `unpack` tells what is in them.
        """
        return self._step.init_state(streams)

    def step(
        self,
        x: Tensor,
        state: Tensor,
        *,
        delta_scale: Tensor | None = None,
        slots: Tensor | None = None,
    ) -> Tensor:
        """Take one step and change ``state`` in place.

        Parameters
        ----------
        x : Tensor of shape (streams, D)
            Inputs of the step, float32.
        state : Tensor
            States as `init_state` makes them.
        delta_scale : Tensor of shape (streams,), optional
            Real time elapsed since the last step, in units of the usual gap.
        slots : int64 Tensor of shape (streams,), optional
            Which of the states each row of ``x`` advances, all different. The others stay.

        Returns
        -------
        Tensor of shape (streams, D)
            Outputs of the step.

        Raises
        ------
        ShapeError
            If an operand's shape or type does not fit, before any state is changed.
        """
        return self._step(x, state, delta_scale=delta_scale, slots=slots)

    def pack(self, states: Sequence[MambaState]) -> Tensor:
        """Return the states that `MambaStack.step` and `MambaStack.prefill` carry as one tensor.

        Raises
        ------
        ShapeError
            If they are those of another stack.
        """
        return self._step.pack(states)

    def unpack(self, state: Tensor) -> list[MambaState]:
        """Return a copy of the states in the form that `MambaStack.step` takes."""
        return [MambaState(*layer) for layer in self._step.unpack(state)]


def _weights(mixer: Mamba, norm: Tensor) -> LayerWeights:
    gain = mixer.gain_proj
    return LayerWeights(
        norm=norm,
        in_proj=mixer.in_proj.weight,
        in_proj_bias=mixer.in_proj.bias,
        conv1d=mixer.conv1d.weight.squeeze(1),
        conv1d_bias=mixer.conv1d.bias,
        x_proj=mixer.x_proj.weight,
        dt_proj=mixer.dt_proj.weight,
        dt_proj_bias=mixer.dt_proj.bias,
        gain_proj=None if gain is None else gain.weight,
        gain_proj_bias=None if gain is None else gain.bias,
        A=mixer.decay_rates(),
        D=mixer.D,
        out_proj=mixer.out_proj.weight,
        out_proj_bias=mixer.out_proj.bias,
    )
