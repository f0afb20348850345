"""Labels of stays, or at moments of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from tsmamba.data.frame import column_names, to_polars
from tsmamba.errors import FrameError
from tsmamba.records.events import EventColumns
from tsmamba.records.moments import Moments

__all__ = ["as_classes", "as_numbers", "known_classes", "moment_labels", "read_labels"]

_SHOWN = 5


def read_labels(labels: Any, ids: pl.Series, id_col: str, label_col: str) -> pl.Series:
    """Read the label of each stay.

    Parameters
    ----------
    labels : DataFrame
        With a row for each stay; stays without events may be among them.
    ids : polars.Series
        Ids of the stays.
    id_col, label_col : str
        Columns of ids and labels.

    Returns
    -------
    polars.Series of length n
        Labels in the order of `ids`.

    Raises
    ------
    FrameError
        If a column is missing, labels are of a type that is no class, or a stay has no label or two
        that differ.

    Examples
    --------
    >>> labels = pl.DataFrame({"subject_id": [2, 1], "label": ["ill", "well"]})
    >>> read_labels(labels, pl.Series([1, 2]), "subject_id", "label").to_list()
    ['well', 'ill']
    """
    _check_columns(column_names(labels), id_col, label_col)
    frame = _plain(to_polars(labels, [id_col, label_col]), label_col).unique(maintain_order=True)
    twice = frame.filter(pl.col(id_col).is_duplicated())
    if len(twice):
        raise FrameError(
            f"stay {twice[id_col][0]!r} has {len(twice.filter(pl.col(id_col) == twice[id_col][0]))}"
            f" labels in {label_col!r}; keep one for each stay"
        )
    try:
        joined = pl.DataFrame({id_col: ids}).join(
            frame, on=id_col, how="left", maintain_order="left"
        )
    except pl.exceptions.SchemaError:
        raise FrameError(
            f"ids are of type {ids.dtype} in the events and {frame[id_col].dtype} in the labels; "
            f'cast one, e.g. pl.col("{id_col}").cast(pl.String)'
        ) from None
    found = joined[label_col]
    bare = joined.filter(found.is_null())[id_col]
    if len(bare):
        shown = ", ".join(map(repr, bare.head(_SHOWN)))
        raise FrameError(
            f"{len(bare)} of {len(ids)} stays have no label: {shown}; label them, or leave their "
            "events out"
        )
    return found


def moment_labels(
    frame: pl.DataFrame, moments: Moments, columns: EventColumns, label_col: str
) -> tuple[pl.Series, Moments]:
    """Read labels that hold at moments.

    Parameters
    ----------
    frame : polars.DataFrame
        With a row for each.
    moments : Moments
        Of its rows.
    columns : EventColumns
        Names of id and time.
    label_col : str
        Column of labels.

    Returns
    -------
    labels : polars.Series
        Of each moment, whatever the order of rows.
    moments : Moments
        Sorted by stay and time, each once.

    Raises
    ------
    FrameError
        If the column is missing, labels are of a type that is no class, a row has no label, or
        two labels of one moment differ.

    Examples
    --------
    >>> labels = pl.DataFrame({"subject_id": [7, 7], "time": [2.0, 1.0], "label": [1, 0]})
    >>> moments = Moments(np.array([0, 0]), np.array([2.0, 1.0]))
    >>> names = EventColumns("subject_id", "time", "code", "numeric_value")
    >>> moment_labels(labels, moments, names, "label")[0].to_list()
    [0, 1]
    """
    _check_columns(frame.columns, columns.id_col, label_col)
    rows = pl.DataFrame(
        {"stay": moments.stay, "since": moments.time, "label": _plain(frame, label_col)[label_col]}
    ).with_row_index("row")

    def named(some: pl.DataFrame) -> str:
        places = frame.select(columns.id_col, columns.time_col)[some["row"].head(_SHOWN)]
        return ", ".join(f"{stay!r} at {time}" for stay, time in places.rows())

    bare = rows.filter(pl.col("label").is_null())
    if len(bare):
        raise FrameError(f"{len(bare)} of {len(rows)} rows have no label: {named(bare)}; drop them")
    once = rows.unique(["stay", "since", "label"], keep="first").sort("stay", "since")
    twice = once.filter(pl.struct("stay", "since").is_duplicated())
    if len(twice):
        raise FrameError(
            f"labels differ for stay {named(twice.head(1))}; keep one for each time of a stay"
        )
    return once["label"], Moments(once["stay"].to_numpy(), once["since"].to_numpy())


def _check_columns(present: Sequence[str], id_col: str, label_col: str) -> None:
    for name in (id_col, label_col):
        if name not in present:
            raise FrameError(
                f"labels have no column {name!r}, but {', '.join(map(repr, present))}; rename one, "
                "or name it: id_col=, label_col="
            )


def as_classes(
    labels: pl.Series, subjects: np.ndarray, least: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find the classes of some labels, and the number of each label's.

    Parameters
    ----------
    labels : polars.Series
        Of any type that can be sorted.
    subjects : int ndarray of shape (n,)
        The stay of each.
    least : int
        Stays that every class needs.

    Returns
    -------
    classes : ndarray of shape (K,)
        Sorted.
    numbers : int ndarray of shape (n,)
        The class of each label.

    Raises
    ------
    FrameError
        If there are fewer than two classes, or one with too few stays.
    """
    classes, numbers = np.unique(labels.to_numpy(), return_inverse=True)
    if len(classes) < 2:
        raise FrameError(f"all labels are {classes.tolist()[0]!r}; a classifier needs two classes")
    counts = np.bincount(np.unique(np.stack([numbers, subjects]), axis=1)[0])
    rare = int(counts.argmin())
    if counts[rare] < least:
        raise FrameError(
            f"class {classes.tolist()[rare]!r} has {counts[rare]} stays with measurements; every "
            f"class needs {least}"
        )
    return classes, numbers


def known_classes(labels: pl.Series, classes: np.ndarray) -> np.ndarray:
    """Return the number of each label's class in a fit.

    Parameters
    ----------
    labels : polars.Series
        Of stays.
    classes : ndarray of shape (K,)
        Of the fit, sorted.

    Returns
    -------
    int ndarray of shape (n,)
        The class of each label.

    Raises
    ------
    FrameError
        If a label is not among them.
    """
    given = labels.to_numpy()
    strange = ~np.isin(given, classes)
    if strange.any():
        accepted = ", ".join(map(repr, classes.tolist()))
        raise FrameError(f"label {given[strange].tolist()[0]!r} is not one of the fit: {accepted}")
    return np.searchsorted(classes, given)


def as_numbers(labels: pl.Series) -> np.ndarray:
    """Return labels as numbers.

    Parameters
    ----------
    labels : polars.Series
        None is null.

    Returns
    -------
    ndarray of shape (n,)
        Finite, float64.

    Raises
    ------
    FrameError
        If they are of another type, or one is infinite.
    """
    if not labels.dtype.is_numeric():
        raise FrameError(
            f"labels are of type {labels.dtype}; a regressor learns numbers, MambaClassifier "
            "learns classes"
        )
    numbers: np.ndarray = labels.cast(pl.Float64).to_numpy()
    endless = int((~np.isfinite(numbers)).sum())
    if endless:
        raise FrameError(f"{endless} of {len(numbers)} labels are infinite; drop or bound them")
    return numbers


def _plain(frame: pl.DataFrame, label_col: str) -> pl.DataFrame:
    """Return labels as numbers, text or booleans, null where there is none."""
    dtype = frame[label_col].dtype
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return frame.with_columns(pl.col(label_col).cast(pl.String))
    if dtype.is_float():
        return frame.with_columns(pl.col(label_col).fill_nan(None))
    if not (dtype.is_integer() or dtype in (pl.String, pl.Boolean, pl.Null)):
        raise FrameError(
            f"column {label_col!r} of the labels is of type {dtype}; pass numbers, text or booleans"
        )
    return frame
