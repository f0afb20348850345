import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tsmamba.data.panel import read_panel
from tsmamba.errors import FrameError, FrequencyError, HorizonError
from tsmamba.forecast.advice import advise, choose_preset, concern
from tsmamba.forecast.facts import examine
from tsmamba.forecast.presets import PRESETS
from tsmamba_datasets import (
    fetch_beijing_pm25,
    fetch_ett,
    fetch_exchange_rate,
    fetch_m4_hourly,
    fetch_national_illness,
    load_pjm_load,
)

ROOT = Path(__file__).resolve().parents[3]
DAY = 24
HOUR = timedelta(hours=1)


def noise(length, seed=0):
    return np.random.default_rng(seed).normal(size=length)


def daily(length, deviation=0.1):
    return np.sin(2 * np.pi * np.arange(length) / DAY) + deviation * noise(length)


def frame(*series, every=None):
    """Return a frame of arrays, at integer stamps or at every so much time from 2024 on."""
    parts = []
    for number, y in enumerate(series):
        ds = np.arange(len(y))
        if every is not None:
            ds = np.datetime64("2024-01-01", "us") + ds * np.timedelta64(every)
        parts.append(pl.DataFrame({"unique_id": [f"s{number}"] * len(y), "ds": ds, "y": y}))
    return pl.concat(parts)


FLAT = frame(*[np.full(900, 3.0)] * 3, daily(950))
WALK = frame(*[noise(900, seed).cumsum() for seed in range(3)], daily(950))
SHORT = frame(daily(300), daily(400))
LONG = frame(daily(9_000), every=HOUR)
MIDDLE = frame(daily(3_000))
CASES = {
    "flat": (FLAT, "naive", "finance"),
    "walk": (WALK, "naive", "finance"),
    "short": (SHORT, "linear", "short"),
    "long and daily": (LONG, "mamba", "energy"),
    "long without season": (frame(noise(9_000)), "mamba", "sensor"),
    "daily": (MIDDLE, "mamba", "sensor"),
    "noise": (frame(noise(3_000)), "linear", "sensor"),
}


# The verdict


@pytest.mark.parametrize(("df", "verdict", "preset"), CASES.values(), ids=CASES)
def test_the_verdict_is_the_simplest_that_will_do(df, verdict, preset):
    advice = advise(df)
    assert (advice.verdict, advice.preset) == (verdict, preset)
    assert advice.preset in PRESETS
    assert len(advice.reasons) == 1


@pytest.mark.parametrize(("df", "verdict", "preset"), CASES.values(), ids=CASES)
def test_the_order_of_the_series_does_not_matter(df, verdict, preset):
    backwards = pl.concat(df.partition_by("unique_id")[::-1])
    assert advise(backwards) == advise(df)


@pytest.mark.parametrize(
    ("df", "reason"),
    [
        (frame(np.ones(99)), "The series never changes: its last value is the forecast."),
        (FLAT, "3 of 4 series never change: their last value is the forecast."),
        (
            frame(noise(900).cumsum()),
            "The series looks like a random walk: its last value is hard to beat.",
        ),
        (WALK, "75% of the series look like random walks: their last value is hard to beat."),
        (
            frame(daily(511)),
            "The series has 511 steps, and below 512 there is nothing for a Mamba to learn.",
        ),
        (
            SHORT,
            "The longest series has 400 steps, and below 512 there is nothing for a Mamba to "
            "learn.",
        ),
    ],
)
def test_a_concern_is_the_first_reason(df, reason):
    panel = read_panel(df)
    assert advise(df).reasons[0] == reason
    assert concern(panel, season=DAY, horizon=1) == reason


@pytest.mark.parametrize("df", [LONG, MIDDLE, frame(daily(512))], ids=["long", "middle", "least"])
def test_nothing_speaks_against_a_mamba_on_long_series(df):
    assert concern(read_panel(df), season=DAY, horizon=12) is None


@pytest.mark.parametrize(("horizon", "verdict"), [(None, "mamba"), (750, "mamba"), (751, "linear")])
def test_a_quarter_of_the_history_is_the_longest_horizon(horizon, verdict):
    advice = advise(MIDDLE, horizon)
    assert advice.verdict == verdict
    sentence = concern(read_panel(MIDDLE), season=DAY, horizon=horizon or 1)
    assert sentence == (advice.reasons[0] if verdict == "linear" else None)


def test_the_simplest_verdict_comes_first_and_no_reason_is_lost():
    advice = advise(frame(noise(300).cumsum()), horizon=200)
    assert advice.verdict == "naive"
    assert [reason.split()[2] for reason in advice.reasons] == ["looks", "has", "of"]


# Remarks


def remarks(df, horizon=None):
    return advise(df, horizon).reasons[1:]


def test_missing_steps_are_mentioned():
    y = daily(3_000)
    y[np.random.default_rng(1).random(3_000) < 0.4] = np.nan
    (sentence,) = remarks(frame(y))
    assert sentence.startswith("41% of the steps are missing; ")


def test_a_gap_of_more_than_a_season_is_mentioned():
    y = daily(3_000)
    y[100:124] = np.nan
    assert remarks(frame(y)) == ()
    y[124] = np.nan
    (sentence,) = remarks(frame(y))
    assert sentence.startswith("The longest gap is 25 steps, more than a season: ")


def test_bursts_are_mentioned():
    spread = np.where(np.arange(3_000) // 96 % 4, 1.0, 9.0)
    (sentence,) = remarks(frame(spread * daily(3_000), every=HOUR))
    assert sentence.startswith("The spread changes more than threefold ")


def test_a_short_series_among_long_ones_is_mentioned():
    (sentence,) = remarks(frame(daily(3_000), daily(100)))
    assert sentence.startswith("The shortest series has 100 steps; ")


@pytest.mark.parametrize(("horizon", "count"), [(93, 0), (94, 1), (750, 1), (751, 0)])
def test_too_few_horizons_for_training_are_mentioned(horizon, count):
    found = [sentence for sentence in remarks(MIDDLE, horizon) if "mode='full'" in sentence]
    assert len(found) == count


# The preset


def preset_of(every, length=9_000, deviation=0.3, season=DAY):
    y = np.sin(2 * np.pi * np.arange(length) / season) + deviation * noise(length)
    return choose_preset(examine(read_panel(frame(y, every=every)), season))


@pytest.mark.parametrize(("every", "season"), [(HOUR, 24), (HOUR / 4, 96)])
def test_a_day_of_hours_or_finer_is_energy(every, season):
    assert preset_of(every, season=season) == "energy"


def test_what_lacks_one_of_its_marks_is_sensor():
    assert preset_of(HOUR, length=8_191) == "sensor"
    assert preset_of(HOUR, deviation=3.0) == "sensor"
    assert preset_of(HOUR / 60, season=60) == "sensor"
    assert preset_of(2 * HOUR, season=12) == "sensor"
    assert preset_of(None) == "sensor"


# What comes in and goes out


def test_columns_and_wide_frames_are_taken_as_the_forecaster_takes_them():
    wide = pl.DataFrame({"time": range(900), "a": daily(900), "b": noise(900)})
    facts = advise(wide, time_col="time", target_col=["a", "b"], freq=1).facts
    assert (facts.n_series, facts.length) == (2, 900)


@pytest.mark.parametrize("horizon", [0, -1, 2.5, True, "a"])
def test_a_bad_horizon_is_refused_before_the_frame_is_read(horizon):
    with pytest.raises(HorizonError, match="pass a whole number of at least 1"):
        advise(None, horizon)


def test_what_the_forecaster_refuses_is_refused_in_the_same_words():
    uneven = pl.DataFrame({"ds": [1, 2, 3, 7], "y": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(FrequencyError) as error:
        advise(uneven, freq=2)
    with pytest.raises(FrequencyError) as expected:
        read_panel(uneven, freq=2)
    assert str(error.value) == str(expected.value)
    with pytest.raises(FrameError, match="'load'"):
        advise(uneven, target_col="load")


@pytest.mark.parametrize("df", [FLAT, SHORT, LONG], ids=["flat", "short", "long"])
def test_the_dictionary_survives_json(df):
    advice = advise(df)
    answer = advice.to_dict()
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert answer["facts"]["longest"] == advice.facts.longest
    assert tuple(answer["reasons"]) == advice.reasons


def test_printed_it_holds_everything_in_narrow_lines():
    advice = advise(frame(daily(9_000), daily(100), every=HOUR), 700)
    text = str(advice)
    assert [line.split()[0] for line in text.splitlines() if line[0] != " "] == [
        "verdict",
        "preset",
        "because",
        "expect",
        "facts",
    ]
    assert max(map(len, text.splitlines())) <= 100
    flowing = " ".join(text.split())
    for sentence in (*advice.reasons, *advice.expect):
        assert sentence in flowing
    for words in ("2 series of 100 to 9,000 (median 4,550) steps of 1h", "season of 24 steps"):
        assert words in flowing


# Real series


def test_the_documentation_shows_what_is_printed():
    text = (ROOT / "docs" / "presets.md").read_text(encoding="utf-8")
    assert f"```\n{advise(load_pjm_load(), 96)}\n```" in text


@pytest.mark.parametrize("horizon", [96, 336])
def test_the_bundled_load_asks_for_a_mamba(horizon):
    advice = advise(load_pjm_load(), horizon)
    assert (advice.verdict, advice.preset, len(advice.reasons)) == ("mamba", "energy", 1)


@pytest.mark.data
@pytest.mark.parametrize(
    ("fetch", "verdict", "preset"),
    [
        (fetch_ett, "mamba", "energy"),
        (fetch_exchange_rate, "naive", "finance"),
        (fetch_national_illness, "mamba", "sensor"),
        (lambda: fetch_beijing_pm25().select("ds", "pm2.5"), "mamba", "sensor"),
    ],
    ids=["ETTh1", "exchange", "illness", "PM2.5"],
)
def test_public_wide_sets(fetch, verdict, preset):
    df = fetch()
    advice = advise(df, target_col=df.columns[1:])
    assert (advice.verdict, advice.preset) == (verdict, preset)


@pytest.mark.data
def test_the_hourly_series_of_m4_have_a_season_and_too_few_horizons():
    advice = advise(fetch_m4_hourly()[0], 48)
    assert (advice.verdict, advice.preset) == ("mamba", "sensor")
    assert advice.reasons[1].startswith("960 steps hold 20 horizons of 48")
