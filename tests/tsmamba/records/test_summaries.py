import numpy as np
import polars as pl
import pytest

from tsmamba.records.events import Events
from tsmamba.records.summaries import summarise
from tsmamba.records.vocabulary import Scale, Static, Vocabulary

PLAIN = Scale(-1e9, 1e9, log=False, mean=0.0, sd=1.0)
KNOWN = Static(PLAIN, ())
WINDOWS = {"quarter": (0.0, 0.25), "half": (0.25, 0.5), "early": (0.5, np.inf)}


def slowly(rows, end, span):
    """Return the summaries of one code of one stay, from its times and values in order."""
    times, values = (np.array(each) for each in zip(*rows, strict=True))
    ago = (end - times) / span
    told = {
        "last": values[-1], "first": values[0], "mean": values.mean(), "min": values.min(),
        "max": values.max(), "median": np.median(values), "count": len(values),
        "since": ago[-1], "change": values[-1] - values[0], "sd": np.nan, "slope": np.nan,
    }  # fmt: skip
    if len(values) > 1:
        told["sd"] = values.std(ddof=1)
    if len(set(times)) > 1:
        told["slope"] = np.polyfit(times / span, values, 1)[0]
    for name, (low, high) in WINDOWS.items():
        part = values[(ago >= low) & (ago < high)]
        told[f"{name}_count"] = len(part)
        for what in ("mean", "min", "max"):
            told[f"{name}_{what}"] = getattr(part, what)() if len(part) else np.nan
    return told


def events_of(rows, stays=1):
    schema = {"stay": pl.UInt32, "time": pl.Float64, "code": pl.String, "value": pl.Float64}
    frame = pl.DataFrame(rows, schema, orient="row").sort("stay", "time", "code", "value")
    return Events(pl.Series(range(stays)), frame, from_zero=True)


def test_summaries_are_those_of_a_loop_over_stays(cleaned, reader):
    span = reader.rules.span
    table = summarise(cleaned, reader.vocabulary, span)
    for stay in range(len(cleaned.ids)):
        events = cleaned.rows.filter(pl.col("stay") == stay)
        end = events["time"].max()
        for code in reader.vocabulary.codes:
            rows = events.filter(pl.col("code") == code).select("time", "value").rows()
            names = [name for name in table.columns if name.startswith(f"{code} ")]
            row = table[names].cast(pl.Float64).fill_null(np.nan).row(stay)
            found = dict(zip((name.removeprefix(f"{code} ") for name in names), row, strict=True))
            expected = slowly(rows, end, span) if rows else dict.fromkeys(found, np.nan)
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-8, nan_ok=True), (stay, code)


def test_what_is_static_comes_last(cleaned, reader):
    table = summarise(cleaned, reader.vocabulary, reader.rules.span)
    ages = cleaned.rows.filter(pl.col("code") == "Age")["value"].to_list()
    assert table[:, -2].to_list() == ages


def test_stays_together_are_the_stays_alone(cleaned, reader):
    together = summarise(cleaned, reader.vocabulary, reader.rules.span)
    for stay in (0, 7, 59):
        one = cleaned.only(np.arange(60) == stay)
        alone = summarise(one, reader.vocabulary, reader.rules.span)
        np.testing.assert_allclose(alone.to_numpy(), together[stay].to_numpy(), rtol=1e-12)


def test_the_unit_of_time_does_not_matter(cleaned, reader):
    minutes = Events(cleaned.ids, cleaned.rows.with_columns(pl.col("time") * 60), from_zero=True)
    found, expected = (
        summarise(events, reader.vocabulary, span).to_numpy()
        for events, span in ((minutes, reader.rules.span * 60), (cleaned, reader.rules.span))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_measurements_at_one_time_have_no_slope():
    rows = [(0, 0.1, "a", value) for value in (1.0, 2.0, 4.0)] + [(0, 7.3, "b", 1.0)]
    found = summarise(events_of(rows), Vocabulary({"a": PLAIN, "b": PLAIN}, {}), 3.0)
    assert found["a slope"].to_list() == found["b slope"].to_list() == [None]
    assert found["a sd"][0] == pytest.approx(np.std([1, 2, 4], ddof=1))


@pytest.mark.parametrize("code", ["stay", "code", "value", "last", "a last", "a", "literal"])
def test_codes_and_statics_may_have_any_name(code):
    rows = [(0, 0.0, code, 5.0), (0, 1.0, "a 1", 2.0), (1, 1.0, "a 1", 3.0)]
    found = summarise(events_of(rows, stays=2), Vocabulary({"a 1": PLAIN}, {code: KNOWN}), 1.0)
    assert found[:, -1].to_list() == [5.0, None]
    again = summarise(events_of(rows, stays=2), Vocabulary({"a 1": PLAIN, code: PLAIN}, {}), 1.0)
    assert again[f"{code} last"].to_list() == [5.0, None]
