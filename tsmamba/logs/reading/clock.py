"""From what a line or a field says about the time to nanoseconds since 1970, UTC."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from time import time_ns
from typing import TypeAlias
from zoneinfo import ZoneInfo

from tsmamba.errors import ParameterError
from tsmamba.logs.reading.stamps import FORMS, custom_form

__all__ = ["Clock", "Spans", "nanoseconds_of_number", "spans_of"]

Spans: TypeAlias = tuple[int, int, int, int]

_SECOND = 1_000_000_000
_HALF_DAY, _HALF_YEAR = 43_200 * _SECOND, 183 * 86_400 * _SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = "janfebmaraprmayjunjulaugsepoctnovdec"
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_LONGEST_VALUE = 64
_UNKNOWN = None, 0
_CACHE_SIZE = 4_096
# How far into a line a stamp may begin, and how far we look for its end.
_LATEST_START, _LATEST_END = 96, 160
# Lines after which the place of the stamps of a source is settled.
_SETTLED = 64
_MAY_HOLD_A_STAMP = re.compile(r"\d[:.]\d\d|\d{6}")


def spans_of(match: re.Match[str]) -> Spans:
    """Say where a stamp begins, where its fraction begins and ends (or -1, -1), where it ends."""
    return match.start("t"), *match.span("f"), match.end("t")


def nanoseconds_of_number(value: float) -> int | None:
    """Read a number as seconds, milli-, micro- or nanoseconds since 1970, by its magnitude.

    Parameters
    ----------
    value : float
        From 1e8 (seconds: March 1973) up; smaller ones are no points in time.

    Returns
    -------
    nanoseconds : int or None
        None if it is none of these.

    Examples
    --------
    >>> nanoseconds_of_number(1_700_000_000.5), nanoseconds_of_number(1_700_000_000_500)
    (1700000000500000000, 1700000000500000000)
    """
    if not 1e8 <= value < 2**63:  # NaN too is outside
        return None
    for limit, unit in ((1e11, _SECOND), (1e14, 1_000_000), (1e17, 1_000)):
        if value < limit:
            if isinstance(value, int):
                return value * unit
            # A double holds microseconds of our age, no more: further digits would be invented.
            return round(value * (unit // 1_000)) * 1_000
    return int(value)


class Clock:
    """Finds time stamps and reads them.

    Parameters
    ----------
    time_format : str or None
        Format of strptime; None knows the usual ones.
    time_zone : str
        IANA name of the zone of stamps that name none.
    reference : int or None
        Nanoseconds since 1970 near which stamps without a year, or without a date, lie as long as
        no stamp was read; None is now.

    Raises
    ------
    ParameterError
        If the format or the zone is unknown.

    Examples
    --------
    >>> clock = Clock()
    >>> clock.of("2026-01-02T03:04:05.678+01:00")
    1767319445678000000
    """

    def __init__(
        self, time_format: str | None = None, time_zone: str = "UTC", reference: int | None = None
    ) -> None:
        self._zone = _zone(time_zone)
        self._forms = FORMS if time_format is None else (custom_form(time_format),)
        self._hot = self._forms[0]
        self._hot_later: re.Pattern[str] | None = None
        self._seen_at_head = False
        self._searched = 0
        self._found_later = 0
        self._near = time_ns() if reference is None else reference
        # Stamp without its fraction -> (nanoseconds, how far from the last one it may lie).
        self._spans: dict[bytes, Spans] = {}  # of values of fields, by their digits made zeros
        self._cache: dict[str, tuple[int | None, int | None]] = {}

    @property
    def settled(self) -> bool:
        """Whether it is decided if stamps that stand a little later count."""
        return self._searched >= _SETTLED

    def find(self, text: str) -> re.Match[str] | None:
        """Find the stamp at the head of a line, or a little later where the source has it there.

        A date inside a message is not its time, so a later stamp counts only in a source without
        stamps at the head, and while more than half of its lines have one.
        """
        match = self._hot.at_head.match(text)
        if match is not None:
            self._seen_at_head = True
            return match
        if not self.settled:
            self._searched += 1
        if _MAY_HOLD_A_STAMP.search(text, 0, _LATEST_END) is None:
            return None
        if self._hot_later is not None:
            return self._later(text) or self._at_head(text)
        match = self._at_head(text)
        if match is not None:
            self._seen_at_head = True
            return match
        return None if self._seen_at_head else self._later(text)

    def of(self, value: object) -> int | None:
        """Read the value of a field: a number, a number as text, or a stamp."""
        if isinstance(value, str):
            if value.isascii():
                spans = self._spans.get(value.encode().translate(_DIGITS))
                if spans is not None:
                    return self.read_at(value, spans)
            match = self._hot.at_head.match(value) or self._at_head(value)
            if match is not None:
                return self._read_value(value, match)
            try:
                value = int(value) if value.isdecimal() else float(value)
            except ValueError:
                return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return nanoseconds_of_number(value)

    def _read_value(self, value: str, match: re.Match[str]) -> int | None:
        spans = spans_of(match)
        if value.isascii() and len(value) <= _LONGEST_VALUE:
            if len(self._spans) >= _CACHE_SIZE:
                self._spans.clear()
            self._spans[value.encode().translate(_DIGITS)] = spans
        return self.read_at(value, spans, match)

    def read(self, match: re.Match[str]) -> int | None:
        """Turn a stamp that was found into nanoseconds; None if there is no such point in time."""
        return self.read_at(match.string, spans_of(match), match)

    def read_at(self, text: str, spans: Spans, match: re.Match[str] | None = None) -> int | None:
        """Read the stamp that lies at these places, which `spans_of` gave for a line like this."""
        start, fraction_start, fraction_end, end = spans
        if fraction_start < 0:
            key, fraction = text[start:end], 0
        else:
            key = text[start:fraction_start] + text[fraction_end:end]
            digits = fraction_end - fraction_start
            fraction = int(text[fraction_start:fraction_end]) * 10 ** (9 - digits)
        base, reach = self._cache.get(key, _UNKNOWN)
        if reach is not None and (base is None or abs(base - self._near) > reach):
            match = match or self._at_head(text) or self.find(text)
            base = self._remember(key, match) if match is not None else None
        if base is None:
            return None
        self._near = time = base + fraction
        return time

    def _at_head(self, text: str) -> re.Match[str] | None:
        for form in self._forms:
            match = form.at_head.match(text)
            if match is not None:
                self._hot = form
                return match
        return None

    def _later(self, text: str) -> re.Match[str] | None:
        if self.settled and 2 * self._found_later <= self._searched:
            return None
        match = self._search(text)
        if match is not None and not self.settled:
            self._found_later += 1
        return match if 2 * self._found_later > self._searched else None

    def _search(self, text: str) -> re.Match[str] | None:
        patterns = (self._hot_later, *(form.later for form in self._forms))
        for pattern in patterns:
            match = pattern.search(text, 0, _LATEST_END) if pattern is not None else None
            if match is not None and match.start() < _LATEST_START:
                self._hot_later = pattern
                return match
        return None

    def _remember(self, key: str, match: re.Match[str]) -> int | None:
        parts = match.groupdict()
        reach = None
        try:
            if parts.get("e"):
                base = nanoseconds_of_number(int(parts["e"]))
            elif parts.get("Y") or parts.get("y"):
                base = self._nanoseconds(parts, *_date(parts))
            else:
                reach = _HALF_YEAR if parts.get("d") else _HALF_DAY
                base = self._nearest(parts)
        except (ValueError, OverflowError):
            base = None
        if base is not None and not 0 <= base < 2**63 - _SECOND:
            base = None
        if len(self._cache) >= _CACHE_SIZE:
            self._cache.clear()
        self._cache[key] = base, reach
        return base

    def _nanoseconds(self, parts: dict[str, str], year: int, month: int, day: int) -> int:
        hour = int(parts.get("H") or 0)
        if parts.get("p"):
            hour = hour % 12 + 12 * (parts["p"].lower() == "pm")
        second = int(parts.get("S") or 0)
        leap = second == 60
        moment = datetime(
            year, month, day, hour, int(parts.get("M") or 0), second - leap, tzinfo=self._of(parts)
        )
        whole = (moment - _EPOCH) // timedelta(seconds=1) + leap
        return whole * _SECOND + int(parts.get("ms") or 0) * 1_000_000

    def _of(self, parts: dict[str, str]) -> tzinfo:
        zone = (parts.get("z") or "").strip()
        if not zone:
            return self._zone
        if zone[0] not in "+-":
            return UTC
        return datetime.strptime(zone.replace(":", "").ljust(5, "0"), "%z").tzinfo or UTC

    def _nearest(self, parts: dict[str, str]) -> int | None:
        """Choose the year, or the day, that brings the stamp nearest to the one before it."""
        near = _EPOCH + timedelta(microseconds=self._near // 1_000)
        found: list[int] = []
        for date in _dates_around(near, parts):
            try:
                found.append(self._nanoseconds(parts, *date))
            except ValueError:  # 29 February of another year
                continue
        return min(found, key=lambda moment: abs(moment - self._near), default=None)


def _dates_around(near: datetime, parts: dict[str, str]) -> Iterator[tuple[int, int, int]]:
    for step in (-1, 0, 1):
        if parts.get("d"):
            yield near.year + step, _month(parts), int(parts["d"])
        else:
            date = near + timedelta(days=step)
            yield date.year, date.month, date.day


def _date(parts: dict[str, str]) -> tuple[int, int, int]:
    if parts.get("Y"):
        year = int(parts["Y"])
    else:
        year = int(parts["y"])
        year += 1900 if year >= 69 else 2000
    return year, _month(parts), int(parts.get("d") or 1)


def _month(parts: dict[str, str]) -> int:
    return (
        _MONTHS.index(parts["b"].lower()) // 3 + 1 if parts.get("b") else int(parts.get("m") or 1)
    )


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, TypeError, ValueError, KeyError) as error:
        message = (
            f"time_zone={name!r} is no IANA time zone known here; take one like 'Europe/Zurich'"
        )
        raise ParameterError(message) from error
