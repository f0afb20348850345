"""Labels that hold at times, and answers at times."""

from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tsmamba import MambaClassifier, Training
from tsmamba.errors import FrameError, FrameWarning
from tsmamba.outcomes import lessons
from tsmamba.outcomes.scores import figures
from tsmamba.records import moments
from tsmamba.records.vocabulary import Vocabulary

KNOBS = Training(max_steps=20, lr=1e-2, ema_decay=0.9)


def quick(**parameters):
    given = {"preset": "tiny", "training": KNOBS, "random_state": 0}
    return MambaClassifier(**{**given, **parameters})


def hourly(records, every=2.0):
    """Return labels at times: whether the pulse has come above a level by then."""
    rows = []
    for subject, _ in records.labels.rows():
        pulse = records.of(subject).filter(code="HR").sort("time")
        for time in np.arange(pulse["time"][0], pulse["time"][-1], every):
            high = pulse.filter(pl.col("time") <= time)["numeric_value"].max() > 95
            rows.append((subject, float(time), int(high)))
    return pl.DataFrame(rows, ["subject_id", "time", "label"], orient="row")


@pytest.fixture(scope="module")
def taught(records):
    """Return a classifier of networks and trees, fitted on labels at times."""
    return quick().fit(records.events, hourly(records))


@pytest.fixture(scope="module")
def watcher(records):
    """Return one that can stream."""
    return quick(causal=True, base=None).fit(records.events, hourly(records))


@pytest.fixture(scope="module")
def asked(others):
    """Return moments of stays in no order."""
    return hourly(others, every=3.7).sample(fraction=1, shuffle=True, seed=3)


# What is answered at a time


@pytest.mark.parametrize("of", ["taught", "watcher", "fitted"])
def test_an_answer_is_that_of_the_events_so_far(of, others, asked, request):
    classifier = request.getfixturevalue(of)
    found = classifier.predict_proba(others.events, at=asked)
    assert_frame_equal(found.select("subject_id", "time"), asked.select("subject_id", "time"))
    for subject, time, _, p in found.head(30).rows():
        so_far = others.of(subject).filter(pl.col("time") <= time)
        alone = classifier.predict_proba(so_far)["p_1"].item()
        assert p == pytest.approx(alone, abs=1e-6)


def test_an_answer_is_that_of_the_stream(watcher, others, asked):
    found = watcher.predict_proba(others.events, at=asked)
    for subject, time, _, p in found.head(10).rows():
        stream = watcher.stream()
        so_far = others.of(subject).filter(pl.col("time") <= time).sort("time")
        for event in so_far.rows():
            told = stream.observe(*event)
        assert told.probabilities[1] == pytest.approx(p, abs=1e-5)


def test_what_comes_later_changes_no_answer(taught, others, asked):
    rng = np.random.default_rng(0)
    first = asked.group_by("subject_id").agg(pl.col("time").min())
    events = others.events.join(first, on="subject_id", suffix="_asked", maintain_order="left")
    later = pl.col("time") > pl.col("time_asked")
    noise = pl.col("numeric_value") * pl.Series(rng.uniform(0.85, 1.15, len(events)))
    changed = events.with_columns(
        numeric_value=pl.when(later).then(noise).otherwise("numeric_value"),
        time=pl.when(later).then(pl.col("time") + 0.5).otherwise("time"),
    ).select(others.events.columns)
    before, after = (taught.predict_proba(each, at=first) for each in (others.events, changed))
    assert_frame_equal(before, after, abs_tol=1e-9)
    whole = (taught.predict_proba(each)["p_1"] for each in (others.events, changed))
    assert (next(whole) - next(whole)).abs().max() > 0.01


def test_classes_and_scores_are_those_of_the_answers(taught, others, asked):
    probabilities = taught.predict_proba(others.events, at=asked)
    found = taught.predict(others.events, at=asked)
    assert found.columns == ["subject_id", "time", "label"]
    likely = probabilities["p_1"] > probabilities["p_0"]
    assert found["label"].to_list() == likely.cast(int).to_list()
    expected = figures(asked["label"].to_numpy(), probabilities.select("p_0", "p_1").to_numpy())
    for metric in ("accuracy", "auroc", "brier"):
        score = taught.score(others.events, asked, metric=metric)
        assert score == pytest.approx(expected[metric])
    assert expected["auroc"] > 0.75


def test_answers_come_in_the_frame_of_the_times(taught, others, asked):
    expected = taught.predict_proba(others.events, at=asked)
    to_pandas = lambda frame: pd.DataFrame(frame.to_dict(as_series=False))  # noqa: E731
    found = taught.predict_proba(to_pandas(others.events), at=to_pandas(asked))
    assert list(found.columns) == expected.columns
    np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())
    mixed = taught.predict_proba(others.events, at=to_pandas(asked))
    assert isinstance(mixed, pd.DataFrame)
    assert len(taught.predict_proba(others.events, at=asked.clear())) == 0


def test_stamps_and_durations_are_as_hours(taught, others, asked):
    expected = taught.predict_proba(others.events, at=asked)["p_1"]
    since = pl.duration(minutes=pl.col("time") * 60)
    for clock in (since, pl.lit(datetime(2030, 1, 1)) + since):
        # A time that was asked at may lie between minutes, which changes nothing.
        times = asked.with_columns((pl.col("time") * 60).floor() / 60)
        events, at = (each.with_columns(clock.alias("time")) for each in (others.events, times))
        np.testing.assert_allclose(taught.predict_proba(events, at=at)["p_1"], expected, atol=1e-6)


def test_before_any_measurement_the_answer_is_the_prior(taught, others):
    ids = others.labels["subject_id"].head(2)
    late = others.events.filter(
        ~pl.col("subject_id").is_in(ids.implode())
        | pl.col("code").is_in(["Age", "Gender"])
        | (pl.col("time") > 2)
    )
    at = pl.DataFrame({"subject_id": ids, "time": [1.0, 30.0]})
    said = "1 × a time without an earlier measurement, answered with the prior"
    with pytest.warns(FrameWarning, match=said):
        found = taught.predict_proba(late, at=at)
    assert found["p_1"][0] == taught.prior_[1] != found["p_1"][1]


def test_a_saved_classifier_answers_alike(taught, others, asked, tmp_path):
    taught.save(tmp_path / "risk")
    loaded = MambaClassifier.load(tmp_path / "risk")
    found, expected = (each.predict_proba(others.events, at=asked) for each in (loaded, taught))
    assert_frame_equal(found, expected, check_exact=True)


def test_parts_of_an_explanation_add_up_with_any_shares(taught, others, monkeypatch):
    ensemble = taught._ensemble
    monkeypatch.setitem(vars(ensemble), "shares", np.array([0.3, 0.7]))
    stay = others.of(others.labels["subject_id"][0])
    usual = {c: scale.usual for c, scale in taught._reader.vocabulary.codes.items()}
    usual["Age"] = taught._reader.vocabulary.statics["Age"].scale.usual
    plain = stay.filter(pl.col("code").is_in(list(usual))).with_columns(
        numeric_value=pl.col("code").replace_strict(usual)
    )
    p, q = (taught.predict_proba(each)["p_1"].item() for each in (stay, plain))
    difference = np.log(p / (1 - p)) - np.log(q / (1 - q))
    parts = taught.explain(stay)["contribution"].sum()
    assert parts == pytest.approx(difference, abs=0.01)


# What is learned from labels at times


@pytest.mark.parametrize("base", ["boosting", None])
def test_the_order_of_labels_and_repeated_rows_do_not_matter(records, others, base):
    labels = hourly(records)
    mixed = pl.concat([labels, labels.head(9)]).sample(fraction=1, shuffle=True, seed=1)
    one, other = (quick(base=base).fit(records.events, each) for each in (labels, mixed))
    found, expected = (each.predict_proba(others.events) for each in (other, one))
    assert_frame_equal(found, expected, check_exact=True)


def test_a_fit_does_not_see_what_comes_after_its_labels(records, others, monkeypatch):
    """But for the scales of codes, which are those of all events and are held here."""
    labels = hourly(records).filter(pl.col("time") < 6)
    last = labels.group_by("subject_id").agg(pl.col("time").max().alias("last"))
    events = records.events.join(last, on="subject_id", maintain_order="left")
    later = pl.col("time") > pl.col("last")
    turned = pl.when(later).then(pl.col("numeric_value").reverse().over("code", later))
    changed = events.with_columns(turned.otherwise("numeric_value")).drop("last")
    assert not changed.equals(records.events)
    one = quick(base=None).fit(records.events, labels)
    monkeypatch.setattr(Vocabulary, "learn", lambda *_: one._reader.vocabulary)
    other = quick(base=None).fit(changed, labels)
    found, expected = (each.predict_proba(others.events) for each in (other, one))
    assert_frame_equal(found, expected, check_exact=True)


def test_memory_is_bounded_without_changing_a_fit(records, others, asked, taught, monkeypatch):
    expected = taught.predict_proba(others.events, at=asked)
    monkeypatch.setattr(moments, "_MOST", 500)
    found = quick().fit(records.events, hourly(records)).predict_proba(others.events, at=asked)
    assert_frame_equal(found, expected, abs_tol=1e-6)


def test_probabilities_are_right_where_few_labels_are_drawn(records, others, monkeypatch):
    """What is drawn is balanced; what is said is not."""
    labels = hourly(records, every=0.25).with_columns(
        label=(pl.col("label") == 1) & (pl.col("time") > 16)
    )
    drawn = []

    def watched(classes, size):
        drawn.append(lessons.draw(classes, 120))
        return drawn[-1]

    monkeypatch.setattr("tsmamba.outcomes.base.draw", watched)
    classifier = quick().fit(records.events, labels)
    assert classifier.report_["drawn"] == len(drawn[0][0]) < len(labels) / 8
    assert classifier.report_["labels"] == len(labels)
    share = labels["label"].mean()
    assert classifier.prior_[1] == pytest.approx(share, abs=1e-3)
    assert share < 0.25
    said = classifier.predict_proba(records.events, at=labels)["p_True"].mean()
    assert said == pytest.approx(share, abs=0.05)


def test_subjects_are_never_in_two_folds(records, monkeypatch):
    seen = []
    folds = lessons.Lessons.folds

    def watched(self, count, strata):
        for inside, outside in folds(self, count, strata):
            seen.append(set(self.subjects[inside]) & set(self.subjects[outside]))
            yield inside, outside

    monkeypatch.setattr(lessons.Lessons, "folds", watched)
    quick(base=None).fit(records.events, hourly(records))
    assert seen == [set(), set()]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda y: y.drop("label"), "labels have no column 'label', but 'subject_id', 'time'"),
        (lambda y: y.with_columns(subject_id=pl.col("subject_id") - 1), "are of stays without"),
        (lambda y: y.with_columns(time=pl.col("time") - 5), "before the start of their stay"),
        (lambda y: y.with_columns(time=pl.lit(None, pl.Float64)), r"rows have no time: 1000 at No"),
        (
            lambda y: y.with_columns(label=pl.when(pl.col("time") > 9).then("label")),
            r"rows have no label: 1000 at \d+.*; drop them",
        ),
        (
            lambda y: pl.concat([y, y.tail(1).with_columns(label=1 - pl.col("label"))]),
            r"labels differ for stay 1059 at \d+.*; keep one for each time of a stay",
        ),
        (lambda y: y.with_columns(label=(pl.col("subject_id") == 1000).cast(int)), "has 1 stays"),
        (lambda y: y.with_columns(label=0), "all labels are 0; a classifier needs two classes"),
    ],
    ids=range(8),
)  # fmt: skip
def test_labels_at_times_that_cannot_be_used_are_refused(records, bad, message):
    with pytest.raises(FrameError, match=message):
        quick(base=None).fit(records.events, bad(hourly(records)))


def test_times_that_cannot_be_asked_at_are_refused(taught, others, asked):
    for method in (taught.predict, taught.predict_proba):
        with pytest.raises(FrameError, match=r"1 of 1 rows are of stays without events: 5 at 1\.0"):
            method(others.events, at=pl.DataFrame({"subject_id": [5], "time": [1.0]}))
        with pytest.raises(FrameError, match="frame of times has no column 'time'"):
            method(others.events, at=asked.drop("time"))
