from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal
from sklearn.exceptions import NotFittedError

from tsmamba import MambaClassifier
from tsmamba.errors import FrameError, FrameWarning, ParameterError
from tsmamba.outcomes.explanation import as_times, usual_events
from tsmamba.records.events import Events, Repairs, read_events

START = datetime(2030, 5, 1, 6, 30)


@pytest.fixture(scope="module")
def others(make_records):
    """Return a few stays that no model has seen."""
    return make_records(12, seed=1)


def log_odds(classifier, events):
    """Log of the probability of each class over the geometric mean of the others, (n, K)."""
    logs = np.log(classifier.predict_proba(events).drop("subject_id").to_numpy())
    rest = (logs.sum(1, keepdims=True) - logs) / (logs.shape[1] - 1)
    return logs - rest


def usual(classifier, frame):
    """Return a frame of the same events with usual values."""
    events = read_events(frame, classifier._columns(), Repairs())
    made: Events = usual_events(
        classifier._reader.clean(events, Repairs()), classifier._reader.vocabulary
    )
    return made.rows.select(
        made.ids.gather(made.rows["stay"]).alias("subject_id"),
        "time",
        "code",
        pl.col("value").alias("numeric_value"),
    )


def total(parts):
    return parts.group_by("subject_id", maintain_order=True).agg(pl.sum("contribution"))


def in_order(parts):
    return parts.sort("subject_id", "code", "time")


@pytest.mark.parametrize("which", ["fitted", "causal"])
def test_parts_add_up_to_log_odds_less_those_of_usual_values(request, others, which):
    classifier = request.getfixturevalue(which)
    difference = log_odds(classifier, others.events) - log_odds(
        classifier, usual(classifier, others.events)
    )
    summed = total(classifier.explain(others.events))
    assert summed["subject_id"].to_list() == others.labels["subject_id"].to_list()
    assert abs(difference[:, 1]).max() > 0.05
    tolerance = 3e-3 * abs(difference).max()
    np.testing.assert_allclose(summed["contribution"], difference[:, 1], rtol=0, atol=tolerance)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_parts_of_each_of_three_classes_add_up(of_three, make_records, label):
    events = make_records(9, seed=5, n_classes=3).events
    difference = log_odds(of_three, events) - log_odds(of_three, usual(of_three, events))
    summed = total(of_three.explain(events, label=label))
    tolerance = 3e-3 * abs(difference).max()
    np.testing.assert_allclose(summed["contribution"], difference[:, label], rtol=0, atol=tolerance)


def test_what_speaks_for_one_class_speaks_against_the_other(fitted, others):
    first, second = (in_order(fitted.explain(others.events, label=label)) for label in (0, 1))
    np.testing.assert_allclose(first["contribution"], -second["contribution"], rtol=1e-9)
    assert_frame_equal(in_order(fitted.explain(others.events)), second)


def test_usual_values_have_no_part(fitted, others):
    parts = fitted.explain(usual(fitted, others.events))
    assert abs(parts["contribution"]).max() < 1e-6


def test_each_code_and_bin_has_a_row_with_the_mean_of_its_values(causal, others):
    stay = others.of(1_003)
    width = causal._reader.width
    parts = causal.explain(stay)
    bins = np.maximum(np.ceil(stay["time"].to_numpy() / width).astype(int) - 1, 0)
    expected = (
        stay.with_columns(pl.Series("time", bins * width))
        .group_by("subject_id", "time", "code")
        .agg(pl.mean("numeric_value"))
    )
    assert_frame_equal(in_order(parts.drop("contribution")), in_order(expected))
    sizes = parts["contribution"].abs()
    assert sizes.equals(sizes.sort(descending=True))


def test_trees_have_a_row_for_each_code_without_a_time(fitted, others):
    stay = others.of(1_003)
    whole = fitted.explain(stay).filter(pl.col("time").is_null())
    measured = stay.filter(~pl.col("code").is_in(["Age", "Gender"]))
    expected = measured.group_by("code").agg(pl.mean("numeric_value")).sort("code")
    assert_frame_equal(whole.sort("code").select("code", "numeric_value"), expected)


def test_what_tells_the_class_has_the_largest_part(rng):
    stays = np.arange(80)
    parts = [
        pl.DataFrame(
            {
                "subject_id": np.repeat(stays, 12),
                "time": np.tile(np.arange(12.0), 80),
                "code": code,
                "numeric_value": rng.normal(size=960) + np.repeat(shift * (stays % 2), 12),
            }
        )
        for code, shift in (("signal", 2.0), ("noise", 0.0))
    ]
    events, labels = pl.concat(parts), pl.DataFrame({"subject_id": stays, "label": stays % 2})
    classifier = MambaClassifier(preset="tiny", random_state=0).fit(events, labels)
    sums = (
        classifier.explain(events)
        .group_by("code", "subject_id")
        .agg(pl.sum("contribution"))
        .group_by("code")
        .agg(pl.col("contribution").abs().mean())
    )
    size = dict(sums.rows())
    assert size["signal"] > 5 * size["noise"]


def test_the_order_of_rows_and_other_stays_change_nothing(fitted, others):
    parts = fitted.explain(others.events)
    shuffled = fitted.explain(others.events.sample(fraction=1.0, shuffle=True, seed=3))
    assert_frame_equal(in_order(shuffled), in_order(parts), abs_tol=1e-5)
    alone = fitted.explain(others.of(1_007))
    among = parts.filter(pl.col("subject_id") == 1_007)
    assert_frame_equal(in_order(alone), in_order(among), abs_tol=1e-5)


def test_a_loaded_classifier_explains_the_same(fitted, others, tmp_path):
    fitted.save(tmp_path / "risk.tsm")
    loaded = MambaClassifier.load(tmp_path / "risk.tsm")
    assert_frame_equal(loaded.explain(others.events), fitted.explain(others.events))


@pytest.mark.parametrize(
    "zero",
    [timedelta(0), START, START.replace(tzinfo=UTC)],
    ids=["durations", "stamps", "stamps with a zone"],
)
def test_times_come_back_as_they_were_given(fitted, others, zero):
    numbers = fitted.explain(others.events)
    times = [zero + timedelta(hours=hours) for hours in others.events["time"]]
    timed = fitted.explain(others.events.with_columns(pl.Series("time", times)))
    assert timed["time"].dtype == pl.Series([zero]).dtype
    since = (timed["time"] - zero).dt.total_milliseconds() / 3_600_000
    assert_frame_equal(
        timed.with_columns(since.alias("time")), numbers, abs_tol=1e-5, check_dtypes=False
    )


def test_days_come_back_as_stamps():
    hours = pl.Series([0.0, 36.5, None])
    assert as_times(hours, pl.Date()).to_list() == [
        datetime(1970, 1, 1),
        datetime(1970, 1, 2, 12, 30),
        None,
    ]


def test_frames_come_back_in_kind(fitted, others):
    stay = others.of(1_001).with_columns(
        pl.lit(START) + pl.duration(minutes=pl.col("time") * 60).alias("time")
    )
    expected = fitted.explain(stay)
    pandas = fitted.explain(pd.DataFrame(stay.to_dict(as_series=False)))
    assert isinstance(pandas, pd.DataFrame)
    assert pandas["time"].isna().sum() == expected["time"].null_count() > 0
    pd.testing.assert_series_equal(
        pandas["contribution"], pd.Series(expected["contribution"].to_numpy(), name="contribution")
    )
    arrow = fitted.explain(stay.to_arrow())
    assert isinstance(arrow, pa.Table)
    assert arrow.column_names == expected.columns
    wide = stay.pivot("code", index=["subject_id", "time"], values="numeric_value")
    assert_frame_equal(in_order(fitted.explain(wide)), in_order(expected), abs_tol=1e-6)
    days = stay.unique("code").with_columns(time=date(2030, 5, 1))
    assert fitted.explain(days.to_arrow()).schema.field("time").type == pa.timestamp("ms")


def test_a_stay_without_measurements_has_no_rows(fitted, others):
    bare = pl.DataFrame({"subject_id": 7, "time": 0.0, "code": "shoe size", "numeric_value": 43.0})
    with pytest.warns(FrameWarning, match="a code that the model does not know"):
        parts = fitted.explain(pl.concat([bare, others.events]))
    assert_frame_equal(parts, fitted.explain(others.events))
    with pytest.warns(FrameWarning, match="a code that the model does not know"):
        assert fitted.explain(bare).is_empty()


def test_a_class_that_is_not_there_is_refused(fitted, of_three, others):
    with pytest.raises(ParameterError, match=r"label='dead'; pass one of .*0.*1"):
        fitted.explain(others.events, label="dead")
    with pytest.raises(ParameterError, match=r"label=None; pass one of .*0.*1.*2"):
        of_three.explain(others.events)


def test_it_wants_a_fit_and_events(fitted, others):
    with pytest.raises(NotFittedError):
        MambaClassifier().explain(others.events)
    with pytest.raises(FrameError, match="the frame has no column 'time'"):
        fitted.explain(others.events.drop("time"))
