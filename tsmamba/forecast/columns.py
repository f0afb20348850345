"""Names of forecast columns, and the quantiles behind them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsmamba.errors import ParameterError

POINT = "MambaForecaster"
_DEFAULT_LEVEL = (90.0,)


@dataclass(frozen=True)
class Bands:
    """Columns beside the point forecast, each with the quantile it holds.

    A level is the content of a central interval in percent: ``MambaForecaster-lo-90`` is the 5 %
    quantile and ``MambaForecaster-hi-90`` the 95 % one. A quantile is named by itself:
    ``MambaForecaster_ql0.1``.
    """

    columns: tuple[tuple[str, float], ...]

    @classmethod
    def of(
        cls,
        level: Sequence[float] | None,
        quantiles: Sequence[float] | None,
        default: Sequence[float] | None = None,
    ) -> "Bands":
        """Return the bands a user asked for.

        Parameters
        ----------
        level : sequence of float in (0, 100), optional
            Contents of intervals in percent.
        quantiles : sequence of float in (0, 1), optional
            Quantiles; not together with ``level``.
        default : sequence of float in (0, 1), optional
            Quantiles when neither is given; without them the 90 % interval.

        Returns
        -------
        Bands
            In the order of the output's columns.

        Raises
        ------
        ParameterError
            If both are given, or a number is out of range.

        Examples
        --------
        >>> [name for name, _ in Bands.of([80], None).columns]
        ['MambaForecaster-lo-80', 'MambaForecaster-hi-80']
        """
        if level is not None and quantiles is not None:
            raise ParameterError(
                f"level={level!r} and quantiles={quantiles!r} were both given; pass one of them"
            )
        if level is None and quantiles is None:
            level, quantiles = (_DEFAULT_LEVEL, None) if default is None else (None, default)
        if quantiles is not None:
            checked = _checked("quantiles", quantiles, 1, "[0.1, 0.5, 0.9]")
            return cls(tuple((f"{POINT}_ql{q:g}", q) for q in checked))
        levels = _checked("level", level, 100, "[80, 90]")
        lower = [(f"{POINT}-lo-{x:g}", (1 - x / 100) / 2) for x in reversed(levels)]
        upper = [(f"{POINT}-hi-{x:g}", (1 + x / 100) / 2) for x in levels]
        return cls((*lower, *upper))


def _checked(name: str, given: Any, bound: int, example: str) -> list[float]:
    """Return sorted numbers strictly between 0 and ``bound``."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    numbers = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    for x in numbers:
        if (
            isinstance(x, bool)
            or not isinstance(x, int | float | np.number)
            or not 0 < float(x) < bound
        ):
            hint = " (a level is in percent)" if name == "level" else ""
            raise ParameterError(
                f"{name}={given!r} holds {x!r}; numbers lie strictly between 0 and {bound}"
                f"{hint}, as in {name}={example}"
            )
    return sorted({float(x) for x in numbers})
