"""What a log detector was asked for, in one place, and the checks of it."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

from tsmamba.errors import ParameterError
from tsmamba.logs.reading import Joiner, LineParser
from tsmamba.logs.record import LogRecord

__all__ = ["LogSettings"]

_SESSION_RATE = 1e-3
_LINE_RATE = 1e-5
_SESSION_TRIM = 0.1
# A thousand years: longer than any log, and whole nanoseconds hold it.
_MOST_SECONDS = 3.2e10
# A name of a field, and not a pattern: a pattern has a character that no name has.
_NAME = re.compile(r"[\w.@/-]+")


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Settings of a `LogDetector`, which documents them."""

    session: str | None = None
    session_timeout: float | None = 3_600.0
    stream_by: tuple[str, ...] = ()
    false_alarm_rate: float | None = None
    trim: float | None = None
    format: str = "auto"
    time_format: str | None = None
    time_zone: str = "UTC"
    multiline: str | None = "auto"
    max_templates: int = 4_096
    cool_down: float = 300.0
    network: str | None = None
    random_state: int = 0

    @property
    def rate(self) -> float:
        """Share of normal records that may alert."""
        if self.false_alarm_rate is not None:
            return self.false_alarm_rate
        return _LINE_RATE if self.session is None else _SESSION_RATE

    @property
    def trimmed(self) -> float:
        """Share of the training sessions that is left out."""
        if self.trim is not None:
            return self.trim
        return 0.0 if self.session is None else _SESSION_TRIM

    @property
    def session_field(self) -> str | None:
        """Field that names the session, if `session` is a name."""
        return self.session if self.session is not None and _NAME.fullmatch(self.session) else None

    def session_finder(self) -> Callable[[LogRecord], str | None]:
        """Return what names the session of a record, or gives None."""
        name = self.session_field
        if name is not None:
            return lambda record: record.fields.get(name)
        pattern = re.compile(self.session or "")
        group = 1 if pattern.groups else 0

        def find(record: LogRecord) -> str | None:
            found = pattern.search(record.body)
            return None if found is None else found[group]

        return find

    def stream_of(self, record: LogRecord) -> str:
        """Name of the stream that a record belongs to."""
        names = self.stream_by
        if not names:
            return ""
        if len(names) == 1:
            return record.fields.get(names[0], "")
        return ",".join([record.fields.get(name, "") for name in names])

    def parser(self, reference: int | None = None) -> LineParser:
        """Build a parser of the lines of one source."""
        return LineParser(
            self.format,  # type: ignore[arg-type]  # checked by the parser
            self.time_format,
            self.time_zone,
            reference=reference,
        )

    def joiner(self) -> Joiner | None:
        """Build what joins the lines of a stack trace; None if lines stay by themselves."""
        return None if self.multiline is None else Joiner(self.multiline)

    def check(self) -> None:
        """Raise ParameterError if a setting is outside what is accepted."""
        self.parser()
        self._check_patterns()
        rate = self.false_alarm_rate
        if rate is not None and not (_is_number(rate) and 0.0 < rate <= 0.5):
            raise ParameterError(
                f"false_alarm_rate={rate!r}: give the share of normal records that may alert, "
                f"over 0 and 0.5 at most, or None"
            )
        if self.trim is not None and not (_is_number(self.trim) and 0.0 <= self.trim < 0.5):
            raise ParameterError(f"trim={self.trim!r}: give a share from 0 to below 0.5, or None")
        if self.trim and self.session is None:
            raise ParameterError(
                f"trim={self.trim!r} leaves out sessions, and there are none: give session, or "
                f"trim=None"
            )
        for name in ("session_timeout", "cool_down"):
            value = getattr(self, name)
            endless = value is None and name == "session_timeout"
            if not endless and not (_is_number(value) and 0.0 < value < _MOST_SECONDS):
                raise ParameterError(f"{name}={value!r}: give seconds of log time, more than 0")
        for name in ("max_templates", "random_state"):
            value = getattr(self, name)
            if not isinstance(value, int) or (name == "random_state" and value < 0):
                raise ParameterError(f"{name}={value!r}: give a whole number, 0 or more")
        if self.network not in (None, "mamba"):
            raise ParameterError(f"network={self.network!r}: give 'mamba' or None")

    def _check_patterns(self) -> None:
        """Raise ParameterError if a regular expression is none."""
        if self.multiline not in (None, "auto"):
            _check_pattern("multiline", self.multiline, "the first line of a record matches")
        if self.session is not None:
            what = "finds the session in a message, or the name of a field"
            _check_pattern("session", self.session, what)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "LogSettings":
        """Build it again from :meth:`to_dict`."""
        return cls(**{**state, "stream_by": tuple(state["stream_by"])})


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_pattern(name: str, value: object, what: str) -> None:
    if not isinstance(value, str) or not value:
        raise ParameterError(f"{name}={value!r}: give a regular expression that {what}, or None")
    try:
        re.compile(value)
    except re.error as error:
        raise ParameterError(
            f"{name}={value!r} is no regular expression ({error}); give one that {what}"
        ) from None
