"""Distance of patches on the compiled CPU kernel."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tsmamba_kernels import _native
from tsmamba_kernels.patch_distance.reference import FORMS, block_of, embed

_LANES = 16  # patches that lie together: ``TSM_LANES``


class CompiledIndex:
    """Points laid out for the kernel, and the call that uses them. Safe to share by threads."""

    def __init__(self, patches: Tensor, form: str, starts: Tensor | None) -> None:
        points = embed(patches, form).float()
        surplus = -points.shape[1] % _LANES
        points = F.pad(points, (0, 0, 0, surplus), value=torch.inf)
        memory = points.unflatten(1, (-1, _LANES)).transpose(2, 3).contiguous()
        self._bounds = starts
        if starts is not None:
            starts = F.pad(starts[None], (0, surplus), mode="replicate")[0]
            self._bounds = torch.stack(starts.unflatten(0, (-1, _LANES)).aminmax(dim=1), 1)
        self._owners = (memory, starts)  # the arguments hold bare addresses of these
        args = _native.PatchArgs()
        args.channels, args.width = patches.shape[0], patches.shape[-1]
        args.block, args.patches = block_of(patches.shape[-1]), points.shape[1]
        args.form, args.least_sd = FORMS[form]
        args.memory, args.memory_start = memory.data_ptr(), _native.pointer(starts)
        self._args = args

    def distances(self, values: Tensor, starts: range, apart: int, offset: int) -> Tensor:
        """Return the distances, shape (B, Q, D); operands as `PatchIndex` has checked them."""
        args = _native.PatchArgs.from_buffer_copy(self._args)  # threads share the original
        out = values.new_empty(values.shape[0], len(starts), values.shape[2])
        args.batch, args.length, args.queries = values.shape[0], values.shape[1], len(starts)
        args.first, args.stride = starts.start, starts.step
        if len(starts) == 1 and not apart:
            # The kernel reads the patches once for a few windows of one series. Series that lie end
            # to end are one whose windows are as far apart as they are long.
            args.queries, args.stride = values.shape[:2]
            args.batch, args.length = 1, values.shape[0] * values.shape[1]
        args.threads, args.apart, args.offset = torch.get_num_threads(), apart, offset
        args.values, args.out = values.data_ptr(), out.data_ptr()
        args.bounds = _native.pointer(self._bounds) if apart else None
        _native.call("patch_distance", torch.float32, args, (values, out))
        return out
