"""Pictures of anomaly scores."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tsmamba._optional import require
from tsmamba.anomaly.batch import Batch
from tsmamba.anomaly.rows import Rows
from tsmamba.plotting import axis_times, save_figure, style_axes

_MOST_CHANNELS = 4
_LINE, _SCORE, _EPISODE = "#5f646c", "#d1410c", "#f6cdbb"
_WIDTH, _ROW_HEIGHT, _DPI = 10.0, 1.7, 150
# A score far above the threshold must not flatten all others.
_HIGHEST = 5.0


def plot_scores(rows: Rows, scored: Batch, episodes: pl.DataFrame, path: str | Path | None) -> Any:
    """Draw channels above scores, with the episodes shaded.

    Parameters
    ----------
    rows : Rows
        What was scored; of more than four channels, those with most anomaly are drawn.
    scored : Batch
        Their scores.
    episodes : polars.DataFrame
        As `episode_frame` gives them.
    path : str or path, optional
        File to write.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure_module = require("matplotlib.figure", "plot")
    channels = _channels(scored.contributions)
    times = rows.times if rows.times is not None else pl.Series(np.arange(len(rows.values)))
    figure = figure_module.Figure(
        figsize=(_WIDTH, _ROW_HEIGHT * (len(channels) + 1) + 0.4), dpi=_DPI, layout="constrained"
    )
    axes = figure.subplots(len(channels) + 1, 1, sharex=True, squeeze=False)[:, 0]
    x = axis_times(times)
    spans = zip(episodes["start"].to_list(), episodes["end"].to_list(), strict=True)
    shaded = [axis_times(pl.Series(span, dtype=times.dtype)) for span in spans]
    for ax, channel in zip(axes, channels, strict=False):
        ax.plot(x, rows.values[:, channel], color=_LINE, lw=0.8)
        ax.set_title(rows.names[channel] if rows.names else f"channel {channel}", **_TITLE)
    top = axes[-1]
    top.plot(x, scored.scores, color=_SCORE, lw=0.9)
    top.axhline(1.0, color=_LINE, lw=0.9, ls=(0, (4, 3)))
    known = scored.scores[~np.isnan(scored.scores)]
    highest = float(known.max()) if len(known) else 1.0
    top.set_ylim(0, min(_HIGHEST, max(1.2, 1.05 * highest)))
    cut = f", drawn up to {_HIGHEST:g} of {highest:.3g}" if highest > _HIGHEST else ""
    top.set_title(f"anomaly score, alert at 1{cut}", **_TITLE)
    for ax in axes:
        for start, end in shaded:
            ax.axvspan(start, end, color=_EPISODE, lw=1.5, zorder=0)
        style_axes(ax, temporal=times.dtype.is_temporal())
    if path is not None:
        save_figure(figure, Path(path))
    return figure


_TITLE: dict[str, Any] = {
    "loc": "left", "fontsize": 10, "fontweight": "bold", "color": "#22252a",
}  # fmt: skip


def _channels(contributions: np.ndarray) -> list[int]:
    """Choose the channels with most anomaly, in their own order."""
    most = np.nan_to_num(contributions).max(axis=0)
    return sorted(np.argsort(-most, kind="stable")[:_MOST_CHANNELS].tolist())
