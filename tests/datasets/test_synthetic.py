from collections.abc import Callable
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from tsmamba_datasets import make_anomalies, make_irregular, make_long_memory, make_seasonal
from tsmamba_datasets.errors import DatasetError

MAKERS: list[Callable[..., pl.DataFrame]] = [
    make_seasonal,
    make_anomalies,
    make_long_memory,
    make_irregular,
]
LENGTH = 6_000


@pytest.fixture(params=MAKERS, ids=lambda maker: maker.__name__)
def maker(request: pytest.FixtureRequest) -> Callable[..., pl.DataFrame]:
    return request.param


def test_same_seed_same_series(maker) -> None:
    one, two = (maker(n_series=2, length=LENGTH, seed=5) for _ in range(2))
    assert one.equals(two)
    assert not one.equals(maker(n_series=2, length=LENGTH, seed=6))


def test_series_do_not_depend_on_how_many_are_made(maker) -> None:
    few = maker(n_series=2, length=LENGTH)
    many = maker(n_series=5, length=LENGTH)
    assert few.equals(many.filter(pl.col("unique_id").is_in(["s0", "s1"])))
    assert not np.array_equal(few["y"][:LENGTH], few["y"][LENGTH:])


def test_frames_are_long_sorted_and_unique(maker) -> None:
    frame = maker(n_series=11, length=LENGTH)
    assert frame.columns[:3] == ["unique_id", "ds", "y"]
    assert frame["unique_id"].dtype == pl.String
    assert frame["ds"].dtype in (pl.Datetime("us"), pl.Int64)
    assert frame["y"].dtype == pl.Float64
    assert frame["y"].is_finite().all()
    assert frame.height == 11 * LENGTH
    assert frame["unique_id"].unique(maintain_order=True).to_list() == [
        f"s{number:02d}" for number in range(11)
    ]
    assert frame.select("unique_id", "ds").is_unique().all()
    assert frame.equals(frame.sort("unique_id", "ds"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_series": 0}, "n_series=0 is out of range; accepted: finite numbers from 1 up"),
        ({"length": 0}, "length=0 is out of range"),
        ({"seed": -1}, "seed=-1 is out of range"),
        ({"freq": "hourly"}, "time step 'hourly' cannot be read.*Pass for instance '1h'"),
        ({"freq": "0h"}, "time step '0h' cannot be read"),
        ({"noise": float("nan")}, "noise=nan is out of range"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        make_seasonal(**arguments)


def test_maker_specific_limits() -> None:
    with pytest.raises(DatasetError, match=r"length=700 is out of range.*from 800 up"):
        make_anomalies(length=700)
    with pytest.raises(DatasetError, match="kinds='peak' is unknown; accepted: 'spike'"):
        make_anomalies(kinds=["peak"])
    with pytest.raises(DatasetError, match=r"len\(kinds\)=0 is out of range"):
        make_anomalies(kinds=[])
    with pytest.raises(DatasetError, match=r"length=4096 is out of range.*from 4097 up"):
        make_long_memory(length=4_096)
    with pytest.raises(DatasetError, match="delay=15 is out of range"):
        make_long_memory(delay=15)
    with pytest.raises(DatasetError, match="time step 'x' cannot be read"):
        make_irregular(mean_gap="x")


def test_seasonal_repeats_each_week_without_noise() -> None:
    y = make_seasonal(length=24 * 21, noise=0.0, trend=0.0)["y"].to_numpy()
    np.testing.assert_allclose(y[168:], y[:-168], atol=1e-9)
    assert np.abs(y[24:] - y[:-24]).max() > 1.0
    only_daily = make_seasonal(length=96, noise=0.0, trend=0.0, weekly=0.0)["y"].to_numpy()
    np.testing.assert_allclose(only_daily[24:], only_daily[:-24], atol=1e-9)


def test_seasonal_trend_is_a_day() -> None:
    y = make_seasonal(length=24 * 8, noise=0.0, trend=3.0)["y"].to_numpy()
    np.testing.assert_allclose(y[168:] - y[:-168], 21.0, atol=1e-9)


def test_seasonal_noise_is_autoregressive() -> None:
    noise = make_seasonal(length=50_000, daily=0.0, weekly=0.0, trend=0.0, noise=2.0)["y"]
    noise = noise.to_numpy() - noise.mean()
    assert noise.std() == pytest.approx(2.0, rel=0.05)
    for lag in (1, 3):
        correlation = np.corrcoef(noise[lag:], noise[:-lag])[0, 1]
        assert correlation == pytest.approx(0.8**lag, abs=0.03)


@pytest.mark.parametrize(
    ("freq", "step"), [("30s", 30), ("15m", 900), ("2h", 7_200), ("1d", 86_400), ("1w", 604_800)]
)
def test_seasonal_stamps_follow_the_time_step(freq: str, step: int) -> None:
    ds = make_seasonal(length=50, freq=freq)["ds"]
    assert ds[0] == datetime(2020, 1, 6)
    assert ds.diff().drop_nulls().unique().to_list() == [timedelta(seconds=step)]


def test_anomalies_are_counted_apart_and_after_the_normal_part() -> None:
    frame = make_anomalies(n_series=3, length=5_000, n_anomalies=10)
    assert (frame["label"] == frame["kind"].is_not_null()).all()
    for series in frame.partition_by("unique_id"):
        starts = series["label"] & ~series["label"].shift(1, fill_value=False)
        assert starts.sum() == 10
        assert not series["label"][:1_000].any()
        assert not series["label"][-1]
        widths = series.with_columns(run=starts.cum_sum()).filter("label").group_by("run", "kind")
        for (_, kind), run in widths:
            assert run.height == 1 if kind == "spike" else 20 <= run.height <= 60


def test_anomalies_change_only_labelled_rows() -> None:
    strong = make_anomalies(length=3_000, strength=50.0, seed=2)
    weak = make_anomalies(length=3_000, strength=0.0, seed=2)
    assert strong["kind"].equals(weak["kind"])
    moved = strong["y"] != weak["y"]
    assert not (moved & ~strong["label"]).any()
    size = (strong["y"] - weak["y"]).abs()
    assert size.filter(strong["kind"].is_in(["spike", "shift"])).to_list() == pytest.approx(
        [50.0] * strong["kind"].is_in(["spike", "shift"]).sum()
    )
    flat = strong.filter(pl.col("kind") == "flat").group_by(pl.col("ds").dt.date())
    assert all(day["y"].n_unique() <= 2 for _, day in flat)


def test_kinds_are_taken_in_turn() -> None:
    frame = make_anomalies(n_anomalies=4, kinds=["flat", "spike"], length=2_000)
    runs = frame["kind"].rle().struct.field("value").drop_nulls()
    assert runs.to_list() == ["flat", "spike", "flat", "spike"]


def test_long_memory_level_has_the_sign_of_its_cue() -> None:
    delay = 512
    frame = make_long_memory(n_series=6, length=4_000, delay=delay, seed=1)
    cue, level = frame["cue"].to_numpy(), frame["level"].to_numpy()
    cue, level = cue.reshape(6, -1), level.reshape(6, -1)
    for start in range(0, 4_000 - delay - delay // 4, delay + delay // 4):
        assert (np.abs(cue[:, start : start + 4]) == 5.0).all()
        assert (cue[:, start + 4 : start + delay] == 0.0).all()
        assert (level[:, start : start + delay] == 0.0).all()
        told = level[:, start + delay : start + delay + delay // 4]
        assert (told == cue[:, [start]]).all()
    assert set(np.unique(cue)) == {-5.0, 0.0, 5.0}


def test_long_memory_noise_is_all_that_is_added() -> None:
    frame = make_long_memory(n_series=1, length=20_000, noise=0.25)
    rest = (frame["y"] - frame["cue"] - frame["level"]).to_numpy()
    assert rest.std() == pytest.approx(0.25, rel=0.05)
    assert abs(rest.mean()) < 0.01


def test_irregular_gaps_have_the_asked_mean_and_spread() -> None:
    frame = make_irregular(length=50_000, mean_gap="10m")
    gaps = frame["ds"].diff().drop_nulls().dt.total_microseconds().to_numpy() / 6e7
    assert gaps.min() > 0
    assert gaps.mean() == pytest.approx(10.0, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(2**0.5, rel=0.05)


def test_irregular_values_follow_the_time_of_day() -> None:
    frame = make_irregular(length=20_000, noise=0.0)
    seconds = frame["ds"].dt.hour().cast(pl.Int64) * 60 + frame["ds"].dt.minute()
    spread = frame.group_by(seconds.alias("minute")).agg(pl.col("y").max() - pl.col("y").min())
    # Within one minute of the day the season moves by less than 2 pi / 1440 times its slope.
    assert spread["y"].max() < 0.1
