"""Axis checks whose messages name the operand, the axis letters and the sizes."""

import torch
from torch import Tensor

from tsmamba_kernels.errors import ShapeError

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
POSITIVE_A = (
    "A has a positive entry, with which the state would grow without bound; "
    "pass A <= 0, for example A = -exp(A_log)"
)


def check_axes(op: str, **operands: tuple[Tensor | None, str]) -> dict[str, int]:
    """Check operands against axis letters and return the size of each letter.

    Each operand is given as ``name=(tensor, "B L D")``; several layouts are separated by ``|``. A
    letter has one size throughout; the first operand that carries it decides. Absent operands are
    skipped.
    """
    sizes: dict[str, int] = {}
    device = next(x.device for x, _ in operands.values() if x is not None)
    for name, (x, layouts) in operands.items():
        if x is None:
            continue
        if x.device != device:
            raise ShapeError(f"{op}: {name} is on {x.device}, the first operand on {device}")
        if x.dtype not in FLOATS and name != "mask":
            raise ShapeError(f"{op}: {name} is {x.dtype}; pass floating-point numbers")
        match = [axes.split() for axes in layouts.split("|") if len(axes.split()) == x.dim()]
        if not match:
            raise ShapeError(
                f"{op}: {name} has shape {tuple(x.shape)}; expected axes ({_spell(layouts)})"
            )
        for letter, size in zip(match[0], x.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ShapeError(
                    f"{op}: {name} has shape {tuple(x.shape)}, but axes ({_spell(layouts)}) "
                    f"want {letter} = {sizes[letter]}, not {size}"
                )
    return sizes


def check_mask(op: str, mask: Tensor | None) -> None:
    """Refuse a mask that is not boolean: 0/1 numbers are easily the wrong way round."""
    if mask is not None and mask.dtype is not torch.bool:
        raise ShapeError(f"{op}: mask is {mask.dtype}; pass a bool tensor, True where observed")


def compute_dtype(x: Tensor) -> torch.dtype:
    """Return the type of the arithmetic: float64 stays, everything shorter becomes float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _spell(layouts: str) -> str:
    return ") or (".join(", ".join(axes.split()) for axes in layouts.split("|"))
