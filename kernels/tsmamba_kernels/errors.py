"""Exceptions of the kernels.

::

    KernelError
    ├── ShapeError                 (also a ValueError)
    └── BackendUnavailableError    (also a RuntimeError)
"""


class KernelError(Exception):
    """Base of every error that the kernels raise on purpose."""


class ShapeError(KernelError, ValueError):
    """An operand whose axes, type or values do not fit the operation."""


class BackendUnavailableError(KernelError, RuntimeError):
    """A backend that was asked for by name cannot run this call."""
