"""Which implementation runs a call, and why not a faster one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from tsmamba_kernels import _native
from tsmamba_kernels.errors import BackendUnavailableError

VARIABLE = "TSMAMBA_BACKEND"


@dataclass(frozen=True)
class Backend:
    """A way to run the operations; ``reason_against`` is None where it can."""

    name: str
    reason_against: Callable[[Tensor], str | None]


def _against_native(x: Tensor) -> str | None:
    if x.device.type != "cpu":
        return f"the native kernels run on CPU tensors, this one is on {x.device}"
    return _native.REASON_AGAINST


def _against_reference(_: Tensor) -> str | None:
    return None


# In order of preference.
BACKENDS = (Backend("native", _against_native), Backend("reference", _against_reference))

_requested: list[str] = []
_last: dict[str, tuple[str, str | None]] = {}


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Run every operation inside the ``with`` block on one backend.

    Use it to compare implementations or to rule one out when hunting a bug.

    Parameters
    ----------
    name : {"auto", "native", "reference"}
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
    known = ["auto", *(backend.name for backend in BACKENDS)]
    if name not in known:
        raise BackendUnavailableError(f"no backend {name!r}; choose one of {', '.join(known)}")


def choose(op: str, x: Tensor, requested: str) -> str:
    """Return the backend for a call of ``op`` on tensors like ``x``.

    The argument, the innermost `use_backend`, the environment variable and the order of preference
    are asked in this order. A backend that was asked for by name and cannot run is an error; an
    automatic choice falls through, and `backend_report` tells why.
    """
    if requested == "auto":
        requested = _requested[-1] if _requested else os.environ.get(VARIABLE, "auto")
    _check_name(requested)
    reason = None
    for backend in BACKENDS:
        if requested not in ("auto", backend.name):
            continue
        against = backend.reason_against(x)
        if against is None:
            if not torch.compiler.is_compiling():
                _last[op] = (backend.name, reason)
            return backend.name
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
    probe = torch.empty(0)
    report = {}
    for backend in BACKENDS:
        reason = backend.reason_against(probe)
        detail = f"available ({_native.isa()})" if backend.name == "native" else "available"
        report[backend.name] = reason or detail
    for op, (name, reason) in sorted(_last.items()):
        report[op] = f"{name} (not a faster one: {reason})" if reason else name
    return report
