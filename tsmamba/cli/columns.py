"""Which columns of a table hold ids, time stamps and values, where the user does not say."""

from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tsmamba.cli.tables import read_table
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
    past, future, static : tuple of str
        Covariates: what all ``--past-covariate`` and its like say.
    weight : str, optional
        What ``--weight`` says.

    Examples
    --------
    >>> Wanted(time_col="time", future=("price",)).flags
    [('--time-col', 'time'), ('--future-covariate', 'price')]
    """

    id_col: str | None = None
    time_col: str | None = None
    targets: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    future: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    weight: str | None = None

    @property
    def flags(self) -> list[tuple[str, str]]:
        """Flag and column of all that is named."""
        said = [("--id-col", self.id_col), ("--time-col", self.time_col)]
        said += [("--target", name) for name in self.targets]
        said += [("--past-covariate", name) for name in self.past]
        said += [("--future-covariate", name) for name in self.future]
        said += [("--static-covariate", name) for name in self.static]
        said.append(("--weight", self.weight))
        return [(flag, name) for flag, name in said if name is not None]

    @property
    def beside(self) -> set[str]:
        """Columns that are neither ids, stamps nor values."""
        return {*self.past, *self.future, *self.static, *([self.weight] if self.weight else [])}


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
    _require_named(frame, wanted, path)
    notes: list[str] = []
    time_col = wanted.time_col or _time(frame, path, notes)
    frame = _with_times(frame, time_col)
    # Covariates and weights are no candidates for what is left to find.
    rest = frame.drop(wanted.beside - {ID, TARGET})
    id_col = wanted.id_col or _id(rest, time_col, path, notes)
    target_col: str | list[str] = list(wanted.targets)
    if len(target_col) < 2:
        target_col = target_col[0] if target_col else _target(rest, id_col, time_col, path, notes)
    return Chosen(frame, id_col, time_col, target_col, notes)


@dataclass
class Channels:
    """Columns to look for anomalies in, and what has to be said about the choice.

    Parameters
    ----------
    frame : polars.DataFrame
        Nothing but these columns and the time, parsed.
    time_col : str or None
        None where rows are only numbered.
    names : list of str
        The channels.
    notes : list of str
        One line for each choice that the user did not make.

    Examples
    --------
    >>> Channels(pl.DataFrame({"y": [1.0]}), None, ["y"]).notes
    []
    """

    frame: pl.DataFrame
    time_col: str | None
    names: list[str]
    notes: list[str] = field(default_factory=list)


def choose_channels(
    frame: pl.DataFrame, wanted: Wanted, path: Path, source: Path | None = None
) -> Channels:
    """Find the time and the channels: the named ones, or all columns of numbers.

    Parameters
    ----------
    frame : polars.DataFrame
        The table, of one series.
    wanted : Wanted
        What the user named.
    path : Path
        Where the table came from, for messages.
    source : Path, optional
        Of the names, where they are not the user's.

    Returns
    -------
    Channels
        The names, and notes on what was guessed or left out.

    Raises
    ------
    FrameError
        If a named column is absent, more than one can be the time, no column holds numbers, or
        there are several series.

    Examples
    --------
    >>> frame = pl.DataFrame({"heat": [5.0, 7.0], "state": ["on", "on"]})
    >>> choose_channels(frame, Wanted(), Path("pump.csv")).notes
    ['no time in pump.csv: rows are numbered from 0', "leaving out 'state', which is no number"]
    """
    _require_named(frame, wanted, path, source)
    notes: list[str] = []
    id_col = wanted.id_col or ID
    if id_col in frame.columns:
        _require_one_series(frame.get_column(id_col), path)
    time_col = wanted.time_col
    if time_col is None and (TIME in frame.columns or _temporal(frame)):
        time_col = _time(frame, path, notes)
    if time_col is None:
        notes.append(f"no time in {path}: rows are numbered from 0")
    else:
        frame = _with_times(frame, time_col)
    names = list(wanted.targets)
    if not names:
        rest = frame.drop({id_col, time_col or TIME}, strict=False)
        names = [name for name, dtype in rest.schema.items() if dtype.is_numeric()]
        others = [repr(name) for name in rest.columns if name not in names]
        if others:
            are = "which is no number" if len(others) == 1 else "which are no numbers"
            notes.append(f"leaving out {', '.join(others)}, {are}")
    if not names:
        raise FrameError(f"{path} has no column of numbers to score; {_listing(frame)}")
    kept = names if time_col is None else [time_col, *names]
    return Channels(frame.select(kept), time_col, names, notes)


def read_ahead(path: Path, chosen: Chosen) -> pl.DataFrame:
    r"""Read rows ahead of a table: covariates that are known already.

    Parameters
    ----------
    path : Path
        The file.
    chosen : Chosen
        The table that they follow, and its columns.

    Returns
    -------
    polars.DataFrame
        Its rows, their time column parsed.

    Raises
    ------
    FrameError
        If the file cannot be read, or has no such columns.

    Examples
    --------
    >>> import tempfile
    >>> table = Chosen(pl.DataFrame({"ds": [1], "y": [2], "price": [3]}), "unique_id", "ds", "y")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "prices.csv"
    ...     _ = path.write_text("ds,price\n2,4\n")
    ...     read_ahead(path, table)["price"].to_list()
    [4]
    """
    frame = read_table(path, keep_text=chosen.id_col)
    for name in (chosen.id_col, chosen.time_col):
        if name in chosen.frame.columns and name not in frame.columns:
            raise FrameError(
                f"{path} has no column {name!r}, which its rows are joined by; {_listing(frame)}"
            )
    return _with_times(frame, chosen.time_col)


def _require_named(
    frame: pl.DataFrame, wanted: Wanted, path: Path, source: Path | None = None
) -> None:
    for flag, name in wanted.flags:
        if name not in frame.columns:
            why = f"which {flag} names" if source is None else f"which {source} has"
            raise FrameError(f"{path} has no column {name!r}, {why}; {_listing(frame)}")


def _require_one_series(ids: pl.Series, path: Path) -> None:
    count = ids.n_unique()
    if count > 1:
        raise FrameError(
            f"{path} holds {count} series in {ids.name!r}, and a detector reads one; give a table "
            "of one series, or one with a column for each"
        )


def _with_times(frame: pl.DataFrame, time_col: str) -> pl.DataFrame:
    column = frame.get_column(time_col)
    return frame.with_columns(require_times(column)) if column.dtype == pl.String else frame


def _time(frame: pl.DataFrame, path: Path, notes: list[str]) -> str:
    return _only(_temporal(frame), TIME, "the time", "--time-col", frame, path, notes)


def _temporal(frame: pl.DataFrame) -> list[str]:
    return [n for n, t in frame.schema.items() if isinstance(t, pl.Date | pl.Datetime)]


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
