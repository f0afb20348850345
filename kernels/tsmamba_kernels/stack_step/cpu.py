"""One step of a causal stack on the compiled CPU kernel."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from tsmamba_kernels import _native
from tsmamba_kernels.stack_step.layout import GAIN_LIMIT, LayerWeights, padded


class CompiledStack:
    """Weights laid out for the kernel, and the call that uses them. Safe to share by threads."""

    def __init__(self, layers: Sequence[LayerWeights], norm_f: Tensor, eps: float) -> None:
        laid_out = [layer.laid_out() for layer in layers]
        norm = padded(norm_f)
        structs = (_native.Layer * len(layers))()
        for struct, tensors in zip(structs, laid_out, strict=True):
            for name, tensor in tensors.items():
                setattr(struct, name, _native.pointer(tensor))
        self._owners = (laid_out, norm, structs)  # the arguments hold bare addresses of these
        sizes = layers[0].sizes()
        args = _native.StackArgs()
        args.layers, args.layer = len(layers), ctypes.addressof(structs)
        args.model, args.inner, args.states = sizes["M"], sizes["E"], sizes["N"]
        args.width, args.rank = sizes["W"], sizes["R"]
        args.tied, args.eps, args.gain_limit = layers[0].A.dim() == 1, eps, GAIN_LIMIT
        args.norm_f = norm.data_ptr()
        self._args = args

    def step(
        self, x: Tensor, state: Tensor, delta_scale: Tensor | None, slots: Tensor | None
    ) -> Tensor:
        """Return the output of the step, shape (B, M); ``state`` is updated in place."""
        args = _native.StackArgs.from_buffer_copy(self._args)  # threads share the original
        out = torch.empty_like(x)
        args.streams, args.threads = x.shape[0], torch.get_num_threads()
        args.x, args.state, args.out = x.data_ptr(), state.data_ptr(), out.data_ptr()
        args.dt_scale, args.slot = _native.pointer(delta_scale), _native.pointer(slots)
        _native.call("stack_step", torch.float32, args, (x, state, delta_scale, slots))
        return out
