"""Parity before speed: a contestant with other numbers is no contestant."""

from torch import Tensor

from tsmamba_kernels import selective_scan
from tsmamba_kernels.testing import ParityError, check_parity, relative_error, scan_inputs

# A parallel scan rounds in another order, and its products of decays underflow.
TOLERANCE = 1e-4


def check_scan() -> None:
    """Hold the scan that runs here against the reference in float64, gradients included.

    Raises
    ------
    ParityError
        If it differs.
    """
    check_parity(selective_scan, scan_inputs(length=130, states=16), backend="auto")


def check_equal(name: str, actual: Tensor, expected: Tensor) -> None:
    """Hold the output of a contestant against that of ours.

    Raises
    ------
    ParityError
        If their relative error is above 1e-4.
    """
    error = relative_error(actual, expected)
    if error > TOLERANCE:
        raise ParityError(
            f"{name} differs by {error:.1e}, at most {TOLERANCE:.0e} is accepted; no speed is shown"
        )
