import warnings
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from tsmamba import MambaClassifier, Training
from tsmamba.errors import FrameWarning
from tsmamba.outcomes.scores import METRICS, calibration_error

P = ["p_0", "p_1"]


def to_pandas(frame):
    return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})


def quick(**parameters):
    """Return a classifier of networks that are hardly trained."""
    given = {"preset": "tiny", "base": None, "random_state": 0, "training": Training(max_steps=2)}
    return MambaClassifier(**{**given, **parameters})


@pytest.fixture(scope="module")
def answers(fitted, others):
    return fitted.predict_proba(others.events)


# What it learns


@pytest.mark.parametrize("of", ["fitted", "causal"])
def test_stays_that_were_never_seen_are_told_apart(of, others, request):
    assert request.getfixturevalue(of).score(*others, metric="auroc") > 0.8


def test_probabilities_are_right_on_average(fitted, make_records):
    new = make_records(300, seed=7)
    events = new.events.join(new.labels, on="subject_id")
    truth = new.labels["label"].to_numpy()
    p = fitted.predict_proba(events.drop("label"))["p_1"].to_numpy()
    assert p.mean() == pytest.approx(truth.mean(), abs=0.1)
    assert calibration_error(truth, p) < 0.15
    assert calibration_error(truth, np.full_like(p, 0.9)) > 0.3


def test_three_classes_have_a_column_each(of_three, make_records):
    new = make_records(30, seed=3, n_classes=3)
    answer = of_three.predict_proba(new.events)
    assert answer.columns == ["subject_id", "p_0", "p_1", "p_2"]
    np.testing.assert_allclose(answer.drop("subject_id").sum_horizontal(), 1)
    assert of_three.score(*new, metric="auroc") > 0.6


def test_the_report_tells_what_was_seen(fitted, records):
    report = fitted.report_
    assert (report["stays"], report["without_measurement"]) == (60, 0)
    assert report["model"] == "mamba and boosting"
    assert report["repairs"] == {}
    assert report["held_out"]["auroc"] > 0.7
    assert report["held_out"].keys() >= {"accuracy", "auprc", "brier", "calibration_error"}
    assert fitted.codes_ == ["HR", "Lactate", "Temp", "Age", "Gender"]
    np.testing.assert_array_equal(fitted.prior_, [0.5, 0.5])


# What it answers


def test_stays_come_in_the_order_of_their_first_event(answers, others):
    assert answers.columns == ["subject_id", *P]
    assert answers["subject_id"].to_list() == others.labels["subject_id"].to_list()
    np.testing.assert_allclose(answers["p_0"] + answers["p_1"], 1)


def test_the_predicted_class_is_the_likeliest(fitted, answers, others):
    found = fitted.predict(others.events)
    assert found.columns == ["subject_id", "label"]
    assert found["label"].to_list() == (answers["p_1"] > answers["p_0"]).cast(int).to_list()


@pytest.mark.parametrize("metric", ["accuracy", "auroc", "auprc", "brier"])
def test_scores_are_those_of_the_answers(fitted, answers, others, metric):
    shuffled = others.labels.sample(fraction=1, shuffle=True, seed=0)
    expected = METRICS[metric](others.labels["label"].to_numpy(), answers[P].to_numpy(), None)
    assert fitted.score(others.events, shuffled, metric=metric) == pytest.approx(expected)


def test_the_order_of_rows_does_not_matter(fitted, answers, others):
    mixed = fitted.predict_proba(others.events.sample(fraction=1, shuffle=True, seed=5))
    assert mixed["subject_id"].to_list() != answers["subject_id"].to_list()
    assert_frame_equal(mixed.sort("subject_id"), answers, abs_tol=1e-6)


def test_a_stay_is_answered_alike_alone_and_among_others(fitted, answers, others):
    for subject in (1_000, 1_013, 1_039):
        alone = fitted.predict_proba(others.of(subject))
        assert_frame_equal(alone, answers.filter(subject_id=subject), abs_tol=1e-6)


@pytest.mark.parametrize(
    ("kind", "native"),
    [
        (lambda frame: frame.lazy(), pl.DataFrame),
        (to_pandas, pd.DataFrame),
        (lambda frame: frame.to_arrow(), type(pl.DataFrame({"a": [1]}).to_arrow())),
    ],
    ids=["lazy", "pandas", "pyarrow"],
)
def test_answers_come_in_the_kind_of_frame_that_was_asked_with(
    fitted, answers, others, kind, native
):
    found = fitted.predict_proba(kind(others.events))
    assert type(found) is native
    np.testing.assert_array_equal(np.asarray(found["p_1"]), answers["p_1"])
    assert np.asarray(found["subject_id"]).dtype == np.int64
    assert fitted.score(kind(others.events), kind(others.labels)) == fitted.score(*others)


def test_a_wide_frame_is_answered_as_the_long_one(fitted, answers, others):
    wide = others.events.pivot("code", index=["subject_id", "time"], values="numeric_value")
    assert_frame_equal(fitted.predict_proba(wide), answers, check_exact=True)


@pytest.mark.parametrize("shift", [timedelta(0), timedelta(days=999, minutes=7)])
def test_stamps_durations_and_hours_are_one(fitted, answers, others, shift):
    since = pl.duration(minutes=pl.col("time") * 60)
    stamps = others.events.with_columns(
        pl.lit(datetime(2030, 1, 1)) + shift * (pl.col("subject_id") % 3) + since
    ).rename({"literal": "stamp"})
    stamps = stamps.drop("time").rename({"stamp": "time"})
    assert_frame_equal(fitted.predict_proba(stamps), answers, check_exact=True)
    durations = others.events.with_columns(since.alias("time"))
    assert_frame_equal(fitted.predict_proba(durations), answers, check_exact=True)


def test_the_unit_of_numbers_does_not_matter(records, others):
    in_hours = quick().fit(*records).predict_proba(others.events)
    minutes = [each.events.with_columns(pl.col("time") * 60) for each in (records, others)]
    in_minutes = quick().fit(minutes[0], records.labels).predict_proba(minutes[1])
    assert_frame_equal(in_minutes, in_hours, abs_tol=1e-6)


# What it is fitted on


def test_seeds_repeat_and_leave_the_callers_alone(records, others):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one, same, other = (
        quick(random_state=seed).fit(*records).predict_proba(others.events) for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert_frame_equal(one, same, check_exact=True)
    assert not np.allclose(one["p_1"], other["p_1"], atol=1e-6)


@pytest.mark.parametrize("kind", [to_pandas, lambda frame: frame.to_arrow()])
def test_a_fit_does_not_depend_on_the_kind_of_frame(records, others, kind):
    expected = quick().fit(*records).predict_proba(others.events)
    found = quick().fit(*map(kind, records)).predict_proba(others.events)
    assert_frame_equal(found, expected, check_exact=True)


@pytest.mark.parametrize(
    "cast",
    [
        lambda ids: "stay " + ids.cast(pl.String),
        lambda ids: ids.cast(pl.String).cast(pl.Categorical),
        lambda ids: ids.cast(pl.Int32),
    ],
    ids=["text", "categories", "integers"],
)
def test_ids_may_be_of_any_type(records, cast):
    ids = cast(pl.col("subject_id"))
    events, labels = (frame.with_columns(ids.alias("subject_id")) for frame in records)
    found = quick().fit(events, labels).predict_proba(events)
    expected = quick().fit(*records).predict_proba(records.events)
    assert found["subject_id"].to_list() == labels["subject_id"].to_list()
    np.testing.assert_allclose(found["p_1"], expected["p_1"], atol=1e-6)


def test_columns_may_have_other_names(records):
    names = {"subject_id": "code", "time": "stay", "code": "item", "numeric_value": "label"}
    events = records.events.rename(names)
    labels = records.labels.rename({"subject_id": "code", "label": "died"})
    classifier = quick(
        id_col="code", time_col="stay", code_col="item", value_col="label", label_col="died"
    )
    found = classifier.fit(events, labels).predict(events)
    assert found.columns == ["code", "died"]
    expected = quick().fit(*records).predict(records.events)["label"]
    assert found["died"].to_list() == expected.to_list()


def test_labels_in_the_frame_of_events_are_not_learned_from(records):
    wide = records.events.pivot("code", index=["subject_id", "time"], values="numeric_value")
    labelled = wide.join(records.labels, on="subject_id")
    classifier = quick().fit(labelled, labelled)
    assert "label" not in classifier.codes_
    assert_frame_equal(classifier.predict(labelled), classifier.predict(wide))


def test_events_without_times_stand_at_the_start(records, others):
    at_start = pl.col("code").is_in(["Age", "Gender"])
    untimed = [
        each.events.with_columns(pl.when(~at_start).then("time").alias("time"))
        for each in (records, others)
    ]
    found = quick().fit(untimed[0], records.labels).predict_proba(untimed[1])
    assert_frame_equal(found, quick().fit(*records).predict_proba(others.events))


def test_knobs_of_training_are_kept(records):
    knobs = Training(max_steps=3, lr=1e-2)
    classifier = quick(training=knobs).fit(*records)
    assert classifier.training is knobs
    assert knobs.get_params() == Training(max_steps=3, lr=1e-2).get_params()


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_bar_is_shown_where_asked_for_and_nothing_else_is_said(records, capfd, verbose):
    quick(verbose=verbose).fit(*records)
    out, err = capfd.readouterr()
    assert (out, bool(err)) == ("", verbose > 0)


# What it warns of


def warning_of(call):
    """Return the value and the only warning of a call, which must point at this file."""
    with pytest.warns(FrameWarning) as caught:
        value = call()
    [warning] = caught
    assert warning.filename == __file__
    return value, str(warning.message)


@pytest.mark.parametrize("bare", [[1_000], [1_039], [1_003, 1_004], range(1_000, 1_040)])
def test_a_stay_without_measurement_gets_the_prior(fitted, answers, others, bare):
    measured_ = pl.col("code").is_in(["HR", "Lactate", "Temp"])
    events = others.events.filter(~(measured_ & pl.col("subject_id").is_in(list(bare))))
    found, message = warning_of(lambda: fitted.predict_proba(events))
    assert found["subject_id"].to_list() == answers["subject_id"].to_list()
    alike = ~pl.col("subject_id").is_in(list(bare))
    assert_frame_equal(found.filter(alike), answers.filter(alike), abs_tol=1e-6)
    np.testing.assert_array_equal(found.filter(~alike)[P], np.tile(fitted.prior_, (len(bare), 1)))
    assert f"{len(bare)} × a stay without measurement, answered with the prior" in message
    assert f"({bare[0]}" in message
    assert len(message) < 200


def test_stays_without_measurement_are_not_fitted_on(records):
    measured_ = pl.col("code").is_in(["HR", "Lactate", "Temp"])
    events = records.events.filter(~(measured_ & (pl.col("subject_id") == 1_000)))
    classifier = quick().fit(events, records.labels)
    assert classifier.report_["without_measurement"] == 1
    np.testing.assert_allclose(classifier.prior_, [29 / 59, 30 / 59])


def test_repairs_are_told_once_and_counted_in_the_report(records):
    wrong = pl.DataFrame(
        [(1_000, -1.0, "HR", 80.0), (1_000, 2.0, "HR", 999.0)], records.events.schema, orient="row"
    )
    events = pl.concat([records.events, wrong])
    classifier, message = warning_of(lambda: quick().fit(events, records.labels))
    assert classifier.report_["repairs"] == {
        "a time before zero, which is the start of a stay": 1,
        "HR outside 5 to 350 1/min": 1,
    }
    assert "1 × HR outside 5 to 350 1/min (999)" in message


def test_codes_of_other_data_are_named_in_a_warning_of_bounded_length(fitted, others):
    strange = [
        others.of(1_000).with_columns(pl.lit(f"LAB//{n} " + "long name " * 50).alias("code"))
        for n in range(100)
    ]
    events = pl.concat([others.of(1_000), *strange])
    answer, message = warning_of(lambda: fitted.predict_proba(events))
    assert_frame_equal(answer, fitted.predict_proba(others.of(1_000)))
    assert "× a code that the model does not know (LAB//" in message
    assert len(message) < 400


def test_everything_wrong_at_once_is_told_in_few_words(fitted, others):
    codes = ["HR", "Temp", "Lactate", "Age", "pH", "SaO2", "MAP", "Na", "K", "Mg", "GCS", "FiO2"]
    wrong = pl.DataFrame(
        [(1_000, 1.0, code, value) for code in codes for value in ("-9999", "n/a", "inf", "1e9")],
        others.events.columns,
        orient="row",
    )
    events = pl.concat([others.events.cast({"numeric_value": pl.String}), wrong])
    _, message = warning_of(lambda: fitted.predict(events))
    assert len(message) < 800
    assert "other things" in message


def test_sound_events_are_not_warned_of(fitted, others):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(others.of(1_000))
