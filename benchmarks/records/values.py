"""Next values of stays: the problem, and what answers are worth."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from benchmarks.forecast.results import Line
from benchmarks.records.sets import physionet
from tsmamba.forecast.events.record import Record
from tsmamba.records.events import EventColumns, Events, Repairs, read_events
from tsmamba.records.reader import Reader
from tsmamba.records.tokens import bin_of

__all__ = ["COLUMNS", "HORIZON", "Forecasts", "ValuesProblem", "figures"]

COLUMNS = EventColumns("subject_id", "time", "code", "numeric_value")
HORIZON = 3
_HOUR = 60  # times of the set are minutes
_ORIGIN = 42
_BIN = 2
# It only ever says that something happened.
_LEFT_OUT = "MechVent"
_LEAST = 200  # values of a code that counts in the mean over codes


class Forecasts(NamedTuple):
    """Standardised forecasts, (stays, steps, codes), and an interval of 90 %, if there is one."""

    point: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


class ValuesProblem:
    """Learn from set a of PhysioNet 2012; of set b 42 hours are given, and the next 6 judged.

    A value is the mean of a code in two hours, in units of its standard deviation in set a, after
    the logarithm where the reader takes it.
    """

    def __init__(self) -> None:
        self.train = physionet("a").events
        self.test = physionet("b").events

    @cached_property
    def past(self) -> pl.DataFrame:
        """Events of set b that are given."""
        return self.test.filter(pl.col("time") <= _ORIGIN * _HOUR)

    @cached_property
    def _learned(self) -> tuple[Reader, Events]:
        return Reader.learn(read_events(self.train, COLUMNS, Repairs()), 24, 128, Repairs())

    @property
    def reader(self) -> Reader:
        """What set a tells of codes and scales."""
        return self._learned[0]

    @property
    def learned(self) -> Events:
        """Set a, cleaned."""
        return self._learned[1]

    @cached_property
    def given(self) -> Events:
        """The past of set b, cleaned."""
        return self.reader.clean(read_events(self.past, COLUMNS, Repairs()), Repairs())

    @property
    def codes(self) -> list[str]:
        """All codes, also the one that is left out of the figures."""
        return list(self.reader.vocabulary.codes)

    @property
    def asked(self) -> pl.DataFrame:
        """Rows that ask for the middle of each bin."""
        middles = [(_ORIGIN + _BIN * (step + 0.5)) * _HOUR for step in range(HORIZON)]
        return pl.DataFrame({"subject_id": self.given.ids}).join(
            pl.DataFrame({"time": middles}), how="cross", maintain_order="left_right"
        )

    def truth(self, events: Events | None = None, ids: pl.Series | None = None) -> np.ndarray:
        """Return the means of the bins after the origin, (stays, steps, codes), NaN for none."""
        if events is None:
            events = self.reader.clean(read_events(self.test, COLUMNS, Repairs()), Repairs())
            ids = self.given.ids
        ids = events.ids if ids is None else ids
        numbers = pl.DataFrame({"id": ids, "row": np.arange(len(ids))})
        codes = pl.DataFrame({"code": self.codes, "column": np.arange(len(self.codes))})
        after = events.rows.filter(pl.col("time") > _ORIGIN * _HOUR)
        step = ((pl.col("time") - _ORIGIN * _HOUR) / (_BIN * _HOUR)).ceil() - 1
        means = (
            after.with_columns(
                step.cast(pl.Int64).alias("step"), id=events.ids.gather(after["stay"])
            )
            .group_by("id", "step", "code")
            .agg(pl.col("value").mean())
            .filter(pl.col("step") < HORIZON)
            .join(numbers, on="id")
            .join(codes, on="code")
        )
        table = np.full((len(ids), HORIZON, len(self.codes)), np.nan)
        table[means["row"], means["step"], means["column"]] = means["value"]
        return self.standardised(table)

    def standardised(self, table: np.ndarray) -> np.ndarray:
        """Return values, (..., codes), in units of standard deviations."""
        scales = self.reader.vocabulary.codes.values()
        return np.stack([scale(table[..., at]) for at, scale in enumerate(scales)], -1)

    def carried(self, events: Events, *, single: bool) -> np.ndarray:
        """Return the last single values of stays, or means of their last bins, (stays, codes)."""
        there = self.reader.measured(events)
        record = Record.of(events.only(there), self.reader)
        table = np.zeros((len(there), len(self.codes)))
        last = record.tokens.offsets[1:] - 1
        table[there] = (record.latest if single else record.tokens.values)[last]
        return table

    def placed(self, points: np.ndarray) -> np.ndarray:
        """Turn forecasts of the bins after the last token into those of the bins that count.

        Where the last event lies too far back, there is none.
        """
        width = self.reader.width
        measured = self.given.rows.filter(pl.col("code").is_in(self.codes))
        last = measured.group_by("stay").agg(pl.col("time").max())
        bins = np.zeros(len(points), np.int64)
        bins[last["stay"].to_numpy()] = bin_of(last["time"].to_numpy(), width)
        middles = self.asked["time"].to_numpy().reshape(-1, HORIZON)
        step = np.maximum(bin_of(middles, width) - bins[:, None], 1)
        found = points[np.arange(len(points))[:, None], np.minimum(step, HORIZON) - 1]
        return np.where((step > HORIZON)[..., None], np.nan, found)


def figures(problem: ValuesProblem, forecasts: Forecasts) -> Line:
    """Return the errors of forecasts; where there is none, the last mean is carried forward.

    Parameters
    ----------
    problem : ValuesProblem
        What was asked.
    forecasts : Forecasts
        The answers.

    Returns
    -------
    dict
        Mean absolute errors over all values (``micro``), over codes of more than 200 values
        (``macro``) and by code, and shares of values in intervals.
    """
    truth = problem.truth()
    carried = np.broadcast_to(problem.carried(problem.given, single=False)[:, None], truth.shape)
    error = np.abs(np.where(np.isnan(forecasts.point), carried, forecasts.point) - truth)
    codes = {}
    for at, code in enumerate(problem.codes):
        here = ~np.isnan(truth[..., at])
        if code == _LEFT_OUT or not here.any():
            continue
        codes[code] = {"values": int(here.sum()), "mae": float(error[..., at][here].mean())}
        if forecasts.low is not None and forecasts.high is not None:
            answered = here & ~np.isnan(forecasts.point[..., at])
            low, high = forecasts.low[..., at][answered], forecasts.high[..., at][answered]
            inside = (low <= truth[..., at][answered]) & (truth[..., at][answered] <= high)
            codes[code]["coverage"] = float(inside.mean())
    frequent = [told for told in codes.values() if told["values"] > _LEAST]
    total = sum(told["values"] for told in codes.values())
    line: Line = {
        "micro": sum(told["values"] * told["mae"] for told in codes.values()) / total,
        "macro": float(np.mean([told["mae"] for told in frequent])),
        "codes": codes,
    }
    if forecasts.low is not None:
        line["coverage"] = sum(told["values"] * told["coverage"] for told in codes.values()) / total
        line["coverage_macro"] = float(np.mean([told["coverage"] for told in frequent]))
    return line
