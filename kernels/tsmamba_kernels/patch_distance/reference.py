"""Distance of patches in plain PyTorch, the truth for the compiled kernel."""

import torch
from torch import Tensor

# Number of the form in the kernel, and the least standard deviation of a window.
FORMS = {"raw": (0, 0.0), "half": (1, 0.01), "z": (2, 0.1)}
_POINTS = 64
_CELLS = 1 << 24


def block_of(width: int) -> int:
    """Return how many rows one number of a point stands for."""
    return max(1, width // _POINTS)


def embed(windows: Tensor, form: str) -> Tensor:
    """Turn windows, (..., width), into points, (..., width // block)."""
    width, block = windows.shape[-1], block_of(windows.shape[-1])
    # The newest rows count: what does not fill a block is left out at the old end.
    points = windows[..., width % block :].double().unflatten(-1, (-1, block)).mean(-1)
    if form != "raw":
        points = points - points.mean(-1, keepdim=True)
        sd = points.square().mean(-1, keepdim=True).sqrt().clamp_min(FORMS[form][1])
        points = points / (sd.sqrt() if form == "half" else sd)
    scaled: Tensor = points / points.shape[-1] ** 0.5
    return scaled


def patch_distance_reference(
    values: Tensor, starts: range, patches: Tensor, form: str, near: Tensor | None
) -> Tensor:
    """Compare every window with every patch; operands as `PatchIndex` has checked them."""
    width = patches.shape[-1]
    memory = embed(patches, form)
    out = values.new_empty(values.shape[0], len(starts), values.shape[2])
    step = max(1, _CELLS // (values.shape[0] * memory.numel()))
    for begin in range(0, len(starts), step):
        rows = torch.tensor(starts[begin : begin + step])[:, None] + torch.arange(width)
        queries = embed(values[:, rows].permute(0, 3, 1, 2), form)
        gaps = torch.cdist(queries, memory, compute_mode="donot_use_mm_for_euclid_dist")
        if near is not None:
            gaps = gaps.masked_fill(near[begin : begin + step], torch.inf)
        out[:, begin : begin + step] = gaps.amin(-1).transpose(1, 2)
    return out
