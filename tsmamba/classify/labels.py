"""Labels of stays."""

from typing import Any

import numpy as np
import polars as pl

from tsmamba.data.frame import column_names, to_polars
from tsmamba.errors import FrameError

__all__ = ["as_classes", "known_classes", "read_labels"]

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
    present = column_names(labels)
    for name in (id_col, label_col):
        if name not in present:
            raise FrameError(
                f"labels have no column {name!r}, but {', '.join(map(repr, present))}; rename one, "
                "or name it: id_col=, label_col="
            )
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


def as_classes(labels: pl.Series, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the classes of some labels, and the number of each label's.

    Parameters
    ----------
    labels : polars.Series
        Of any type that can be sorted.
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
    classes, numbers, counts = np.unique(labels.to_numpy(), return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise FrameError(f"all labels are {classes.tolist()[0]!r}; a classifier needs two classes")
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
