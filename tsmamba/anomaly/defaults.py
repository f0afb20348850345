"""Parameters of `MambaDetector`: what is accepted, and what is taken where they are left open."""

from typing import Any

import numpy as np

from tsmamba.anomaly.calibration import (
    Calibration,
    Conformal,
    Drift,
    DriftSpot,
    Quantile,
    Rate,
    Spot,
)
from tsmamba.anomaly.plan import DELAYS
from tsmamba.errors import ParameterError

PRESETS = ("auto", "alerts", "tiny")
MODES = ("offline", "streaming")
_AT_ONCE = ("alerts", "tiny")
_CALIBRATIONS: dict[str, type[Calibration[Any]]] = {
    "quantile": Quantile,
    "spot": Spot,
    "dspot": DriftSpot,
    "conformal": Conformal,
    "rate": Rate,
}
_CORRECTORS = ("mamba", None)
_LEAST_MEMORY = 16
_MOST_CONTAMINATION = 0.5


def check_choice(name: str, value: object, accepted: tuple[str, ...]) -> None:
    """Refuse what is none of the accepted words.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : object
        What was given.
    accepted : tuple of str
        What may be.

    Raises
    ------
    ParameterError
        Naming all of them.
    """
    if value not in accepted:
        raise ParameterError(f"{name}={value!r}; pass one of {', '.join(map(repr, accepted))}")


def check_rows(name: str, value: object, least: int) -> None:
    """Refuse what is not a number of rows.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : object
        What was given.
    least : int
        Smallest number accepted.

    Raises
    ------
    ParameterError
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ParameterError(f"{name}={value!r}; pass a whole number of {least} or more")


def check_delay(delay: object, preset: str) -> None:
    """Refuse a delay that is neither rows nor a part of a patch, or of no use.

    Parameters
    ----------
    delay : object
        What was given.
    preset : str
        The preset beside it.

    Raises
    ------
    ParameterError
    """
    is_part = isinstance(delay, str) and delay in DELAYS
    is_count = isinstance(delay, int | np.integer) and not isinstance(delay, bool) and delay >= 0
    if not (is_part or is_count):
        raise ParameterError(
            f"delay={delay!r}; pass a whole number of rows, 0 or more, or one of "
            f"{', '.join(map(repr, DELAYS))}"
        )
    if preset in _AT_ONCE and delay != 0:
        raise ParameterError(
            f"delay={delay!r} with preset={preset!r}, which scores each row at once; leave delay "
            "at 0, or pass preset='auto'"
        )


def check_memory(size: object) -> None:
    """Refuse a memory too small to compare with.

    Parameters
    ----------
    size : object
        What was given.

    Raises
    ------
    ParameterError
    """
    check_rows("memory_size", size, _LEAST_MEMORY)


def check_corrector(corrector: object, preset: str) -> None:
    """Refuse a corrector that does not exist, or has nothing to correct.

    Parameters
    ----------
    corrector : object
        What was given.
    preset : str
        The preset beside it.

    Raises
    ------
    ParameterError
    """
    if corrector not in _CORRECTORS:
        raise ParameterError(f"corrector={corrector!r}; pass 'mamba' or None")
    if corrector is not None and preset == "alerts":
        raise ParameterError(
            f"corrector={corrector!r} with preset='alerts', which has no autoregression to "
            "correct; leave corrector out, or pass preset='auto'"
        )


def calibration_for(
    calibration: object, contamination: object, least: float | None = None
) -> Calibration[Any]:
    """Return the calibration that two parameters ask for.

    Parameters
    ----------
    calibration : str, Calibration or None
        As given.
    contamination : "auto" or float
        As given.
    least : float, optional
        No threshold is below it where both leave it open.

    Returns
    -------
    Calibration

    Raises
    ------
    ParameterError
        If they are not accepted, or contradict each other.
    """
    if not (isinstance(contamination, str) and contamination == "auto"):
        if (
            isinstance(contamination, bool)
            or not isinstance(contamination, int | float | np.floating)
            or not 0 < contamination <= _MOST_CONTAMINATION
        ):
            raise ParameterError(
                f'contamination={contamination!r}; pass "auto" or a share of rows in (0, 0.5]'
            )
        if calibration is not None:
            raise ParameterError(
                f"contamination={contamination!r} with calibration={calibration!r}: both set the "
                "threshold; leave one of them out"
            )
        return Quantile(contamination=float(contamination))
    if calibration is None:
        return Quantile(least=least)
    if isinstance(calibration, str):
        check_choice("calibration", calibration, tuple(_CALIBRATIONS))
        return _CALIBRATIONS[calibration]()
    if not isinstance(calibration, Calibration):
        kinds = ", ".join(kind.__name__ for kind in _CALIBRATIONS.values())
        raise ParameterError(
            f"calibration={calibration!r}; pass one of {', '.join(map(repr, _CALIBRATIONS))}, or "
            f"one of {kinds} with settings of your own"
        )
    calibration.check()
    return calibration


def drift_for(drift: object) -> Drift:
    """Return the watch for changes of level.

    Parameters
    ----------
    drift : Drift or None
        As given.

    Returns
    -------
    Drift

    Raises
    ------
    ParameterError
        If it is none.
    """
    if drift is None:
        return Drift()
    if not isinstance(drift, Drift):
        raise ParameterError(f"drift={drift!r}; pass a Drift or None")
    drift.check()
    return drift
