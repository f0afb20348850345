"""Rules that events must obey, learned from the training stays, and what breaks them set aside."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from tsmamba.classify.events import Events, Repairs, sample
from tsmamba.classify.ranges import Range, range_of

__all__ = ["Rules"]

# Farther from the start of its stay than so many usual lengths of a stay, a time is a mistake.
_ABSURD = 100.0
_USUAL = 0.98
# A code that often lies outside the range of its name measures something else.
_LEAST_INSIDE = 0.5
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
    unranged : frozenset of str
        Codes whose values are not what their name says, so that no range holds.
    identifiers : frozenset of str
        Codes whose value is the id of the stay, which must not be learned.
    """

    span: float
    happenings: frozenset[str]
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
        codes = rows.group_by("code").agg(pl.col("value").is_null().all())
        ranged = _with_ranges(rows, frozenset()).group_by("code").agg(pl.col("inside").mean())
        return cls(
            span=float(spans.filter(spans > 0).quantile(_USUAL) or 1.0),
            happenings=frozenset(codes.filter("value")["code"]),
            unranged=frozenset(ranged.filter(pl.col("inside") < _LEAST_INSIDE)["code"]),
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
        once = rows.unique(maintain_order=True)
        repairs.note("the same event twice", len(rows) - len(once))
        mended = self._mended(once, repairs)
        return Events(events.ids, mended.sort("stay", "time", "code", "value"), from_zero=True)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "span": self.span,
            "happenings": sorted(self.happenings),
            "unranged": sorted(self.unranged),
            "identifiers": sorted(self.identifiers),
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Rules":
        """Undo `to_dict`."""
        sets = {name: frozenset(state[name]) for name in ("happenings", "unranged", "identifiers")}
        return cls(state["span"], **sets)

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
        start = pl.lit(0.0) if from_zero else pl.col("time").min().over("stay")
        rows = rows.with_columns((pl.col("time") - start).fill_null(0.0))
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
        ranged = _with_ranges(rows, self.unranged)
        changed = ranged.filter(pl.col("unit").is_not_null()).group_by(
            "code", "unit", maintain_order=True
        )
        for code, unit, count, example in changed.agg(pl.len(), pl.col("given").first()).rows():
            repairs.note(f"{code} in {unit}", count, f"{example:g}")
        outside = ranged.filter(~pl.col("inside")).group_by("code", maintain_order=True)
        shown = pl.col("given").unique(maintain_order=True).head(_SHOWN)
        for code, count, values in outside.agg(pl.len(), shown).rows():
            known = range_of(code)
            limits = f"{known.low:g} to {known.high:g} {known.unit}" if known else ""
            examples = ", ".join(f"{value:g}" for value in values)
            repairs.note(f"{code} outside {limits}".rstrip(), count, examples)
        return ranged.filter("inside").select("stay", "time", "code", "value")


def _with_ranges(rows: pl.DataFrame, unranged: frozenset[str]) -> pl.DataFrame:
    """Convert what fits in another unit.

    Adds ``given``, the value as it came, ``unit``, that it was converted from, and ``inside``.
    """
    rows = rows.with_columns(pl.col("value").alias("given"))
    known = {code: range_of(code) for code in rows["code"].unique() if code not in unranged}
    ranges = {code: found for code, found in known.items() if found is not None}
    rows = _joined(rows, {code: (found.low, found.high) for code, found in ranges.items()})
    rows = rows.with_columns(pl.lit(None, pl.String).alias("unit"))
    most = max((len(found.other) for found in ranges.values()), default=0)
    for number in range(most):
        rows = _converted(rows, ranges, number)
    inside = pl.col("value").is_between("low", "high").fill_null(value=True)
    return rows.with_columns(inside.alias("inside")).drop("low", "high")


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
    same = events.rows.join(ids.with_columns(pl.col("stay").cast(pl.UInt32)), on="stay")
    about = same.group_by("code").agg((pl.col("value") == pl.col("id")).all())
    return frozenset(about.filter("value")["code"])
