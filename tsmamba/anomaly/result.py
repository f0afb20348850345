"""What a stream says of a row."""

from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from tsmamba.errors import ParameterError

Time: TypeAlias = int | datetime
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
Status: TypeAlias = Literal["warmup", "ok", "missing", "drift"]


class Result(NamedTuple):
    """The score of one row of a stream.

    Attributes
    ----------
    score : float or None
        1.0 is the alert threshold; None in warm-up and where the status is "missing".
    p_value : float or None
        Share of normal rows with such a score.
    is_anomaly : bool
        Whether the score reached 1.0.
    status : {"warmup", "ok", "missing", "drift"}
        "warmup" until there are enough rows, "missing" where no channel has a value, or too few
        of those before, "drift" at the row after which a new level counts as normal.
    channel_contrib : ndarray of shape (n_channels,) or None
        Part of each channel; they add up to the score.
    t : int, datetime or None
        Time of the row, which with a delay is an earlier one than the newest.
    key : str or None
        The stream.
    """

    score: float | None
    p_value: float | None
    is_anomaly: bool
    status: Status
    channel_contrib: np.ndarray | None
    t: Time | None
    key: str | None


def number_of(t: Time, stamps: bool | None = None) -> int:
    """Turn a time into a number, stamps into microseconds.

    Parameters
    ----------
    t : int or datetime
        The time; a datetime without a zone is taken as it is.
    stamps : bool, optional
        Whether it must be a datetime, or an integer.

    Returns
    -------
    int

    Raises
    ------
    ParameterError
        If it is of the other kind, or of none.

    Examples
    --------
    >>> number_of(datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    is_stamp = isinstance(t, datetime)
    if not is_stamp and (isinstance(t, bool) or not isinstance(t, int | np.integer)):
        raise ParameterError(f"t={t!r}; pass an integer or a datetime, or leave it out")
    if stamps is not None and stamps != is_stamp:
        wanted = "datetimes" if stamps else "integers"
        raise ParameterError(f"t={t!r}, but the detector was fitted on {wanted}; pass such times")
    if not isinstance(t, datetime):
        return int(t)
    moment = t if t.tzinfo is None else t.astimezone(UTC).replace(tzinfo=None)
    since: timedelta = moment - _EPOCH
    return since // _MICROSECOND
