"""The step of time stamps: recognise it, count it, continue by it.

Every frequency reduces to the same picture. `Frequency.line` puts stamps on a line of whole
numbers where one step always has the same length: the value itself for integers, time since 1970
for hours and below, wall-clock time for days and weeks (so a day across a change of summer time is
still one day), and months since 1970, with the place inside the month in the low digits, for
months, quarters and years. Checking, counting and continuing are then plain integer arithmetic.
Stamps in uneven time have a usual gap in place of a step, always of the same length.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from tsmamba.data.calendar import (
    NANOSECONDS,
    from_wall_clock,
    month_days,
    month_start,
    month_width,
    ticks_per_day,
    wall_clock,
)
from tsmamba.errors import FrequencyError, ParameterError

UNEVEN = "uneven"  # what users pass as freq where each row is a step
MONTHS = {"mo": 1, "q": 3, "y": 12}
_MONTH_SECONDS = 31_556_952 / 12  # a twelfth of the mean Gregorian year
_PANDAS_ALIASES = {
    "D": "1d",
    "W": "1w",
    "H": "1h",
    "h": "1h",
    "T": "1m",
    "min": "1m",
    "S": "1s",
    "s": "1s",
    "M": "1mo",
    "ME": "1mo",
    "MS": "1mo",
    "Q": "1q",
    "QE": "1q",
    "QS": "1q",
    "Y": "1y",
    "YE": "1y",
    "YS": "1y",
}
_PATTERN = re.compile(r"([1-9]\d*)(ns|us|ms|s|m|h|d|w|mo|q|y)")
_ACCEPTED = "a number and a unit out of ns, us, ms, s, m, h, d, w, mo, q, y, such as '15m' or '1d'"
_UNITS_SHOWN = ("d", "h", "m", "s", "ms", "us")


@dataclass(frozen=True)
class Frequency:
    """Step of a time axis.

    `Frequency.of` reads one that a user wrote, `infer_frequency` finds the one of a frame,
    `usual_gap` that of uneven stamps.

    Parameters
    ----------
    every : str or int
        A polars offset string such as "15m", "1h", "1d", "1w", "1mo", "1q" or "1y" for temporal
        stamps; the difference of two neighbours for integer stamps.
    month_end : bool, default False
        Whether stamps lie on the last day of their month. Only for months, quarters and years.
    uneven : bool, default False
        Whether stamps may lie anywhere in time; then `every` is their median gap.

    Examples
    --------
    >>> from datetime import date
    >>> monthly = Frequency("1mo", month_end=True)
    >>> monthly.future(pl.Series([date(2024, 1, 31)]), 3).to_list()
    [datetime.date(2024, 2, 29), datetime.date(2024, 3, 31), datetime.date(2024, 4, 30)]
    """

    every: str | int
    month_end: bool = False
    uneven: bool = False

    def __str__(self) -> str:
        if not self.uneven:
            return str(self.every)
        if isinstance(self.every, int):
            return f"about {self.every:,} (uneven)"
        count, unit = self._parts
        gap = count * NANOSECONDS[unit]
        shown = next((u for u in _UNITS_SHOWN if gap >= NANOSECONDS[u]), "ns")
        length = f"{gap / NANOSECONDS[shown]:,.1f}".removesuffix(".0")
        return f"about {length}{shown} (uneven)"

    @classmethod
    def of(cls, freq: "str | int | Frequency") -> "Frequency":
        """Read a frequency that a user wrote.

        Parameters
        ----------
        freq : str, int or Frequency
            For example "15m", "1mo", or 1 for integer stamps.

        Returns
        -------
        Frequency
            In its shortest form: "60m" becomes "1h", "12mo" becomes "1y".

        Raises
        ------
        ParameterError
            If `freq` is none of these.

        Examples
        --------
        >>> Frequency.of("60m")
        Frequency(every='1h', month_end=False, uneven=False)
        """
        if isinstance(freq, Frequency):
            return freq
        if isinstance(freq, int | np.integer) and not isinstance(freq, bool):
            if freq < 1:
                raise ParameterError(f"freq={freq} is not a step; integer stamps need freq >= 1")
            return cls(int(freq))
        match = _PATTERN.fullmatch(freq) if isinstance(freq, str) else None
        if match is None:
            alias = _PANDAS_ALIASES.get(str(freq))
            hint = f"; write {alias!r}" if alias else ""
            raise ParameterError(
                f"freq={freq!r} is not a frequency; give {_ACCEPTED}, or {UNEVEN!r}{hint}"
            )
        count, unit = int(match[1]), match[2]
        if unit in MONTHS:
            return cls(_month_name(count * MONTHS[unit]))
        if unit in "dw":
            return cls(_day_name(count * (7 if unit == "w" else 1)))
        return cls(_clock_name(count * NANOSECONDS[unit]))

    @property
    def is_integer(self) -> bool:
        """Whether this steps through integer stamps."""
        return isinstance(self.every, int)

    @property
    def seconds(self) -> float | None:
        """Nominal length of a step or usual gap in seconds; None for integer stamps."""
        if isinstance(self.every, int):
            return None
        count, unit = self._parts
        if unit in MONTHS:
            return count * MONTHS[unit] * _MONTH_SECONDS
        return count * NANOSECONDS[unit] / 1e9

    def line(self, stamps: pl.Series) -> pl.Series:
        """Place stamps on the line of whole numbers on which every step is `step_length` long.

        Parameters
        ----------
        stamps : polars.Series
            Integers, dates or date-times.

        Returns
        -------
        polars.Series of Int64
            The places.

        Raises
        ------
        FrequencyError
            If stamps of this type cannot have this frequency.

        Examples
        --------
        >>> Frequency(2).line(pl.Series([10, 12])).to_list()
        [10, 12]
        """
        self.step_length(stamps.dtype)
        if isinstance(self.every, int):
            return stamps.cast(pl.Int64)
        unit = self._parts[1]
        if unit not in MONTHS and unit not in "dw":
            return stamps.to_physical().cast(pl.Int64)
        wall = wall_clock(stamps)
        ticks = wall.to_physical().cast(pl.Int64)
        if unit not in MONTHS:
            return ticks
        day = ticks_per_day(stamps.dtype)
        month = (wall.dt.year().cast(pl.Int64) - 1970) * 12 + wall.dt.month().cast(pl.Int64) - 1
        place = (wall.dt.day().cast(pl.Int64) - 1) * day + ticks % day
        if self.month_end:
            place = place - (month_days(month) - 1) * day
        return month * month_width(stamps.dtype) + place

    def step_length(self, dtype: pl.DataType) -> int:
        """Length of a step on the line of `Frequency.line`.

        Parameters
        ----------
        dtype : polars.DataType
            Type of the stamps.

        Returns
        -------
        int
            The length, at least 1.

        Raises
        ------
        FrequencyError
            If stamps of this type cannot have this frequency.

        Examples
        --------
        >>> Frequency("1h").step_length(pl.Datetime("ms"))
        3600000
        """
        if dtype.is_integer() != self.is_integer:
            kind, example = ("integer", 1) if dtype.is_integer() else ("temporal", "'1h'")
            raise FrequencyError(
                f"freq={self.every!r} does not fit {kind} stamps ({dtype}); "
                f"pass one such as freq={example}, or freq=None to find it"
            )
        if isinstance(self.every, int):
            return self.every
        count, unit = self._parts
        if unit in MONTHS:
            return count * MONTHS[unit] * month_width(dtype)
        length, rest = divmod(count * NANOSECONDS[unit] * ticks_per_day(dtype), NANOSECONDS["d"])
        if rest:
            raise FrequencyError(
                f"freq={self.every!r} is finer than the stamps ({dtype}) can tell; "
                "cast them to a finer unit or pass a longer freq"
            )
        return length

    def steps_between(self, start: pl.Series, stop: pl.Series) -> pl.Series:
        """Count the steps from one stamp to another.

        Parameters
        ----------
        start, stop : polars.Series
            Stamps of equal type and length.

        Returns
        -------
        polars.Series of Int64
            Number of steps, negative where `stop` is earlier, null where it is no whole number.

        Raises
        ------
        FrequencyError
            If stamps of this type cannot have this frequency.

        Examples
        --------
        >>> Frequency(2).steps_between(pl.Series([0, 0]), pl.Series([6, 7])).to_list()
        [3, None]
        """
        step = self.step_length(start.dtype)
        gap = self.line(stop) - self.line(start)
        return (gap // step).set(gap % step != 0, None)

    def shift(self, stamps: pl.Series, steps: "pl.Series | int") -> pl.Series:
        """Move stamps along the time axis.

        Parameters
        ----------
        stamps : polars.Series
            Stamps.
        steps : polars.Series of integers or int
            Number of steps for each, negative for earlier.

        Returns
        -------
        polars.Series
            Stamps of the same name and type, time zone and unit included.

        Raises
        ------
        FrequencyError
            If the type of the stamps cannot hold the result.

        Examples
        --------
        >>> Frequency(5).shift(pl.Series([10, 20]), 2).to_list()
        [20, 30]
        """
        dtype = stamps.dtype
        many = steps.cast(pl.Int64) if isinstance(steps, pl.Series) else steps
        places = self.line(stamps) + many * self.step_length(dtype)
        if isinstance(self.every, int):
            try:
                return places.cast(dtype)
            except pl.exceptions.InvalidOperationError:
                raise FrequencyError(
                    f"integer stamps of type {dtype} in column {stamps.name!r} cannot hold "
                    f"{places.max()!r}; cast them to Int64"
                ) from None
        unit = self._parts[1]
        if unit in MONTHS:
            places = self._from_months(places, dtype).alias(stamps.name)
        if dtype == pl.Date:
            return places.cast(pl.Int32).cast(pl.Date)
        calendar = unit in MONTHS or unit in "dw"
        if calendar and isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
            wall = places.cast(pl.Datetime(dtype.time_unit))
            return from_wall_clock(wall, dtype.time_zone)
        return places.cast(dtype)

    def future(self, last: pl.Series, horizon: int) -> pl.Series:
        """Continue each stamp by the next `horizon` ones.

        Parameters
        ----------
        last : polars.Series of length S
            Last stamp of each series.
        horizon : int
            Number of steps.

        Returns
        -------
        polars.Series of length S * horizon
            All steps of the first series, then of the second, and so on.

        Raises
        ------
        FrequencyError
            If the type of the stamps cannot hold the result.

        Examples
        --------
        >>> Frequency(1).future(pl.Series([7, 100]), 2).to_list()
        [8, 9, 101, 102]
        """
        series = pl.Series(np.repeat(np.arange(len(last)), horizon))
        steps = pl.Series(np.tile(np.arange(1, horizon + 1), len(last)))
        return self.shift(last.gather(series), steps)

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as JSON types.

        Returns
        -------
        dict
            What `from_dict` reads.

        Examples
        --------
        >>> Frequency("1h").to_dict()
        {'every': '1h', 'month_end': False, 'uneven': False}
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Frequency":
        """Undo `to_dict`.

        Parameters
        ----------
        fields : mapping
            What `to_dict` gave.

        Returns
        -------
        Frequency
            An equal one.

        Raises
        ------
        ParameterError
            If the fields are not those of a frequency.

        Examples
        --------
        >>> Frequency.from_dict({"every": "1h", "month_end": False, "uneven": False})
        Frequency(every='1h', month_end=False, uneven=False)
        """
        try:
            every, month_end, uneven = (
                fields["every"],
                fields["month_end"],
                fields.get("uneven", False),
            )
        except (KeyError, TypeError):
            raise ParameterError(f"{fields!r} is not a stored frequency") from None
        return cls(cls.of(every).every, month_end=bool(month_end), uneven=bool(uneven))

    @property
    def _parts(self) -> tuple[int, str]:
        match = _PATTERN.fullmatch(str(self.every))
        if match is None:
            raise ParameterError(f"every={self.every!r} is not a frequency; give {_ACCEPTED}")
        return int(match[1]), match[2]

    def _from_months(self, places: pl.Series, dtype: pl.DataType) -> pl.Series:
        """Undo the month form of `line`; a day that the month lacks becomes its last day."""
        day, width = ticks_per_day(dtype), month_width(dtype)
        month, place = places // width, places % width
        if self.month_end:
            # `line` counts from the last day of the month, so earlier days lie just below it.
            month = month + (place >= day).cast(pl.Int64)
            days = month_days(month) - 1
        else:
            days = pl.select(pl.min_horizontal(place // day, month_days(month) - 1)).to_series()
        return (month_start(month) + days) * day + place % day


def _clock_name(nanoseconds: int) -> str:
    unit = next(u for u in ("h", "m", "s", "ms", "us", "ns") if nanoseconds % NANOSECONDS[u] == 0)
    return f"{nanoseconds // NANOSECONDS[unit]}{unit}"


def _day_name(days: int) -> str:
    return f"{days}d" if days % 7 else f"{days // 7}w"


def _month_name(months: int) -> str:
    if months == 3:
        return "1q"
    return f"{months}mo" if months % 12 else f"{months // 12}y"
