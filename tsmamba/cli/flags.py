"""Flags that more than one command takes: the table and what its columns mean."""

from pathlib import Path
from typing import Annotated

import typer

_COLUMNS = "Columns"

File = Annotated[
    Path,
    typer.Argument(
        help="Table: csv, tsv, parquet, arrow or JSON lines.",
        metavar="FILE",
        exists=True,
        dir_okay=False,
    ),
]
IdCol = Annotated[
    str | None, typer.Option(help="Series ids, usually unique_id.", rich_help_panel=_COLUMNS)
]
TimeCol = Annotated[
    str | None, typer.Option(help="Time stamps, usually ds.", rich_help_panel=_COLUMNS)
]
Target = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        "--target-col",
        help="Values, usually y; repeatable.",
        rich_help_panel=_COLUMNS,
    ),
]
Freq = Annotated[
    str | None,
    typer.Option(
        help="Step of time, such as 15m, 1h or 1d, or uneven; found if not given.",
        rich_help_panel=_COLUMNS,
    ),
]


def parse_freq(text: str | None) -> str | int | None:
    """Read what ``--freq`` got: whole numbers are steps of integer stamps.

    Parameters
    ----------
    text : str, optional
        The value of the flag.

    Returns
    -------
    str, int or None
        What the library takes as ``freq``.

    Examples
    --------
    >>> parse_freq("15m"), parse_freq("2")
    ('15m', 2)
    """
    return int(text) if text and text.isdigit() else text
