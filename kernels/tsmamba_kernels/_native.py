"""The compiled CPU library: finding it, checking it, describing its C structures to ctypes.

The C side is documented in ``kernels/csrc/tsm_cpu.h``; the structures here mirror its fields.
"""

import ctypes
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from tsmamba_kernels._shapes import POSITIVE_A
from tsmamba_kernels.errors import KernelError, ShapeError

ABI_VERSION = 4
# Bytes from which results are worth large pages: two of them.
LARGE = 1 << 22
DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16"}
_ERRORS: dict[int, Callable[[], KernelError]] = {
    1: lambda: KernelError(
        "the CPU kernel could not allocate its scratch memory; free some memory"
    ),
    2: lambda: ShapeError(POSITIVE_A),
}


class View(ctypes.Structure):
    """A tensor whose innermost axis is contiguous: ``tsm_view``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("batch_stride", ctypes.c_int64),
        ("time_stride", ctypes.c_int64),
        ("inner_stride", ctypes.c_int64),
    )


class ScanArgs(ctypes.Structure):
    """Operands of the selective scan: ``tsm_scan_args``."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("batch", "length", "channels", "states", "groups")),
        *((name, ctypes.c_int64) for name in ("splits", "chunk")),
        *((name, ctypes.c_int32) for name in ("threads", "softplus", "tied")),
        *((name, ctypes.c_double) for name in ("dt_min", "dt_max")),
        ("series", ctypes.c_void_p),
        *((name, View) for name in ("u", "delta", "z", "b", "c", "mask", "dt_scale")),
        *((name, ctypes.c_void_p) for name in ("a_t", "d_skip", "delta_bias", "initial_state")),
        ("out", View),
        *((name, ctypes.c_void_p) for name in ("final_state", "chunk_states", "total_dt")),
        ("grad_out", View),
        ("grad_final_state", ctypes.c_void_p),
        *((f"grad_{name}", View) for name in ("u", "delta", "z", "dt_scale", "b", "c")),
        *(
            (f"grad_{name}", ctypes.c_void_p)
            for name in ("a_t", "d_skip", "delta_bias", "initial_state")
        ),
    )


class ConvArgs(ctypes.Structure):
    """Operands of the causal convolution: ``tsm_conv_args``."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("batch", "length", "channels", "width")),
        *((name, ctypes.c_int64) for name in ("tile", "tiles")),
        *((name, ctypes.c_int32) for name in ("threads", "silu")),
        ("series", ctypes.c_void_p),
        *((name, View) for name in ("x", "mask")),
        *((name, ctypes.c_void_p) for name in ("weight_t", "bias", "initial_state")),
        *((name, View) for name in ("out", "grad_out", "grad_x")),
        *((f"grad_{name}", ctypes.c_void_p) for name in ("weight_t", "bias", "initial_state")),
    )


class Layer(ctypes.Structure):
    """Weights of one layer of a stack: ``tsm_layer``."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in (
            *("norm", "in_proj", "in_bias", "conv_t", "conv_bias", "x_proj", "dt_proj", "dt_bias"),
            *("gain_proj", "gain_bias", "a_t", "d_skip", "out_proj", "out_bias"),
        )
    )


class StackArgs(ctypes.Structure):
    """Operands of one step of a stack: ``tsm_stack_args``."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("streams", "layers", "model", "inner", "states")),
        *((name, ctypes.c_int64) for name in ("width", "rank")),
        *((name, ctypes.c_int32) for name in ("threads", "tied")),
        *((name, ctypes.c_float) for name in ("eps", "gain_limit")),
        *((name, ctypes.c_void_p) for name in ("layer", "norm_f", "x", "dt_scale", "slot")),
        *((name, ctypes.c_void_p) for name in ("state", "out")),
    )


class PatchArgs(ctypes.Structure):
    """Operands of the distance of patches: ``tsm_patch_args``."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("batch", "length", "channels", "queries", "first")),
        *((name, ctypes.c_int64) for name in ("stride", "width", "block", "patches", "apart")),
        ("offset", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("threads", "form")),
        ("least_sd", ctypes.c_double),
        *(
            (name, ctypes.c_void_p)
            for name in ("values", "memory", "memory_start", "bounds", "out")
        ),
    )


def open_library() -> ctypes.CDLL | str:
    """Return the opened library, or the reason why there is none."""
    # find_spec, not a path beside this file: in an editable install the two lie apart.
    spec = find_spec("tsmamba_kernels._tsm_cpu")
    if spec is None or spec.origin is None:
        return "the CPU library was not built; install with a C++ compiler present"
    try:
        library = ctypes.CDLL(spec.origin)
        found = int(library.tsm_abi_version())
    except (OSError, AttributeError) as error:
        return f"the CPU library at {spec.origin} cannot be opened: {error}"
    if found != ABI_VERSION:
        return (
            f"the CPU library has ABI version {found}, this package needs {ABI_VERSION}; reinstall"
        )
    library.tsm_isa.restype = ctypes.c_char_p
    return library


# Opened here and not at the first call, which torch.compile could not trace.
_OPENED = open_library()
LIBRARY = None if isinstance(_OPENED, str) else _OPENED
REASON_AGAINST = _OPENED if isinstance(_OPENED, str) else None


def isa() -> str | None:
    """Return the instruction set that the library runs on this processor."""
    return None if LIBRARY is None else LIBRARY.tsm_isa().decode()


def call(
    symbol: str, dtype: torch.dtype, args: ctypes.Structure, owners: Sequence[Tensor | None]
) -> None:
    """Run ``tsm_<symbol>_<dtype>`` and raise what its return code stands for.

    ``owners`` are the tensors whose memory ``args`` points to: being an argument keeps them alive.
    """
    if LIBRARY is None:
        raise KernelError(REASON_AGAINST)
    code = getattr(LIBRARY, f"tsm_{symbol}_{DTYPES[dtype]}")(ctypes.byref(args))
    if code:
        raise _ERRORS[code]()


def pointer(x: Tensor | None) -> int | None:
    """Return the address of a contiguous tensor, or None for an absent one."""
    return None if x is None else x.data_ptr()


def empty(like: Tensor, *shape: int) -> Tensor:
    """Return new memory for a result, in large pages where it is large."""
    x = like.new_empty(shape)
    if LIBRARY is not None and x.nbytes >= LARGE:
        LIBRARY.tsm_prepare_pages(
            ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(x.nbytes), torch.get_num_threads()
        )
    return x


def rows(x: Tensor) -> Tensor:
    """Return ``x`` with its innermost axis contiguous; the other strides are free."""
    return x if x.stride(-1) == 1 else x.contiguous()


def view(x: Tensor | None, *, reverse: bool = False, inner_stride: int = 0) -> Any:
    """Describe a (B, L, ...) tensor; ``reverse`` makes the kernel walk it from its last row."""
    if x is None:
        return View()
    batch_stride, time_stride = x.stride(0), x.stride(1)
    address = x.data_ptr()
    if reverse and x.shape[1]:
        address += (x.shape[1] - 1) * time_stride * x.element_size()
        time_stride = -time_stride
    return View(address, batch_stride, time_stride, inner_stride)
