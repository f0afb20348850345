"""What is refused, with which words, and that nothing is changed by it."""

from datetime import date

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.exceptions import NotFittedError

from tsmamba import MambaClassifier, Training
from tsmamba.errors import FrameError, ParameterError


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"preset": "huge"}, "preset='huge'; pass one of 'auto', 'tiny'"),
        ({"preset": None}, "preset=None; pass one of"),
        ({"base": "trees"}, "base='trees'; pass 'boosting' or None"),
        ({"causal": "yes"}, "causal='yes'; pass True or False"),
        ({"causal": 1}, "causal=1; pass True or False"),
        ({"n_bins": 0}, "n_bins=0; pass a whole number of at least 1"),
        ({"n_bins": 2.5}, "n_bins=2.5; pass a whole number"),
        ({"n_bins": None}, "n_bins=None; pass a whole number"),
        ({"max_codes": 0}, "max_codes=0; pass a whole number of at least 1"),
        ({"max_codes": None}, "max_codes=None; pass a whole number"),
        ({"random_state": -1}, "random_state=-1; pass a whole number of at least 0"),
        ({"random_state": "seed"}, "random_state='seed'"),
        ({"training": {"lr": 1}}, r"training=\{'lr': 1\}; pass a tsmamba.Training or None"),
        ({"training": Training(lr=-1)}, "lr=-1"),
    ],
    ids=str,
)
def test_parameters_out_of_range_are_refused(records, parameters, message):
    with pytest.raises(ParameterError, match=message):
        MambaClassifier(**parameters).fit(*records)


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_an_unfitted_classifier_says_so(others, method, tmp_path):
    classifier = MambaClassifier()
    for call in (
        lambda: getattr(classifier, method)(others.events),
        lambda: classifier.score(*others),
        classifier.stream,
        lambda: classifier.save(tmp_path / "risk"),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call()
    assert not list(tmp_path.iterdir())


ID = pl.col("subject_id")
BAD_FITS = {
    "no time": (lambda e: e.drop("time"), lambda y: y, "no column 'time'"),
    "no rows": (lambda e: e.clear(), lambda y: y, "the frame has no rows"),
    "text times": (lambda e: e.cast({"time": pl.String}), lambda y: y, "is of type String"),
    "an array": (lambda e: e.to_numpy(), lambda y: y, "expected a polars DataFrame"),
    "no labels": (lambda e: e, lambda y: y.head(50), "10 of 60 stays have no label: 1050, 1051"),
    "an array of labels": (lambda e: e, lambda y: y["label"].to_numpy(), "expected a polars"),
    "two labels": (
        lambda e: e,
        lambda y: pl.concat([y, y.head(1).with_columns(label=1 - pl.col("label"))]),
        "stay 1000 has 2 labels in 'label'; keep one for each stay",
    ),
    "one class": (lambda e: e, lambda y: y.with_columns(label=1), "all labels are 1; a classifier"),
    "a rare class": (
        lambda e: e,
        lambda y: y.with_columns(label=(ID == 1_000).cast(int)),
        "class 1 has 1 stays with measurements; every class needs 2",
    ),
    "a class that was never measured": (
        lambda e: e.filter((ID > 1_005) | pl.col("code").is_in(["Age", "Gender"])),
        lambda y: y.with_columns(label=(ID <= 1_006).cast(int)),
        "class 1 has 1 stays with measurements",
    ),
    "labels that are days": (
        lambda e: e,
        lambda y: y.with_columns(label=date(2024, 1, 1)),
        "column 'label' of the labels is of type Date",
    ),
    "other ids": (
        lambda e: e.with_columns(ID.cast(pl.String)),
        lambda y: y,
        "ids are of type String in the events and Int64 in the labels; cast one",
    ),
    "nothing but the start": (
        lambda e: e.filter(pl.col("code").is_in(["Age", "Gender"])),
        lambda y: y,
        "no code is measured after the start of a stay; check the columns",
    ),
    "nothing but text": (
        lambda e: e.with_columns(numeric_value=pl.lit("normal")),
        lambda y: y,
        r"no code is measured after the start.*text in place of a number \(Age normal",
    ),
    "nobody": (
        lambda e: e.with_columns(subject_id=pl.lit(None, pl.Int64)),
        lambda y: y,
        "no code is measured",
    ),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_a_refused_fit_leaves_the_earlier_one(causal, records, others, case):
    bad_events, bad_labels, message = BAD_FITS[case]
    before = causal.predict_proba(others.events)
    state = dict(vars(causal))
    with pytest.raises(FrameError, match=message):
        causal.fit(bad_events(records.events), bad_labels(records.labels))
    assert vars(causal) == state
    assert_frame_equal(causal.predict_proba(others.events), before, check_exact=True)


def test_a_fit_that_is_stopped_leaves_the_earlier_one(causal, records, others, monkeypatch):
    before = causal.predict_proba(others.events)

    def broken(*_):
        raise MemoryError

    monkeypatch.setattr("tsmamba.outcomes.base.fit_ensemble", broken)
    with pytest.raises(MemoryError):
        causal.fit(*records)
    assert_frame_equal(causal.predict_proba(others.events), before, check_exact=True)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda e: e.drop("subject_id"), "no column 'subject_id'.*name it: id_col=, time_col="),
        (lambda e: e.clear(), "the frame has no rows; pass at least one event"),
        (lambda e: e.rename({"numeric_value": "value"}), "no values in 'numeric_value'"),
        (lambda e: e.to_dict(as_series=False), "expected a polars DataFrame"),
    ],
)
def test_frames_that_cannot_be_read_are_refused(causal, others, method, bad, message):
    labels = [others.labels] if method == "score" else []
    with pytest.raises(FrameError, match=message):
        getattr(causal, method)(bad(others.events), *labels)


def test_scores_need_known_labels_and_a_known_metric(causal, others):
    with pytest.raises(FrameError, match="label 2 is not one of the fit: 0, 1"):
        causal.score(others.events, others.labels.with_columns(label=pl.col("label") + 1))
    with pytest.raises(FrameError, match="39 of 40 stays have no label"):
        causal.score(others.events, others.labels.head(1))
    with pytest.raises(ParameterError, match="metric='f1'; pass one of 'accuracy'"):
        causal.score(*others, metric="f1")
