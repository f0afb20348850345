"""Rules that events must obey, learned from the training stays, and what breaks them set aside."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tsmamba.records.events import MICROSECONDS, Events, Repairs, sample
from tsmamba.records.ranges import Range, range_of

__all__ = ["Rules"]

# Farther from the start of its stay than so many usual lengths of a stay, a time is a mistake.
_ABSURD = 100.0
_USUAL = 0.98
# A code that often lies outside the range of its name measures something else.
_LEAST_INSIDE = 0.5
# A code that is so often without a time is known at the start; a time that others lack is lost.
_UNTIMED = 0.5
_SHOWN = 3


@dataclass(frozen=True)
class Rules:
    """What is learned about events as they come.

    Parameters
    ----------
    span : float
        Usual length of a stay, that which 98 % do not exceed.
    happenings : frozenset of str
        Codes that never have a value: they say that something happened, which counts as 1.
    untimed : frozenset of str
        Codes that mostly come without a time: they are known at the start.
    unranged : frozenset of str
        Codes whose values are not what their name says, so that no range holds.
    identifiers : frozenset of str
        Codes whose value is the id of the stay, which must not be learned.
    """

    span: float
    happenings: frozenset[str]
    untimed: frozenset[str]
    unranged: frozenset[str]
    identifiers: frozenset[str]

    @classmethod
    def learn(cls, events: Events) -> "Rules":
        """Learn the rules from training stays.

        Parameters
        ----------
        events : Events
            As they were read.

        Returns
        -------
        Rules
            What holds for them.
        """
        rows = events.rows
        length = pl.col("time").max() - (0.0 if events.from_zero else pl.col("time").min())
        spans = rows.group_by("stay").agg(length)["time"]
        spans = spans.filter((spans > 0) & spans.is_finite())
        _, outside = _ranged(rows, frozenset())
        lost = outside.filter(~pl.col("inside")).group_by("code").agg(pl.len().alias("lost"))
        codes = (
            rows.group_by("code")
            .agg(pl.len(), pl.col("value").is_null().all(), pl.col("time").is_null().mean())
            .join(lost, on="code", how="left")
        )
        return cls(
            span=float(spans.quantile(_USUAL) or 1.0),
            happenings=frozenset(codes.filter("value")["code"]),
            untimed=frozenset(codes.filter(pl.col("time") > _UNTIMED)["code"]),
            unranged=frozenset(
                codes.filter(pl.col("lost") > (1 - _LEAST_INSIDE) * pl.col("len"))["code"]
            ),
            identifiers=_identifiers(events),
        )

    def clean(self, events: Events, repairs: Repairs) -> Events:
        """Convert values in other units and set aside what cannot be.

        Parameters
        ----------
        events : Events
            As they were read.
        repairs : Repairs
            What was wrong is counted there.

        Returns
        -------
        Events
            Every row has a time, from the start of its stay, and a value; sorted by stay and time,
            by code where these are equal.
        """
        happened = pl.col("code").is_in(list(self.happenings)) & pl.col("value").is_null()
        rows = events.rows.with_columns(
            pl.when(happened).then(1.0).otherwise(pl.col("value")).alias("value")
        )
        rows = rows.filter(~pl.col("code").is_in(list(self.identifiers)))
        empty = rows["value"].is_null()
        repairs.note("no value", int(empty.sum()), sample(rows.filter(empty)))
        rows = self._timed(rows.filter(~empty), repairs, from_zero=events.from_zero)
        rows = rows.sort("stay", "time", "code", "value")
        again = pl.all_horizontal(pl.all() == pl.all().shift(1)).fill_null(value=False)
        once = rows.filter(~again)
        repairs.note("the same event twice", len(rows) - len(once))
        mended = self._mended(once, repairs)
        return Events(events.ids, mended.sort("stay", "time", "code", "value"), from_zero=True)

    def starts(self, events: Events) -> pl.Series:
        """Return the start of each stay, from where `clean` counts, on the clock of its times."""
        if events.from_zero:
            return pl.Series("time", np.zeros(len(events.ids)))
        counts = pl.col("value").is_not_null() | pl.col("code").is_in(list(self.happenings))
        counts &= ~pl.col("code").is_in(list(self.identifiers))
        first = events.rows.filter(counts).group_by("stay").agg(pl.col("time").min())
        stays = pl.DataFrame({"stay": np.arange(len(events.ids), dtype=np.uint32)})
        return stays.join(first, on="stay", how="left", maintain_order="left")["time"]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "span": self.span,
            "happenings": sorted(self.happenings),
            "untimed": sorted(self.untimed),
            "unranged": sorted(self.unranged),
            "identifiers": sorted(self.identifiers),
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Rules":
        """Undo `to_dict`."""
        names = "happenings", "untimed", "unranged", "identifiers"
        return cls(state["span"], **{name: frozenset(state[name]) for name in names})

    def mend(self, code: str, value: float) -> float | None:
        """Do to one value what `clean` does to many: in its range, or None."""
        known = None if code in self.unranged else range_of(code)
        if known is None or known.low <= value <= known.high:
            return value
        for factor, offset, _ in known.other:
            if known.low <= value * factor + offset <= known.high:
                return value * factor + offset
        return None

    def is_possible(self, time: float) -> bool:
        """Say whether an event can be so long after the start of its stay."""
        return 0.0 <= time <= _ABSURD * self.span

    def _timed(self, rows: pl.DataFrame, repairs: Repairs, *, from_zero: bool) -> pl.DataFrame:
        """Count time from the start of each stay, where events without a time stand."""
        lost = pl.col("time").is_null() & ~pl.col("code").is_in(list(self.untimed))
        away = rows.filter(lost)
        repairs.note("no time", len(away), sample(away))
        rows = rows.filter(~lost)
        since = pl.col("time")
        if not from_zero:
            since = ((since - since.min().over("stay")) * MICROSECONDS).round() / MICROSECONDS
        rows = rows.with_columns(since.fill_null(0.0))
        wrong = {
            "a time before zero, which is the start of a stay": pl.col("time") < 0,
            f"a time over {_ABSURD:g} usual stays after the start": pl.col("time")
            > _ABSURD * self.span,
        }
        for what, here in wrong.items():
            away = rows.filter(here)
            repairs.note(what, len(away), sample(away))
        return rows.filter(pl.col("time").is_between(0.0, _ABSURD * self.span))

    def _mended(self, rows: pl.DataFrame, repairs: Repairs) -> pl.DataFrame:
        kept, outside = _ranged(rows, self.unranged)
        mended = outside.filter("inside")
        changed = mended.group_by("code", "unit", maintain_order=True)
        for code, unit, count, example in changed.agg(pl.len(), pl.col("given").first()).rows():
            repairs.note(f"{code} in {unit}", count, f"{example:g}")
        lost = outside.filter(~pl.col("inside")).group_by("code", maintain_order=True)
        shown = pl.col("given").unique(maintain_order=True).head(_SHOWN)
        for code, count, values in lost.agg(pl.len(), shown).rows():
            known = range_of(code)
            limits = f"{known.low:g} to {known.high:g} {known.unit}" if known else ""
            examples = ", ".join(f"{value:g}" for value in values)
            repairs.note(f"{code} outside {limits}".rstrip(), count, examples)
        return pl.concat([kept, mended.select(kept.columns)])


def _ranged(rows: pl.DataFrame, unranged: frozenset[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Divide rows into those in the range of their code, if it has one, and all others.

    These are converted where they fit in another unit. They have ``given``, the value as it came,
    ``unit``, that it was converted from, and ``inside``, whether it was.
    """
    known = {code: range_of(code) for code in rows["code"].unique() if code not in unranged}
    ranges = {code: found for code, found in known.items() if found is not None}
    limited = _joined(rows, {code: (found.low, found.high) for code, found in ranges.items()})
    inside = pl.col("value").is_between("low", "high").fill_null(value=True)
    outside = limited.filter(~inside).with_columns(
        pl.col("value").alias("given"), pl.lit(None, pl.String).alias("unit")
    )
    for number in range(max((len(found.other) for found in ranges.values()), default=0)):
        outside = _converted(outside, ranges, number)
    return limited.filter(inside).select(rows.columns), outside.with_columns(inside.alias("inside"))


def _joined(rows: pl.DataFrame, limits: dict[str, tuple[float, float]]) -> pl.DataFrame:
    table = pl.DataFrame(
        {
            "code": list(limits),
            "low": [low for low, _ in limits.values()],
            "high": [high for _, high in limits.values()],
        },
        schema={"code": pl.String, "low": pl.Float64, "high": pl.Float64},
    )
    return rows.join(table, on="code", how="left", maintain_order="left")


def _converted(rows: pl.DataFrame, ranges: dict[str, Range], number: int) -> pl.DataFrame:
    """Apply the conversion of this number of each code where it leads into the range."""
    other = {code: r.other[number] for code, r in ranges.items() if len(r.other) > number}
    table = pl.DataFrame(
        {
            "code": list(other),
            "factor": [factor for factor, _, _ in other.values()],
            "offset": [offset for _, offset, _ in other.values()],
            "from": [unit for _, _, unit in other.values()],
        }
    )
    converted = pl.col("value") * pl.col("factor") + pl.col("offset")
    fits = ~pl.col("value").is_between("low", "high") & converted.is_between("low", "high")
    fits = fits.fill_null(value=False)
    return (
        rows.join(table, on="code", how="left", maintain_order="left")
        .with_columns(
            pl.when(fits).then(converted).otherwise(pl.col("value")).alias("value"),
            pl.when(fits).then(pl.col("from")).otherwise(pl.col("unit")).alias("unit"),
        )
        .drop("factor", "offset", "from")
    )


def _identifiers(events: Events) -> frozenset[str]:
    """Find codes whose values are the ids of their stays."""
    if not events.ids.dtype.is_integer():
        return frozenset()
    ids = pl.DataFrame({"stay": range(len(events.ids)), "id": events.ids.cast(pl.Float64)})
    valued = events.rows.filter(pl.col("value").is_not_null())
    same = valued.join(ids.with_columns(pl.col("stay").cast(pl.UInt32)), on="stay")
    about = same.group_by("code").agg((pl.col("value") == pl.col("id")).all())
    return frozenset(about.filter("value")["code"])
