from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from tsmamba import MambaDetector
from tsmamba.errors import CheckpointError, ModelFileError, ParameterError
from tsmamba.serving.app.messages import Row
from tsmamba.serving.app.rows import RowEngine


def read(rows):
    return [Row.model_validate(row) for row in rows]


def told(results):
    return [result.model_dump() for result in results]


def assert_same(results, wanted):
    """Compare answers; chunks of another size may differ in the last digits of a double."""
    numbers = ("score", "p_value", "contributions")
    for result, want in zip(results, wanted, strict=True):
        assert {k: v for k, v in result.items() if k not in numbers} == {
            k: v for k, v in want.items() if k not in numbers
        }
        for name in numbers:
            if want[name] is None:
                assert result[name] is None
            else:
                assert result[name] == pytest.approx(want[name], rel=1e-9, abs=1e-12)


@pytest.fixture
def engine(pumps):
    return RowEngine(pumps, max_series=10)


def expected(detector, rows):
    """Return what the stream of the detector says of the rows of one series, all at once."""
    values = np.array([list(row["values"].values()) for row in rows], dtype=float)
    times = [datetime.fromisoformat(row["time"]) for row in rows]
    return [
        {
            "series": "p",
            "time": time,
            "status": want.status,
            "score": want.score,
            "p_value": want.p_value,
            "is_anomaly": want.is_anomaly,
            "contributions": None
            if want.channel_contrib is None
            else dict(zip(("flow", "heat"), want.channel_contrib.tolist(), strict=True)),
            "scored_time": want.t,
        }
        for time, want in zip(
            times, detector.stream().score_many(values, times, key="p"), strict=True
        )
    ]


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("size", [1, 7, 400])
def test_results_are_those_of_the_stream_however_rows_are_sent(make_pumps, make_rows, delay, size):
    detector = make_pumps(delay=delay)
    engine = RowEngine(detector, max_series=10)
    rows = make_rows("p", 200, seed=2)
    del rows[120:130]
    sent = read(rows)
    results = [each for i in range(0, len(sent), size) for each in engine.score(sent[i : i + size])]
    wanted = expected(detector, rows)
    assert sum(want["is_anomaly"] for want in wanted) >= 1
    assert_same(told(results), wanted)


def test_series_do_not_know_of_each_other(pumps, make_rows):
    rows = {name: read(make_rows(name, 60, seed)) for seed, name in enumerate("abc")}
    alone = {name: told(RowEngine(pumps, 10).score(part)) for name, part in rows.items()}
    engine = RowEngine(pumps, 10)
    # Row by row of all of them, so that they are scored at once.
    together = [each for moment in zip(*rows.values(), strict=True) for each in moment]
    results = told(engine.score(together[:90])) + told(
        each for i in range(90, 180, 3) for each in engine.score(together[i : i + 3])
    )
    for name, part in alone.items():
        assert_same([result for result in results if result["series"] == name], part)


def test_a_row_that_is_not_newer_is_a_duplicate_and_changes_nothing(pumps, make_rows):
    rows = read(make_rows("p", 100))
    whole, engine = (RowEngine(pumps, 10) for _ in range(2))
    wanted = told(whole.score(rows))
    engine.score(rows[:50])
    again = engine.score([*rows[20:40], *rows[:3]])
    assert {result.status for result in again} == {"duplicate"}
    assert {result.score for result in again} == {None}
    overlapping = told(engine.score(rows[40:]))
    assert [each["status"] for each in overlapping[:10]] == ["duplicate"] * 10
    assert_same(overlapping[10:], wanted[50:])


def test_a_row_twice_in_a_request_is_scored_once(engine, make_rows):
    rows = read(make_rows("p", 4))
    results = engine.score([rows[0], rows[0], rows[2], rows[1], rows[3]])
    assert [result.status == "duplicate" for result in results] == [False, True, False, True, False]


def test_the_series_not_used_for_longest_goes_first(pumps, make_rows):
    engine = RowEngine(pumps, max_series=2)
    sent = {name: read(make_rows(name, 3)) for name in "abc"}
    for name in "abac":
        engine.score([sent[name].pop(0)])
    assert (engine.n_series, engine.evicted) == (2, 1)
    # b began anew: its first row is no duplicate any more.
    [b] = engine.score(read(make_rows("b", 3))[:1])
    assert b.status == "warmup"
    assert engine.evicted == 2


def test_more_series_than_are_kept_are_refused_in_one_request(pumps, make_rows):
    engine = RowEngine(pumps, max_series=2)
    rows = [row for name in "abc" for row in read(make_rows(name, 3)[:1])]
    with pytest.raises(ParameterError, match=r"3 series in one request, and 2 are kept; .*--max-s"):
        engine.score(rows)
    assert engine.n_series == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": {"flow": 1.0}}, r"series 'p', time 2026.*the values lack \['heat'\]; the mod"),
        ({"values": {"flow": 1.0, "heat": 0.0, "x": 0.0}}, r"have \['x'\]; the model takes"),
        ({"time": 1_772_323_200}, "a number does not say its unit, seconds, milliseconds"),
    ],
)
def test_one_row_that_does_not_fit_refuses_all(pumps, make_rows, change, message):
    rows = make_rows("p", 20)
    engine, other = (RowEngine(pumps, 10) for _ in range(2))
    engine.score(read(rows[:10]))
    other.score(read(rows[:10]))
    with pytest.raises(ParameterError, match=message):
        engine.score(read([*rows[10:19], rows[19] | change]))
    assert told(engine.score(read(rows[10:]))) == told(other.score(read(rows[10:])))


def test_a_detector_of_numbered_rows_takes_integers_alone():
    frame = pl.DataFrame({"ds": range(300), "x": np.sin(np.arange(300) / 3)})
    engine = RowEngine(MambaDetector(memory_size=48).fit(frame), 10)
    assert engine.columns()["time"] == "integers"
    row = {"series": "p", "time": 5, "values": {"x": 0.0}}
    assert engine.score(read([row]))[0].time == 5
    with pytest.raises(ParameterError, match="fitted on integers as times; send integers"):
        engine.score(read([row | {"time": "2026-03-31T00:00:00Z"}]))


def test_channels_of_an_array_are_numbered(tiny_array):
    engine = RowEngine(tiny_array, 10)
    assert engine.columns() == {"values": ["0", "1"], "time": "ISO 8601 text"}
    [result] = engine.score(
        read([{"series": "p", "time": "2026-03-31", "values": {"0": 9.0, "1": 0.0}}])
    )
    assert result.is_anomaly
    assert list(result.contributions) == ["0", "1"]


@pytest.fixture(scope="module")
def tiny_array():
    return MambaDetector(preset="tiny").fit(np.random.default_rng(0).normal(size=(300, 2)))


def test_huge_values_give_finite_answers(tiny_array):
    values = {"0": 1e308, "1": -1e308}
    rows = [{"series": "p", "time": "2026-03-31", "values": values}]
    [result] = RowEngine(tiny_array, 10).score(read(rows))
    assert result.is_anomaly
    assert np.isfinite(result.score)


def test_a_checkpoint_goes_on_bit_for_bit(pumps, make_rows, tmp_path):
    rows = read(make_rows("a", 90) + make_rows("b", 90, seed=3))
    whole, first, second = (RowEngine(pumps, 10) for _ in range(3))
    wanted = told(whole.score(rows[:60])) + told(whole.score(rows[60:]))
    first.open(tmp_path / "state")
    results = told(first.score(rows[:60]))
    first.save()
    first.score(rows[60:])  # lost, as by a crash
    first.close()
    second.open(tmp_path / "state")
    assert results + told(second.score(rows[60:])) == wanted


def test_a_checkpoint_of_another_detector_is_refused_or_replaced(pumps, make_pumps, tmp_path):
    engine = RowEngine(pumps, 10)
    engine.open(tmp_path / "state")
    engine.close()
    other = RowEngine(make_pumps(seed=5), 10)
    with pytest.raises(ModelFileError, match="holds streams of another detector"):
        other.open(tmp_path / "state")
    other.open(tmp_path / "state", anew=True)
    other.close()
    RowEngine(make_pumps(seed=5), 10).open(tmp_path / "state")


def test_a_place_that_cannot_be_written_is_refused_at_once(engine, tmp_path):
    with pytest.raises(CheckpointError, match="there is no folder"):
        engine.open(tmp_path / "no folder" / "state")


def test_one_process_at_a_time_uses_a_checkpoint(pumps, make_rows, tmp_path):
    first, second = RowEngine(pumps, 10), RowEngine(pumps, 10)
    first.open(tmp_path / "state")
    with pytest.raises(CheckpointError, match="in use by another process"):
        second.open(tmp_path / "state")
    first.score(read(make_rows("p", 10)))
    first.close()
    second.open(tmp_path / "state")


def test_rows_far_apart_are_a_gap(pumps, make_rows):
    engine = RowEngine(pumps, 10)
    rows = make_rows("p", 100)
    engine.score(read(rows[:99]))
    late = datetime.fromisoformat(rows[98]["time"]) + timedelta(days=365_000)
    [result] = engine.score(read([rows[99] | {"time": late.isoformat()}]))
    assert result.status == "warmup"
