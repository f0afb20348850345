"""Which columns of a table hold ids, time stamps and values, where the user does not say."""

from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tsmamba.cli.times import require_times
from tsmamba.errors import FrameError

ID, TIME, TARGET = "unique_id", "ds", "y"


@dataclass(frozen=True)
class Wanted:
    """Columns as the flags name them.

    Parameters
    ----------
    id_col, time_col : str, optional
        What ``--id-col`` and ``--time-col`` say.
    targets : tuple of str
        What all ``--target`` say.

    Examples
    --------
    >>> Wanted(time_col="time").targets
    ()
    """

    id_col: str | None = None
    time_col: str | None = None
    targets: tuple[str, ...] = ()


@dataclass
class Chosen:
    """Columns to forecast with, and what has to be said about the choice.

    Parameters
    ----------
    frame : polars.DataFrame
        The table, its time column parsed.
    id_col, time_col : str
        Names; the id column may be absent when it has its default name.
    target_col : str or list of str
        A list makes a wide frame.
    notes : list of str
        One line for each choice that the user did not make.

    Examples
    --------
    >>> Chosen(pl.DataFrame(), "unique_id", "ds", "y").notes
    []
    """

    frame: pl.DataFrame
    id_col: str
    time_col: str
    target_col: str | list[str]
    notes: list[str] = field(default_factory=list)


def choose_columns(frame: pl.DataFrame, wanted: Wanted, path: Path) -> Chosen:
    """Find the columns to use: the named ones, those of the usual name, or the only ones possible.

    Parameters
    ----------
    frame : polars.DataFrame
        The table.
    wanted : Wanted
        What the user named.
    path : Path
        Where the table came from, for messages.

    Returns
    -------
    Chosen
        The names, and notes on what was guessed.

    Raises
    ------
    FrameError
        If a named column is absent, or more than one would do. The message lists the columns and
        the flags.

    Examples
    --------
    >>> frame = pl.DataFrame({"step": [1, 2], "load": [5.0, 7.0]})
    >>> choose_columns(frame, Wanted(time_col="step"), Path("load.csv")).notes
    ["no column 'y' in load.csv: taking 'load' as the values"]
    """
    named = {"--id-col": wanted.id_col, "--time-col": wanted.time_col}
    for flag, name in [*named.items(), *(("--target", target) for target in wanted.targets)]:
        if name is not None and name not in frame.columns:
            raise FrameError(
                f"{path} has no column {name!r}, which {flag} names; {_listing(frame)}"
            )
    notes: list[str] = []
    time_col = wanted.time_col or _time(frame, path, notes)
    if frame.get_column(time_col).dtype == pl.String:
        frame = frame.with_columns(require_times(frame.get_column(time_col)))
    id_col = wanted.id_col or _id(frame, time_col, path, notes)
    target_col: str | list[str] = list(wanted.targets)
    if len(target_col) < 2:
        target_col = target_col[0] if target_col else _target(frame, id_col, time_col, path, notes)
    return Chosen(frame, id_col, time_col, target_col, notes)


def _time(frame: pl.DataFrame, path: Path, notes: list[str]) -> str:
    temporal = [n for n, t in frame.schema.items() if isinstance(t, pl.Date | pl.Datetime)]
    return _only(temporal, TIME, "the time", "--time-col", frame, path, notes)


def _target(frame: pl.DataFrame, id_col: str, time_col: str, path: Path, notes: list[str]) -> str:
    numeric = [n for n, t in frame.schema.items() if t.is_numeric() and n not in (id_col, time_col)]
    return _only(numeric, TARGET, "the values", "--target", frame, path, notes)


def _only(
    candidates: list[str],
    usual: str,
    what: str,
    flag: str,
    frame: pl.DataFrame,
    path: Path,
    notes: list[str],
) -> str:
    """Take the column of the usual name, or else the one that can be meant."""
    if usual in frame.columns:
        return usual
    if len(candidates) == 1:
        notes.append(f"no column {usual!r} in {path}: taking {candidates[0]!r} as {what}")
        return candidates[0]
    count = "none" if not candidates else f"{len(candidates)}"
    raise FrameError(
        f"{path} has no column {usual!r}, and {count} of its columns can hold {what}; name the "
        f"right one with {flag}; {_listing(frame)}"
    )


def _id(frame: pl.DataFrame, time_col: str, path: Path, notes: list[str]) -> str:
    """Take the one text column where stamps alone do not tell rows apart but with it they do."""
    if ID in frame.columns or not frame.get_column(time_col).is_duplicated().any():
        return ID
    text = [n for n, t in frame.schema.items() if t == pl.String or isinstance(t, pl.Categorical)]
    if len(text) == 1 and not frame.select(text[0], time_col).is_duplicated().any():
        notes.append(f"stamps in {path} repeat: taking {text[0]!r} as the series ids")
        return text[0]
    raise FrameError(
        f"{path} has no column {ID!r}, and stamps repeat in {time_col!r}; name the column that "
        f"tells the series apart with --id-col; {_listing(frame)}"
    )


def _listing(frame: pl.DataFrame) -> str:
    return "columns: " + ", ".join(f"{n} ({t.base_type()})" for n, t in frame.schema.items())
