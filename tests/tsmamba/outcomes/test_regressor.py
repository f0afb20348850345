import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError

from tsmamba import MambaClassifier, MambaRegressor, Training
from tsmamba.errors import FrameError, FrameWarning, ModelFileError, ParameterError
from tsmamba.outcomes.scores import NUMBER_METRICS


def numbered(stays, rng):
    """Return stays whose number is the exponential of what their pulse says."""
    level = (
        stays.events.filter(pl.col("code") == "HR")
        .group_by("subject_id")
        .agg(pl.col("numeric_value").mean())
    )
    labels = level.sort("subject_id").select(
        "subject_id", label=((pl.col("numeric_value") - 80) / 10).exp()
    )
    noise = np.exp(0.05 * rng.normal(size=len(labels)))
    labels = labels.with_columns(pl.col("label") * noise)
    return stays.events.join(labels.select("subject_id"), on="subject_id", how="semi"), labels


@pytest.fixture(scope="module")
def learned_from(make_records):
    return numbered(make_records(120), np.random.default_rng(0))


@pytest.fixture(scope="module")
def judged_by(make_records):
    return numbered(make_records(80, seed=1), np.random.default_rng(1))


def quick(**parameters):
    given = {"preset": "tiny", "base": None, "random_state": 0, "training": Training(max_steps=2)}
    return MambaRegressor(**{**given, **parameters})


@pytest.fixture(scope="module")
def regressor(learned_from):
    return MambaRegressor(preset="tiny", random_state=0).fit(*learned_from)


def test_numbers_of_stays_that_were_never_seen_are_told(regressor, judged_by):
    events, labels = judged_by
    missed = regressor.predict(events).join(labels, on="subject_id", suffix="_true")
    mae = (missed["label"] - missed["label_true"]).abs().mean()
    usual = (labels["label"] - labels["label"].median()).abs().mean()
    assert mae < 0.6 * usual
    assert regressor.score(events, labels, metric="mae") == pytest.approx(-mae)
    assert regressor.score(events, labels) > 0.3


def test_intervals_hold_about_what_they_say_and_nest(regressor, judged_by):
    events, labels = judged_by
    told = regressor.predict(events, level=[50, 90])
    assert told.columns == [
        "subject_id", "label", "label-lo-90", "label-lo-50", "label-hi-50", "label-hi-90",
    ]  # fmt: skip
    truth = told.join(labels, on="subject_id", suffix="_true", maintain_order="left")["label_true"]
    inside = [
        truth.is_between(told[f"label-lo-{x}"], told[f"label-hi-{x}"]).mean() for x in (50, 90)
    ]
    assert 0.3 < inside[0] < 0.75
    assert inside[1] > 0.75
    ordered = told.select("label-lo-90", "label-lo-50", "label", "label-hi-50", "label-hi-90")
    assert (np.diff(ordered.to_numpy(), axis=1) >= 0).all()


def test_answers_are_within_the_labels_of_the_fit(regressor, learned_from, make_records):
    low, high = learned_from[1]["label"].min(), learned_from[1]["label"].max()
    faster = pl.when(pl.col("code") == "HR").then(1.5).otherwise(1.0)
    wild = make_records(10, seed=5).events.with_columns(pl.col("numeric_value") * faster)
    told = regressor.predict(wild, level=[99]).drop("subject_id").to_numpy()
    assert low <= told.min()
    assert told.max() <= high


def test_labels_may_hold_at_times(learned_from):
    events, labels = learned_from
    hours = labels.join(pl.DataFrame({"time": [6.0, 12.0, 24.0]}), how="cross")
    regressor = quick().fit(events, hours)
    told = regressor.predict(events, at=hours, level=[80])
    assert told.columns == ["subject_id", "time", "label", "label-lo-80", "label-hi-80"]
    assert len(told) == len(hours)
    cut = events.filter(pl.col("time") <= 12)
    whole = quick().fit(events, labels)
    at = labels.select("subject_id", time=pl.lit(12.0))
    found = whole.predict(events, at=at)["label"]
    np.testing.assert_allclose(found, whole.predict(cut)["label"], rtol=1e-5)


def test_a_stay_without_measurement_gets_the_usual_number_and_is_told_of(regressor, judged_by):
    events, _ = judged_by
    bare = pl.DataFrame(
        {"subject_id": [10_000], "time": [0.0], "code": ["??"], "numeric_value": [1.0]},
        schema=events.select("subject_id", "time", "code", "numeric_value").schema,
    )
    with pytest.warns(FrameWarning, match="stay without measurement") as caught:
        told = regressor.predict(pl.concat([events.select(bare.columns), bare]), level=[80])
    assert caught[0].filename == __file__
    last = told.filter(pl.col("subject_id") == 10_000)
    truth = regressor._scale.back(regressor._usual[100])
    assert last["label"][0] == pytest.approx(truth)
    assert last["label-lo-80"][0] < last["label"][0] < last["label-hi-80"][0]


def test_seeds_repeat_and_the_state_outside_is_left_alone(learned_from):
    one, two, other = (quick(random_state=seed).fit(*learned_from) for seed in (0, 0, 1))
    events = learned_from[0]
    assert_frame_equal(one.predict(events), two.predict(events), check_exact=True)
    assert not one.predict(events).equals(other.predict(events))


def test_a_loaded_regressor_is_the_saved_one(regressor, judged_by, tmp_path):
    regressor.save(tmp_path / "days")
    loaded = MambaRegressor.load(tmp_path / "days")
    assert repr(loaded.get_params()) == repr(regressor.get_params())
    assert (loaded.codes_, loaded.report_) == (regressor.codes_, regressor.report_)
    found, expected = (each.predict(judged_by[0], level=[90]) for each in (loaded, regressor))
    assert_frame_equal(found, expected, check_exact=True)
    with pytest.raises(ModelFileError, match="holds a MambaRegressor"):
        MambaClassifier.load(tmp_path / "days")


def test_it_is_a_regressor_that_can_be_cloned(regressor):
    assert is_regressor(regressor)
    copy = clone(regressor).set_params(training__lr=1e-2)
    assert copy.training.lr == 1e-2
    with pytest.raises(NotFittedError):
        copy.predict(pl.DataFrame())


def test_the_share_of_trees_is_told(regressor, learned_from):
    assert 0 <= regressor.report_["share_of_trees"] <= 1
    assert regressor.report_["held_out"].keys() == NUMBER_METRICS.keys()
    alone = quick().fit(*learned_from)
    assert (alone.report_["share_of_trees"], alone.report_["model"]) == (0, "mamba")


def test_a_fit_that_is_refused_leaves_the_earlier_one(learned_from):
    events, labels = learned_from
    regressor = quick().fit(events, labels)
    before = regressor.predict(events)
    with pytest.raises(FrameError, match="a regressor learns numbers"):
        regressor.fit(events, labels.with_columns(pl.col("label").cast(pl.String)))
    assert_frame_equal(regressor.predict(events), before, check_exact=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metric": "auroc"}, "metric='auroc'; pass one of 'r2', 'mae', 'rmse'"),
        ({"level": [120]}, "level"),
    ],
)
def test_what_does_not_exist_is_refused(regressor, judged_by, given, message):
    with pytest.raises(ParameterError, match=message):
        if "metric" in given:
            regressor.score(*judged_by, **given)
        else:
            regressor.predict(judged_by[0], **given)
