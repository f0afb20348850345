"""The head of an answer and the facts about it, as small tables on the screen."""

import math
from collections.abc import Sequence
from typing import Any

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_ROWS = 6
_DIGITS = 5


def show(
    answer: pl.DataFrame,
    keys: Sequence[str],
    facts: dict[str, str],
    *,
    on_stderr: bool,
    rows: int = _ROWS,
) -> None:
    """Print the first rows of an answer, if it has any, and what is known about it.

    Parameters
    ----------
    answer : polars.DataFrame
        A forecast, or the episodes that were found.
    keys : sequence of str
        Columns that name a row; the others hold numbers.
    facts : dict of str to str
        Printed one a line.
    on_stderr : bool
        Whether stdout belongs to the answer itself.
    rows : int, default 6
        Most rows to print.

    Examples
    --------
    >>> show(pl.DataFrame({"ds": [7], "y": [2.5]}), ["ds"], {"series": "1"}, on_stderr=False)
    <BLANKLINE>
      ds        y
     ─────────────
       7   2.5000
    <BLANKLINE>
    series  1
    """
    console = Console(stderr=on_stderr, highlight=False)
    if answer.height:
        console.print(_head(answer, keys, rows))
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="bold", no_wrap=True)
    lines.add_column(overflow="fold")
    for name, value in facts.items():
        lines.add_row(name, Text(value))
    console.print(lines)


def _head(answer: pl.DataFrame, keys: Sequence[str], rows: int) -> Table:
    left = answer.height - min(rows, answer.height)
    table = Table(box=box.SIMPLE_HEAD, caption=f"and {left:,} more rows" if left else None)
    head = answer.head(rows)
    values = [name for name in head.columns if name not in keys]
    point = values[0] if values else ""
    for name in head.columns:
        # "-lo-90" says enough beside the column of the model it belongs to.
        short = name.removeprefix(point).lstrip("-_") if name != point else name
        is_value = name in values
        table.add_column(
            Text(short if is_value else name), justify="right" if is_value else "left", no_wrap=True
        )
    decimals = _decimals(head.select(values))
    for row in head.iter_rows():
        table.add_row(*(Text(_cell(value, decimals)) for value in row))
    return table


def _decimals(values: pl.DataFrame) -> int:
    """Digits after the point that leave five in all, for all columns alike."""
    finite = values.select(pl.max_horizontal(pl.all().abs().fill_nan(None).max())).item()
    if not finite:
        return 0
    return min(max(_DIGITS - 1 - math.floor(math.log10(finite)), 0), 8)


def _cell(value: Any, decimals: int) -> str:
    return f"{value:,.{decimals}f}" if isinstance(value, float) else str(value)
