"""Which frames hold events, and by which names."""

from collections.abc import Sequence
from typing import Any

from tsmamba.data.frame import column_names
from tsmamba.errors import FrameError
from tsmamba.records.events import EventColumns

__all__ = ["event_columns"]

# Those of MEDS, the Medical Event Data Standard.
_ID, _TIME, _CODE, _VALUE = "subject_id", "time", "code", "numeric_value"


def event_columns(
    df: Any, id_col: str, time_col: str, targets: Sequence[str] | None
) -> EventColumns | None:
    """Tell a frame of events from one of series on a grid.

    Parameters
    ----------
    df : frame
        Of a user.
    id_col, time_col : str
        Columns of the forecaster, which are those of the events where both are there.
    targets : sequence of str, optional
        Its columns of values: where these are there, beside the time, the frame is one of series.
        Without them it is taken for one of events.

    Returns
    -------
    EventColumns or None
        Of a frame of events; it is wide where it has no codes.

    Raises
    ------
    FrameError
        If there are codes without values.

    Examples
    --------
    >>> import polars as pl
    >>> events = pl.DataFrame({"subject_id": [1], "time": [0.0], "HR": [80.0]})
    >>> event_columns(events, "unique_id", "ds", ["y"]).id_col
    'subject_id'
    >>> event_columns(events.rename({"time": "ds", "HR": "y"}), "subject_id", "ds", ["y"]) is None
    True
    """
    present = set(column_names(df))
    if targets is not None and {time_col, *targets} <= present:
        return None
    if {id_col, time_col, _CODE} <= present:
        names = id_col, time_col
    elif {_ID, _TIME} <= present:
        names = _ID, _TIME
    else:
        return None
    if _CODE in present and _VALUE not in present:
        raise FrameError(
            f"the frame has codes in {_CODE!r} but no column {_VALUE!r}, but "
            f"{', '.join(map(repr, sorted(present)))}; rename that of the values"
        )
    return EventColumns(*names, _CODE, _VALUE)
