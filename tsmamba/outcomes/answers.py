"""What is asked and labelled, of stays as a whole or at moments, and the answers."""

from typing import Any

import numpy as np
import polars as pl

from tsmamba.data.frame import column_names, to_polars
from tsmamba.outcomes.fitting import Ensemble
from tsmamba.outcomes.labels import moment_labels, read_labels
from tsmamba.records.events import EventColumns, Events, Repairs, brief
from tsmamba.records.moments import Moments, read_moments
from tsmamba.records.reader import Reader

__all__ = ["asked", "labelled", "told"]

_SHOWN = 5


def asked(
    at: Any, events: Any, given: Events, reader: Reader, columns: EventColumns
) -> tuple[pl.DataFrame, Moments]:
    """Read what is asked.

    Parameters
    ----------
    at : DataFrame or None
        A row for each moment; None asks about each stay as a whole.
    events : DataFrame
        As users send it.
    given : Events
        What was read of it.
    reader : Reader
        Of the fit.
    columns : EventColumns
        Names.

    Returns
    -------
    polars.DataFrame
        The rows; the id comes first, then the time if there is one.
    Moments
        Of each row.

    Raises
    ------
    FrameError
        If `at` cannot be used.
    """
    if at is None:
        return pl.DataFrame({columns.id_col: given.ids}), Moments.ends(given)
    clock = to_polars(events, [columns.time_col])[columns.time_col].dtype
    frame, moments = read_moments(at, given, reader.rules.starts(given), columns, clock)
    return frame.select(
        columns.id_col, columns.time_col, pl.exclude(columns.id_col, columns.time_col)
    ), moments


def labelled(
    labels: Any, events: Any, given: Events, reader: Reader, columns: EventColumns
) -> tuple[pl.Series, Moments]:
    """Read labels, which have a column of times where they hold at moments.

    Parameters
    ----------
    labels : DataFrame
        A row for each stay or for each moment.
    events, given, reader, columns
        As in `asked`; `columns` names that of labels.

    Returns
    -------
    labels : polars.Series
        In the order of stays and times.
    moments : Moments
        At which they hold; the end of every stay if there are no times.

    Raises
    ------
    FrameError
        If `labels` cannot be used.
    """
    label_col = str(columns.label_col)
    if columns.time_col not in column_names(labels):
        found = read_labels(labels, given.ids, columns.id_col, label_col)
        return found, Moments.ends(given)
    frame, moments = asked(labels, events, given, reader, columns)
    return moment_labels(frame, moments, columns, label_col)


def told(
    cleaned: Events, moments: Moments, reader: Reader, ensemble: Ensemble, repairs: Repairs
) -> tuple[np.ndarray, np.ndarray]:
    """Return what is said of each moment.

    Parameters
    ----------
    cleaned : Events
        Of the stays.
    moments : Moments
        What is asked.
    reader, ensemble
        Of the fit.
    repairs : Repairs
        Where nothing was measured before is counted there.

    Returns
    -------
    there : bool ndarray of shape (n,)
        Whether something was measured before.
    scores : ndarray of shape (m, K)
        Of those moments.
    """
    there = reader.measured(cleaned, moments)
    trees = ensemble.members[0].trees is not None
    known = reader.stays_at(cleaned, moments.only(there), summaries=trees)
    scores = [ensemble.scores(stays) for stays in known]
    bare = moments.only(~there)
    what = "a time without an earlier measurement" if bare.cut else "a stay without measurement"
    ids = cleaned.ids.gather(bare.stay).unique(maintain_order=True)
    names = ", ".join(brief(repr(name)) for name in ids.head(_SHOWN))
    repairs.note(f"{what}, answered with the prior", len(bare), names, grave=True)
    return there, np.concatenate([np.zeros((0, len(ensemble.offset))), *scores])
