"""Tables from and to files, by the ending of their names."""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl

from tsmamba.cli.times import parse_times
from tsmamba.errors import FrameError, ParameterError

STDOUT = Path("-")

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".ipc", ".feather")
_JSON_LINES = (".jsonl", ".ndjson")
_READABLE = ".csv, .csv.gz, .tsv, .tsv.gz, .parquet, .arrow, .ipc, .feather, .jsonl and .ndjson"
_WRITABLE = ".csv, .tsv, .parquet, .arrow, .ipc, .feather, .jsonl and .ndjson"
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]


def read_table(path: Path, *, keep_text: str | None = None) -> pl.DataFrame:
    r"""Read a table and make numbers and time stamps of text that holds nothing else.

    Parameters
    ----------
    path : Path
        The file.
    keep_text : str, optional
        A column to leave as it is: ids may look like numbers.

    Returns
    -------
    polars.DataFrame
        Its rows.

    Raises
    ------
    ParameterError
        If the ending of the name is not one of those accepted.
    FrameError
        If the file cannot be read as what its name says, or holds ambiguous dates.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "load.csv"
    ...     _ = path.write_text("ds,y\n2024-01-01,NA\n2024-01-02,5\n")
    ...     read_table(path).dtypes
    [Date, Float64]
    """
    reader = _reader(path)
    try:
        frame = reader(path)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise FrameError(f"{path} cannot be read as its name says ({reason})") from None
    mended = [
        _mend(column)
        for column in frame.iter_columns()
        if column.dtype == pl.String and column.name != keep_text
    ]
    return frame.with_columns(mended)


def check_writable(path: Path) -> None:
    """Refuse a file that `write_table` could not write, before the work that fills it.

    Parameters
    ----------
    path : Path
        The file, or ``-`` for stdout.

    Raises
    ------
    ParameterError
        If the ending of the name is not one of those accepted, or the folder does not exist.

    Examples
    --------
    >>> check_writable(Path("-"))
    """
    if path == STDOUT:
        return
    if path.suffix.lower() not in (*_SEPARATORS, *_PARQUET, *_ARROW, *_JSON_LINES):
        raise ParameterError(f"cannot write {path}: the name must end with one of {_WRITABLE}")
    check_folder(path)


def check_folder(path: Path) -> None:
    """Refuse a file whose folder does not exist.

    Parameters
    ----------
    path : Path
        A file to be written.

    Raises
    ------
    ParameterError
        Naming the folder.

    Examples
    --------
    >>> check_folder(Path("forecast.csv"))
    """
    if not path.parent.is_dir():
        raise ParameterError(f"cannot write {path}: there is no folder {path.parent}")


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write a table in the format that the name says.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows.
    path : Path
        A file that `check_writable` accepts, or ``-`` for CSV on stdout.

    Examples
    --------
    >>> write_table(pl.DataFrame({"ds": [1], "y": [2.5]}), Path("-"))
    ds,y
    1,2.5
    """
    suffix = path.suffix.lower()
    if path == STDOUT:
        sys.stdout.write(frame.write_csv())
    elif suffix in _PARQUET:
        frame.write_parquet(path)
    elif suffix in _ARROW:
        frame.write_ipc(path)
    elif suffix in _JSON_LINES:
        frame.write_ndjson(path)
    else:
        frame.write_csv(path, separator=_SEPARATORS[suffix])


def _reader(path: Path) -> Callable[[Path], pl.DataFrame]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-1] if suffixes else ""
    packed = kind == ".gz" and len(suffixes) > 1
    if packed:
        kind = suffixes[-2]
    if kind in _SEPARATORS:
        return lambda file: _read_text(file, _SEPARATORS[kind])
    if not packed and kind in _PARQUET:
        return pl.read_parquet
    if not packed and kind in _ARROW:
        return pl.read_ipc
    if not packed and kind in _JSON_LINES:
        return lambda file: pl.read_ndjson(file, infer_schema_length=None)
    raise ParameterError(f"cannot tell what {path} holds; files may end with {_READABLE}")


def _read_text(path: Path, separator: str) -> pl.DataFrame:
    header = _first_line(path)
    # What spreadsheets call CSV wherever the comma is the decimal mark.
    foreign = separator == "," and ";" in header and "," not in header
    return pl.read_csv(
        path,
        separator=";" if foreign else separator,
        decimal_comma=foreign,
        infer_schema_length=None,
    )


def _first_line(path: Path) -> str:
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        return file.readline().decode(errors="replace")


def _mend(column: pl.Series) -> pl.Series:
    """Read text as numbers if it is numbers and marks of missing ones, else as time stamps."""
    text = column.str.strip_chars()
    missing = text.is_in(_MISSING) | text.is_null()
    if missing.all():
        return column
    numbers = text.cast(pl.Float64, strict=False)
    if (numbers.is_not_null() | missing).all():
        return numbers.set(missing, None)
    times = parse_times(column)
    return column if times is None else times
