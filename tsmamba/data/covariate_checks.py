"""Every check on covariates, and the words of every refusal."""

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
import polars as pl

from tsmamba.data.checks import (
    SHOWN,
    SHOWN_COLUMNS,
    Columns,
    listing,
    refuse_infinite,
    where,
)
from tsmamba.data.encoding import is_category
from tsmamba.data.panel import Panel, future_frame
from tsmamba.data.place import Placed
from tsmamba.errors import CovariateError


def check_roles(roles: Sequence[tuple[str, str]], columns: Columns) -> None:
    """Refuse covariates that have another part to play already.

    Parameters
    ----------
    roles : sequence of (str, str)
        Role and column of each covariate.
    columns : Columns
        The id, time and target columns.

    Raises
    ------
    CovariateError
        Naming the column and both of its roles.

    Examples
    --------
    >>> columns = Columns("unique_id", "ds", ("y",), id_given=True, wide=False)
    >>> check_roles([("past", "wind"), ("future", "price")], columns)
    """
    taken = {columns.id_col: "the id column", columns.time_col: "the time column"}
    taken |= dict.fromkeys(columns.targets, "a target column")
    for role, name in roles:
        if not isinstance(name, str):
            raise CovariateError(
                f"{name!r} was named as a {role} covariate; names of columns are accepted"
            )
        if name in taken:
            raise CovariateError(
                f"column {name!r} was named as a {role} covariate and is {taken[name]} already; "
                "a column has one role: take it out of one of them"
            )
        taken[name] = f"a {role} covariate"


def check_present(roles: Sequence[tuple[str, str]], present: Sequence[str], what: str) -> None:
    """Refuse a frame without one of its covariates.

    Parameters
    ----------
    roles : sequence of (str, str)
        Role and column of each covariate.
    present : sequence of str
        Columns that the frame has.
    what : str
        What to call the frame.

    Raises
    ------
    CovariateError
        Naming the column, and those of the frame that are near by name.

    Examples
    --------
    >>> check_present([("past", "wind")], ["ds", "y", "wind"], "the frame")
    """
    by_lower = {name.lower(): name for name in map(str, present)}
    for role, name in roles:
        if name in present:
            continue
        close = [by_lower[low] for low in get_close_matches(name.lower(), by_lower)]
        there = f"it has {listing(present, SHOWN_COLUMNS)}"
        if close:
            there = f"near by name: {listing(close)}"
        raise CovariateError(
            f"{what} has no column {name!r}, which was named as a {role} covariate; {there}"
        )


def check_values(frame: pl.DataFrame, columns: Columns, names: Sequence[str]) -> None:
    """Refuse covariates that are neither finite numbers nor text nor booleans.

    Parameters
    ----------
    frame : polars.DataFrame
        Rows of the user.
    columns : Columns
        The id, time and target columns.
    names : sequence of str
        The covariates.

    Raises
    ------
    FrameError
        Naming the column, and the series and stamp of an infinite value.

    Examples
    --------
    >>> columns = Columns("unique_id", "ds", ("y",), id_given=False, wide=False)
    >>> check_values(pl.DataFrame({"ds": [1, 2], "sky": ["blue", None]}), columns, ["sky"])
    """
    for name in names:
        values = frame.get_column(name)
        if not is_category(values) and values.dtype.is_float():
            refuse_infinite(frame, columns, name)


def check_constant(
    numbers: np.ndarray, frame: pl.DataFrame, names: Sequence[str], panel: Panel
) -> None:
    """Refuse static covariates that change within a series; missing values do not count.

    Parameters
    ----------
    numbers : ndarray of shape (n,)
        Number of the id of each row.
    frame : polars.DataFrame of n rows
        The rows.
    names : sequence of str
        The static covariates.
    panel : Panel
        The series.

    Raises
    ------
    CovariateError
        Naming the column, the series and two of its values.

    Examples
    --------
    >>> from tsmamba.data.panel import read_panel
    >>> frame = pl.DataFrame({"ds": [1, 2], "y": [1, 2], "site": ["north", None]})
    >>> check_constant(np.array([0, 0]), frame, ["site"], read_panel(frame))
    """
    for name in names:
        values = frame.get_column(name)
        pairs = pl.DataFrame([pl.Series("number", numbers), values.alias("value")])
        pairs = pairs.drop_nulls().unique(maintain_order=True)
        changing = pairs.filter(pl.col("number").is_duplicated())
        if changing.is_empty():
            continue
        number = changing.item(0, "number")
        first, second = changing.filter(pl.col("number") == number).get_column("value").head(2)
        owner = panel.columns.name(panel.ids[number * len(panel.columns.targets)])
        raise CovariateError(
            f"column {name!r} of {owner} holds {first!r} and {second!r}, and was named as a static "
            "covariate; one value for each series is accepted: correct it, or name it as a past "
            "or future covariate"
        )


def check_ahead(placed: Placed, panel: Panel, names: Sequence[str], horizon: int) -> None:
    """Refuse rows ahead that do not give every covariate at every step, exactly once.

    Parameters
    ----------
    placed : Placed
        Rows of the user at the steps ahead.
    panel : Panel
        The series.
    names : sequence of str
        The covariates that are known ahead.
    horizon : int
        Steps ahead.

    Raises
    ------
    CovariateError
        Naming missing rows and values, or a row that is there twice.

    Examples
    --------
    >>> from tsmamba.data.place import place_rows
    >>> from tsmamba.data.panel import read_panel
    >>> panel = read_panel(pl.DataFrame({"ds": [1, 2], "y": [1.0, 3.0]}))
    >>> ahead = pl.DataFrame({"ds": [3], "price": [7.0]})
    >>> placed = place_rows(ahead, panel, ["price"], panel.lengths, panel.lengths + 1)
    >>> check_ahead(placed, panel, ["price"], horizon=1)
    """
    columns, frame = panel.columns, placed.frame
    wanted = future_frame(panel, horizon, by_target=False)
    lengths = panel.lengths[:: len(columns.targets)]
    number = placed.numbers * horizon + placed.steps - lengths[placed.numbers]
    repeated = pl.Series(number).is_duplicated()
    if repeated.any():
        keys = list(columns.keys)
        raise CovariateError(
            f"future has more than one row for {where(frame, columns, repeated.arg_max() or 0)}; "
            f"one for each series and stamp is accepted: future.unique(subset={keys}), in pandas "
            f"future.drop_duplicates({keys})"
        )
    absent = np.setdiff1d(np.arange(wanted.height), number)
    if absent.size:
        raise _rows_missing(wanted, absent, columns, horizon)
    for name in names:
        missing = frame.get_column(name).is_null()
        if missing.any():
            raise CovariateError(
                f"future has no value of {name!r} for "
                f"{where(frame, columns, missing.arg_max() or 0)} ({missing.sum()} such rows in "
                "all); a future covariate needs a value at every step ahead: fill it, or name it "
                "as a past covariate"
            )


def needs_future(names: Sequence[str], columns: Columns, horizon: int) -> CovariateError:
    """Word the refusal of a forecast without the covariates that are known ahead.

    Parameters
    ----------
    names : sequence of str
        The covariates.
    columns : Columns
        The id, time and target columns.
    horizon : int
        Steps ahead.

    Returns
    -------
    CovariateError
        To raise.

    Examples
    --------
    >>> columns = Columns("unique_id", "ds", ("y",), id_given=False, wide=False)
    >>> print(needs_future(["price"], columns, 24))
    the model uses future covariates ('price') and no future was given; pass future=, a frame with
    the columns 'ds', 'price' at each of the 24 steps ahead: forecaster.make_future_frame() lists
    its rows
    """
    needed = listing([*columns.keys, *names], SHOWN_COLUMNS)
    return CovariateError(
        f"the model uses future covariates ({listing(names)}) and no future was given; pass "
        f"future=, a frame with the columns {needed} at each of the {horizon} steps ahead: "
        "forecaster.make_future_frame() lists its rows"
    )


def _rows_missing(
    wanted: pl.DataFrame, absent: np.ndarray, columns: Columns, horizon: int
) -> CovariateError:
    """Write out the first of the rows that future lacks."""
    shown = [where(wanted, columns, int(row)) for row in absent[:SHOWN]]
    more = f" and {len(absent) - len(shown)} more" if len(absent) > len(shown) else ""
    return CovariateError(
        f"future lacks {len(absent)} of {wanted.height} rows: {', '.join(shown)}{more}; one for "
        f"each series and each of the {horizon} steps ahead is needed: "
        "forecaster.make_future_frame() lists them all"
    )
