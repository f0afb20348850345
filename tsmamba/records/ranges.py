"""What vital signs and laboratory values can be: ranges of a living patient, and other units.

A value outside its range is taken for one in another unit where the conversion leads into the
range, and is set aside otherwise. Codes that are not listed are left as they are.
"""

import re
from typing import NamedTuple

__all__ = ["RANGES", "Range", "range_of"]


class Range(NamedTuple):
    """Range of a quantity, and what brings values in other units into it."""

    low: float
    high: float
    unit: str
    # Factor and offset of a conversion, and what it is from.
    other: tuple[tuple[float, float, str], ...] = ()


_PRESSURE = Range(10, 300, "mmHg")
_ENZYME = Range(1, 50_000, "IU/L")
_SATURATION = Range(10, 100, "%", ((100.0, 0.0, "a share"),))
_FAHRENHEIT = (5 / 9, -160 / 9, "degrees Fahrenheit")

# By names in lower case without anything but letters and digits.
RANGES: dict[str, Range] = {
    "age": Range(0, 120, "years"),
    "gender": Range(0, 1, ""),
    "sex": Range(0, 1, ""),
    "height": Range(40, 250, "cm", ((100.0, 0.0, "m"), (2.54, 0.0, "inches"))),
    "weight": Range(0.3, 400, "kg"),
    "icutype": Range(1, 4, ""),
    "albumin": Range(0.5, 10, "g/dL", ((0.1, 0.0, "g/L"),)),
    "alp": _ENZYME,
    "alt": _ENZYME,
    "ast": _ENZYME,
    "bilirubin": Range(0.05, 100, "mg/dL"),
    "bun": Range(0.5, 300, "mg/dL"),
    "cholesterol": Range(20, 1_000, "mg/dL"),
    "creatinine": Range(0.05, 50, "mg/dL"),
    "diasabp": _PRESSURE,
    "fio2": Range(0.15, 1, "a share", ((0.01, 0.0, "%"),)),
    "gcs": Range(3, 15, "points"),
    "glucose": Range(5, 2_000, "mg/dL"),
    "hco3": Range(2, 80, "mmol/L"),
    "hct": Range(5, 75, "%"),
    "hr": Range(5, 350, "1/min"),
    "k": Range(0.5, 15, "mmol/L"),
    "lactate": Range(0.05, 50, "mmol/L"),
    "mg": Range(0.2, 15, "mmol/L"),
    "map": _PRESSURE,
    "na": Range(80, 220, "mmol/L"),
    "nidiasabp": _PRESSURE,
    "nimap": _PRESSURE,
    "nisysabp": _PRESSURE,
    "paco2": Range(5, 250, "mmHg"),
    "pao2": Range(10, 800, "mmHg"),
    "ph": Range(6.5, 8.0, "", ((0.1, 0.0, "tenths"), (0.01, 0.0, "hundredths"))),
    "platelets": Range(1, 3_000, "1000/uL"),
    "resprate": Range(1, 120, "1/min"),
    "sao2": _SATURATION,
    "sysabp": _PRESSURE,
    "temp": Range(25, 45, "degrees Celsius", (_FAHRENHEIT,)),
    "troponini": Range(0, 1_000, "ug/L"),
    "troponint": Range(0, 100, "ug/L"),
    "urine": Range(0, 10_000, "mL"),
    "wbc": Range(0.05, 500, "1000/uL"),
}
_ALIASES = {
    "alb": "albumin", "bili": "bilirubin", "bicar": "hco3", "crea": "creatinine",
    "dbp": "diasabp", "glu": "glucose", "lact": "lactate", "o2sat": "sao2", "spo2": "sao2",
    "pco2": "paco2", "plt": "platelets", "po2": "pao2", "resp": "resprate", "sbp": "sysabp",
    "temperature": "temp", "heartrate": "hr", "tnt": "troponint", "potassium": "k",
    "sodium": "na", "magnesium": "mg",
}  # fmt: skip


def range_of(code: str) -> Range | None:
    """Return the range of a code, None if it is not known.

    Parameters
    ----------
    code : str
        Such as "HR", "heart_rate" or "o2sat".

    Returns
    -------
    Range or None
        Of what it stands for.

    Examples
    --------
    >>> range_of("Heart Rate")
    Range(low=5, high=350, unit='1/min', other=())
    """
    name = re.sub(r"[^a-z0-9]", "", code.lower())
    return RANGES.get(_ALIASES.get(name, name))
