"""Summaries of stays: what a table has a column for, as input of boosted trees."""

import numpy as np
import polars as pl

from tsmamba.records.events import Events
from tsmamba.records.vocabulary import Vocabulary

__all__ = ["summarise"]

# Parts of the usual stay, counted back from the last event, that have summaries of their own.
_WINDOWS = {"quarter": (0.0, 0.25), "half": (0.25, 0.5), "early": (0.5, np.inf)}


def summarise(events: Events, vocabulary: Vocabulary, span: float) -> pl.DataFrame:
    """Summarise each code over each stay.

    Parameters
    ----------
    events : Events
        Cleaned.
    vocabulary : Vocabulary
        The codes to read.
    span : float > 0
        Usual length of a stay.

    Returns
    -------
    polars.DataFrame
        A row for each stay, null where a code was not measured; last come the static codes.
    """
    end = pl.col("time").max().over("stay")
    rows = events.rows.filter(pl.col("code").is_in(list(vocabulary.codes))).with_columns(
        ago=(end - pl.col("time")) / span
    )
    value, ago = pl.col("value"), pl.col("ago")
    whole = rows.group_by("stay", "code").agg(
        last=value.last(),
        first=value.first(),
        mean=value.mean(),
        min=value.min(),
        max=value.max(),
        sd=value.std(),
        median=value.median(),
        count=pl.len().cast(pl.Float64),
        since=ago.last(),
        # Of measurements at one time, rounding would make a slope.
        slope=pl.when(ago.max() > ago.min()).then(-pl.cov(ago, value) / ago.var()),
        change=value.last() - value.first(),
        **{
            f"{name}_{what}": getattr(
                value.filter(ago.is_between(low, high, closed="left")), what
            )()
            for name, (low, high) in _WINDOWS.items()
            for what in ("mean", "min", "max", "count")
        },
    )
    columns = [name for name in whole.columns if name not in ("stay", "code")]
    table = pl.DataFrame({"stay": np.arange(len(events.ids), dtype=np.uint32)})
    for code in vocabulary.codes:
        named = {name: f"{code} {name}" for name in columns}
        part = whole.filter(pl.col("code") == code).drop("code").rename(named)
        table = table.join(part, on="stay", how="left", maintain_order="left")
    for code in vocabulary.statics:
        part = (
            events.rows.filter(pl.col("code") == code)
            .group_by("stay")
            .agg(value.first().alias(f"{code} static"))
        )
        table = table.join(part, on="stay", how="left", maintain_order="left")
    return table.drop("stay").cast(pl.Float64).fill_nan(None)
