from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
import torch

from tsmamba import MambaClassifier
from tsmamba.errors import FrameError, ParameterError

START = datetime(2024, 3, 1, 8, 5)
TOLERANCE = {"rtol": 0, "atol": 1e-5}


def told(classifier, rows):
    """Return what the classifier says of the events of one stay."""
    names = ["subject_id", "time", "code", "numeric_value"]
    answer = classifier.predict_proba(pl.DataFrame(rows, names, orient="row", strict=False))
    return answer.drop("subject_id").row(0)


def check(classifier, rows):
    """Feed events to a stream, all stays interleaved, and compare after each."""
    stream, so_far = classifier.stream(), {}
    for row in rows:
        so_far.setdefault(row[0], []).append(row)
        risk = stream.observe(*row)
        if risk.status == "prior":
            np.testing.assert_array_equal(risk.probabilities, classifier.prior_)
            continue
        assert risk.status == "ok"
        np.testing.assert_allclose(
            risk.probabilities, told(classifier, so_far[row[0]]), **TOLERANCE
        )
    return stream


def interleaved(records, stays=3, per_stay=12):
    """Return the first events of some stays in order of time, statics first."""
    order = pl.col("code").is_in(["Age", "Gender"])
    return (
        records.events.sort("time", ~order, maintain_order=True)
        .filter(pl.col("subject_id") < 1_000 + stays)
        .filter(pl.int_range(pl.len()).over("subject_id") < per_stay)
        .rows()
    )


@pytest.mark.parametrize("of", ["causal", "of_three"])
def test_a_stream_says_what_the_classifier_says_of_the_events_so_far(of, others, request):
    classifier = request.getfixturevalue(of)
    stream = check(classifier, interleaved(others))
    assert len(stream) == 3
    assert [stream.observe(1_000, 0.0, "Age", 50.0).status] == ["late"]


def test_events_of_one_bin_may_come_in_any_order(causal, others):
    rows = others.of(1_000).sort("time").rows()
    width = causal._reader.width
    by_bin = sorted(rows, key=lambda row: (np.ceil(row[1] / width - 1e-9), -row[1]))
    check(causal, by_bin[:14])


@pytest.mark.parametrize(
    "time",
    [
        lambda hours: START + timedelta(hours=hours),
        lambda hours: (START + timedelta(hours=hours)).replace(tzinfo=UTC),
        lambda hours: timedelta(hours=hours),
    ],
    ids=["stamps", "zoned", "durations"],
)
def test_stamps_and_durations_are_as_good_as_hours(causal, others, time):
    rows = interleaved(others, stays=2)
    stamped = [(key, time(hours), code, value) for key, hours, code, value in rows]
    check(causal, stamped[::3])
    streams = causal.stream(), causal.stream()
    for one, other in zip(rows, stamped, strict=True):
        found, expected = streams[0].observe(*one), streams[1].observe(*other)
        np.testing.assert_array_equal(found.probabilities, expected.probabilities)


def test_bins_may_be_skipped(causal):
    check(causal, [(1, t, "HR", 80.0 + t % 7) for t in (0.0, 0.4, 9.0, 9.1, 300.0, 301.5)])


def test_before_the_first_measurement_the_prior_is_told(causal):
    stream = causal.stream()
    for event in ((0.0, "Age", 70.0), (0.0, "Gender", 1.0)):
        risk = stream.observe(7, *event)
        assert risk.status == "prior"
        np.testing.assert_array_equal(risk.probabilities, causal.prior_)
    assert stream.observe(7, 0.0, "HR", 90.0).status == "ok"


def test_what_is_known_at_the_start_may_come_in_any_order_but_not_late(causal):
    rows = [
        (1, 0.0, "HR", 90.0),
        (1, 0.0, "Age", 81.0),
        (1, 0.0, "Age", 80.0),
        (1, 0.2, "HR", 91.0),
    ]
    stream = check(causal, rows)
    before = stream.observe(1, 5.0, "HR", 92.0).probabilities
    risk = stream.observe(1, 0.0, "Gender", 1.0)
    assert risk.status == "late"
    np.testing.assert_array_equal(risk.probabilities, before)
    assert stream.observe(2, 1.0, "Age", 60.0).status == "late"


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ((3.0, "HR", 90.0), "repeated"),
        ((0.5, "HR", 90.0), "late"),
        ((3.0, "HR", 9_000.0), "out of range"),
        ((-1.0, "HR", 90.0), "out of range"),
        ((1e6, "HR", 90.0), "out of range"),
        ((3.0, "Shoe size", 43.0), "unknown code"),
        ((4.0, "Age", 43.0), "late"),
    ],
)
def test_an_event_that_cannot_count_changes_nothing_and_says_why(causal, event, status):
    stream, other = causal.stream(), causal.stream()
    for each in (stream, other):
        before = each.observe(1, 3.0, "HR", 90.0)
    risk = stream.observe(1, *event)
    assert risk.status == status
    np.testing.assert_array_equal(risk.probabilities, before.probabilities)
    risks = [each.observe(1, 8.0, "Temp", 38.0).probabilities for each in (stream, other)]
    np.testing.assert_array_equal(*risks)


def test_a_stamp_before_the_first_is_out_of_range(causal):
    stream = causal.stream()
    stream.observe(1, START, "HR", 90.0)
    assert stream.observe(1, START - timedelta(minutes=1), "HR", 90.0).status == "out of range"


def test_other_units_are_converted(causal):
    risks = [causal.stream().observe(1, 0.0, "Temp", value) for value in (100.4, 38.0)]
    np.testing.assert_allclose(risks[0].probabilities, risks[1].probabilities, atol=1e-9)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ((0.0, "HR", None), "'HR' has the value None; pass a finite number"),
        ((0.0, "HR", float("nan")), "'HR' has the value nan"),
        ((0.0, "HR", float("inf")), "'HR' has the value inf"),
        ((0.0, "HR", 1e39), "'HR' has the value"),
        ((0.0, "HR", "fast"), "'HR' has the value 'fast'; pass a finite number"),
        ((0.0, "HR", [80.0]), "'HR' has the value"),
        ((0.0, "HR", 10**400), "'HR' has the value"),
        ((float("nan"), "HR", 80.0), "nan is not a time; pass a stamp, a duration"),
        ((None, "HR", 80.0), "None is not a time"),
        (("noon", "HR", 80.0), "is of type String; pass stamps"),
    ],
)
def test_a_refused_event_leaves_the_stream_as_it_was(causal, event, message):
    stream = causal.stream()
    stream.max_stays = 1
    stream.observe(1, 0.0, "HR", 80.0)
    with pytest.raises(FrameError, match=message):
        stream.observe(2, *event)
    assert len(stream) == 1
    assert stream.observe(1, 0.0, "HR", 80.0).status == "repeated"


@pytest.mark.parametrize("value", [80, np.float32(80), Decimal(80), "80", np.int8(80)])
def test_any_kind_of_number_will_do(causal, value):
    found, expected = (causal.stream().observe(1, 0.0, "HR", v) for v in (value, 80.0))
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)


def test_codes_without_a_time_or_a_value_stream_too(records):
    """As in MEDS, where age and sex have no time, and what happens has no value."""
    at_start = pl.col("code").is_in(["Age", "Gender"])
    events = records.events.with_columns(pl.when(~at_start).then("time").alias("time"))
    falls = records.events.filter(pl.col("code") == "Lactate").with_columns(
        pl.lit("FALL").alias("code"), pl.lit(None, pl.Float64).alias("numeric_value")
    )
    classifier = MambaClassifier(preset="tiny", causal=True, base=None, random_state=0)
    classifier.fit(pl.concat([events, falls]), records.labels)
    assert "FALL" in classifier.codes_
    check(
        classifier,
        [
            (1, None, "Age", 80.0), (1, 0.0, "HR", 80.0), (1, 0.0, "FALL", None),
            (1, None, "Gender", 1.0), (1, 7.0, "FALL", None), (1, 7.0, "Temp", 38.0),
        ],
    )  # fmt: skip


def test_the_quietest_stay_is_forgotten_when_there_are_too_many(causal):
    stream = causal.stream()
    stream.max_stays = 2
    for key in (1, 2):
        stream.observe(key, 0.0, "HR", 90.0)
    stream.observe(1, 1.0, "HR", 91.0)
    stream.observe(3, 0.0, "HR", 90.0)
    assert len(stream) == 2
    assert stream.observe(1, 1.0, "HR", 91.0).status == "repeated"
    assert stream.observe(2, 0.0, "HR", 90.0).status == "ok"


def test_a_stay_that_is_forgotten_starts_anew(causal):
    stream = causal.stream()
    first = stream.observe("a", 0.0, "HR", 90.0)
    stream.observe("a", 5.0, "HR", 150.0)
    stream.forget("a")
    stream.forget("never seen")
    assert len(stream) == 0
    np.testing.assert_array_equal(
        stream.observe("a", 0.0, "HR", 90.0).probabilities, first.probabilities
    )


def nbytes(value):
    """Return the bytes of all that is kept of a stay."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(nbytes, value.values()))
    if isinstance(value, list | set | tuple):
        return sum(map(nbytes, value))
    return sum(map(nbytes, vars(value).values())) if hasattr(value, "__dict__") else 8


def test_a_stay_takes_the_same_room_however_long_it_is(causal):
    stream = causal.stream()
    sizes = set()
    for hour in range(0, 200, 2):
        stream.observe(1, float(hour), "HR", 80.0 + hour % 7)
        stream.observe(1, float(hour), "Temp", 37.0)
        if hour:
            sizes.add(nbytes(stream._stays[1]))
    assert len(sizes) == 1


def test_streams_of_one_classifier_do_not_meet(causal):
    one, other = causal.stream(), causal.stream()
    one.observe(1, 0.0, "HR", 150.0)
    first = other.observe(1, 0.0, "HR", 80.0).probabilities
    np.testing.assert_array_equal(causal.stream().observe(1, 0.0, "HR", 80.0).probabilities, first)


@pytest.mark.parametrize(("causal_", "base"), [(True, "boosting"), (False, None)])
def test_what_cannot_stream_says_so(fitted, causal_, base):
    classifier = MambaClassifier(causal=causal_, base=base)
    vars(classifier).update({k: v for k, v in vars(fitted).items() if k.endswith("_")})
    with pytest.raises(ParameterError, match=r"fit MambaClassifier\(causal=True, base=None\)"):
        classifier.stream()
