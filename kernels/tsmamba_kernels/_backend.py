"""Which implementation runs a call, and why not a faster one."""

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import torch
from torch import Tensor

from tsmamba_kernels import _native
from tsmamba_kernels.errors import BackendUnavailableError

VARIABLE = "TSMAMBA_BACKEND"


# Without importing it, which takes a second.
_HAS_TRITON = find_spec("triton") is not None


def _interpreted() -> bool:
    """Whether Triton runs its kernels step by step on the CPU, which is for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def _against_triton(device: torch.device) -> str | None:
    if not _HAS_TRITON:
        return "triton is not installed; pip install triton"
    if device.type == "cuda" or (device.type == "cpu" and _interpreted()):
        return None
    return f"the Triton kernels run on CUDA tensors, not on {device}"


def _against_native(device: torch.device) -> str | None:
    if device.type != "cpu":
        return f"the native kernels run on CPU tensors, not on {device}"
    return _native.REASON_AGAINST


def _against_reference(_: torch.device) -> str | None:
    return None


# For each backend the reason against it on a device, None where it can run.
BACKENDS: dict[str, Callable[[torch.device], str | None]] = {
    "triton": _against_triton,
    "native": _against_native,
    "reference": _against_reference,
}


def _preferred(device: torch.device) -> tuple[str, ...]:
    """Return what an automatic choice tries; Triton's interpreter is never part of it."""
    return ("triton", "reference") if device.type == "cuda" else ("native", "reference")


_requested: list[str] = []
_last: dict[str, tuple[str, str | None]] = {}


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Run every operation inside the ``with`` block on one backend.

    Use it to compare implementations or to rule one out when hunting a bug.

    Parameters
    ----------
    name : {"auto", "triton", "native", "reference"}
        As the ``backend`` argument of the operations, which it does not override.

    Raises
    ------
    BackendUnavailableError
        If there is no backend of that name.

    Examples
    --------
    >>> import torch
    >>> from tsmamba_kernels import causal_conv1d, use_backend
    >>> with use_backend("reference"):
    ...     causal_conv1d(torch.ones(1, 3, 1), torch.ones(1, 2)).flatten()
    tensor([1., 2., 2.])
    """
    _check_name(name)
    _requested.append(name)
    try:
        yield
    finally:
        _requested.pop()


def _check_name(name: str) -> None:
    known = ("auto", *BACKENDS)
    if name not in known:
        raise BackendUnavailableError(f"no backend {name!r}; choose one of {', '.join(known)}")


def choose(op: str, x: Tensor, requested: str, absent: Collection[str] = ()) -> str:
    """Return the backend for a call of ``op`` on tensors like ``x``.

    The argument, the innermost `use_backend`, the environment variable and the order of preference
    are asked in this order. A backend that was asked for by name and cannot run is an error; an
    automatic choice falls through, and `backend_report` tells why. ``absent`` names the backends
    that an operation was not written for.
    """
    if requested == "auto":
        requested = _requested[-1] if _requested else os.environ.get(VARIABLE, "auto")
    _check_name(requested)
    reason = None
    for name in _preferred(x.device) if requested == "auto" else (requested,):
        against = f"it has no {name} kernel" if name in absent else BACKENDS[name](x.device)
        if against is None:
            if not torch.compiler.is_compiling():
                _last[op] = (name, reason)
            return name
        reason = against
    raise BackendUnavailableError(f"backend {requested!r} cannot run {op}: {reason}")


def backend_report() -> dict[str, str]:
    """Tell which backends can run here and what the last call of each operation used.

    Look here when something is slower than expected: an automatic choice that had to pass over a
    faster backend says why.

    Returns
    -------
    dict of str to str
        One entry for each backend (``"available (avx2)"``, or the reason against it) and one for
        each operation called so far (the backend it ran on, and why not a faster one).

    Examples
    --------
    >>> from tsmamba_kernels import backend_report
    >>> backend_report()["reference"]
    'available'
    """
    devices = {"triton": "cuda" if torch.cuda.is_available() else "cpu"}
    report = {}
    for name, reason_against in BACKENDS.items():
        reason = reason_against(torch.device(devices.get(name, "cpu")))
        detail = f"available ({_native.isa()})" if name == "native" else "available"
        report[name] = reason or detail
    for op, (name, reason) in sorted(_last.items()):
        report[op] = f"{name} (not a faster one: {reason})" if reason else name
    return report
