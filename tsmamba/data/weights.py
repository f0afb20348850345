"""Sample weights of the steps of a panel."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tsmamba.data.checks import SHOWN_COLUMNS, check_weights, listing
from tsmamba.data.frame import column_names
from tsmamba.data.panel import Panel
from tsmamba.data.place import place_rows
from tsmamba.errors import FrameError


def read_weights(df: Any, panel: Panel, weight_col: str) -> Panel:
    """Lay a column of sample weights on the grid of a panel.

    Parameters
    ----------
    df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        The frame that the panel was read from.
    panel : Panel
        The series.
    weight_col : str
        Column of the weights: finite numbers from 0 on.

    Returns
    -------
    Panel
        The same with `weights`; the series of a wide frame share those of their id.

    Raises
    ------
    FrameError
        If the column is absent, one of the id, time and target columns, or holds anything else.

    Examples
    --------
    >>> from tsmamba.data.panel import read_panel
    >>> frame = pl.DataFrame({"ds": [1, 2, 4], "y": [1.0, 3.0, 5.0], "w": [1, 2, 3]})
    >>> read_weights(frame, read_panel(frame), "w").weights
    array([1., 2., 0., 3.], dtype=float32)
    """
    columns = panel.columns
    if weight_col in (columns.id_col, columns.time_col, *columns.targets):
        raise FrameError(
            f"column {weight_col!r} cannot be the weights, too: it is the id, time or target "
            "column; name another one"
        )
    present = column_names(df)
    if weight_col not in present:
        raise FrameError(
            f"the frame has no weight column {weight_col!r}, only {listing(present, SHOWN_COLUMNS)}"
        )
    placed = place_rows(df, panel, [weight_col], np.zeros_like(panel.lengths), panel.lengths)
    check_weights(placed.frame, columns, weight_col)
    given = placed.frame.get_column(weight_col).cast(pl.Float32).to_numpy()
    weights = np.zeros(len(panel.values), np.float32)
    width = len(columns.targets)
    for number in range(width):
        weights[panel.offsets[:-1][number::width][placed.numbers] + placed.steps] = given
    return replace(panel, weights=weights)
