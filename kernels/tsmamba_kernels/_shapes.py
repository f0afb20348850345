"""Axis checks whose messages name the operand, the axis letters and the sizes."""

from itertools import pairwise

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


def check_packing(op: str, cu_seqlens: Tensor | None, sizes: dict[str, int]) -> None:
    """Refuse boundaries of packed series that do not fit the operands.

    Their values are the business of `check_boundaries`, which waits for the device.
    """
    if cu_seqlens is None:
        return
    if cu_seqlens.dtype not in (torch.int32, torch.int64) or cu_seqlens.dim() != 1:
        raise ShapeError(
            f"{op}: cu_seqlens is a {cu_seqlens.dim()}-dimensional tensor of {cu_seqlens.dtype}; "
            "pass the S + 1 boundaries of S series as one axis of int32 or int64"
        )
    if sizes["B"] != 1:
        raise ShapeError(
            f"{op}: cu_seqlens packs all series into one batch row, but B = {sizes['B']}; "
            "reshape the operands to (1, B * L, ...)"
        )
    series = cu_seqlens.shape[0] - 1
    if series < 1:
        raise ShapeError(
            f"{op}: cu_seqlens has {series + 1} boundaries; one series has two, [0, L]"
        )
    if sizes.get("S", series) != series:
        raise ShapeError(
            f"{op}: cu_seqlens has the boundaries of {series} series, but initial_state has "
            f"S = {sizes['S']}"
        )


def check_boundaries(op: str, cu_seqlens: Tensor, length: int) -> list[int]:
    """Return the boundaries as a list, or refuse values that do not cut ``length`` into pieces."""
    bounds: list[int] = cu_seqlens.tolist()
    if bounds[0] != 0 or bounds[-1] != length or any(a > b for a, b in pairwise(bounds)):
        shown = bounds if len(bounds) <= 8 else [*bounds[:4], "...", *bounds[-3:]]
        raise ShapeError(f"{op}: cu_seqlens must rise from 0 to L = {length}, but is {shown}")
    return bounds


def compute_dtype(x: Tensor) -> torch.dtype:
    """Return the type of the arithmetic: float64 stays, everything shorter becomes float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _spell(layouts: str) -> str:
    return ") or (".join(", ".join(axes.split()) for axes in layouts.split("|"))


# Short types that a backend reads and writes as they are; it computes in float32 all the same.
_STORED: dict[str, tuple[torch.dtype, ...]] = {
    "triton": (torch.bfloat16, torch.float16),
    "native": (torch.bfloat16,),
}


def storage_dtype(backend: str, *rows: Tensor | None) -> torch.dtype:
    """Return the type in which a backend takes the operands with a time axis."""
    found = {x.dtype for x in rows if x is not None}
    if len(found) == 1 and found <= set(_STORED.get(backend, ())):
        return found.pop()
    return compute_dtype(next(x for x in rows if x is not None))
