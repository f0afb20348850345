"""Times as they are sent: ISO text, or the integers that a detector was fitted on."""

from datetime import UTC, datetime
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from tsmamba.errors import ParameterError

__all__ = ["Moment", "read_moment"]

_ISO = "ISO 8601 text such as '2026-03-31T17:05:00Z'"


def read_moment(value: object) -> datetime | int:
    """Read a time as it is sent.

    Parameters
    ----------
    value : object
        ISO text, taken as UTC where it names no zone, or an integer.

    Returns
    -------
    datetime or int
        A datetime is in UTC.

    Raises
    ------
    ParameterError
        If it is neither.

    Examples
    --------
    >>> read_moment("2026-03-31T17:05+02:00")
    datetime.datetime(2026, 3, 31, 15, 5, tzinfo=datetime.timezone.utc)
    >>> read_moment(7)
    7
    """
    if isinstance(value, int) and not isinstance(value, bool):
        # What a state keeps of it has 64 bits.
        if abs(value) >= 2**62:
            raise ParameterError("an integer too large to be a time; give one of 62 bits at most")
        return value
    # Without this, the digits of an epoch number could be read as a date of the Middle Ages.
    if not isinstance(value, str) or value[4:5] != "-":
        raise ParameterError(f"no time; give {_ISO}")
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ParameterError(f"no time; give {_ISO}") from error


Moment: TypeAlias = Annotated[
    datetime | int,
    BeforeValidator(read_moment),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}]}),
]
"""ISO text, UTC where it names no zone, or an integer."""
