"""Checks of arguments; every message says what was given, what is accepted and the repair."""

import math
from collections.abc import Sequence

from tsmamba_datasets.errors import DatasetError

_LISTED = 60


def check_choice(parameter: str, given: object, accepted: Sequence[object]) -> None:
    """Refuse a value that is not one of the accepted ones.

    Parameters
    ----------
    parameter : str
        Name of the parameter, as the caller wrote it.
    given : object
        The value to check.
    accepted : sequence of object
        The accepted values, in the order to list them; not empty.

    Raises
    ------
    DatasetError
        If ``given`` is not in ``accepted``.

    Examples
    --------
    >>> check_choice("region", "PJME", ["AEP", "PJME"])
    """
    if given in accepted:
        return
    listed = ", ".join(repr(value) for value in accepted[:_LISTED])
    rest = len(accepted) - _LISTED
    more = f" and {rest} more" if rest > 0 else ""
    raise DatasetError(
        f"{parameter}={given!r} is unknown; accepted: {listed}{more}. "
        f"Pass one of these, such as {parameter}={accepted[0]!r}."
    )


def check_at_least(parameter: str, given: float, least: float) -> None:
    """Refuse a number below its least accepted value; NaN and infinity are refused too.

    Parameters
    ----------
    parameter : str
        Name of the parameter, as the caller wrote it.
    given : float
        The value to check.
    least : float
        The least accepted value.

    Raises
    ------
    DatasetError
        If ``given`` is below ``least`` or not finite.

    Examples
    --------
    >>> check_at_least("length", 10, 1)
    """
    if math.isfinite(given) and given >= least:
        return
    raise DatasetError(
        f"{parameter}={given!r} is out of range; accepted: finite numbers from {least!r} up. "
        f"Pass {parameter}={least!r} or more."
    )
