import numpy as np
import pytest

from tsmamba.anomaly.calibration import Rate
from tsmamba.anomaly.calibration.clusters import count_episodes
from tsmamba.errors import ParameterError

DAY = 500


def achieved(rate, before, later):
    calibrator = rate.fit(before)
    thresholds, _ = calibrator.step(later)
    return count_episodes(later >= thresholds, calibrator.run) / (later.size / DAY)


@pytest.mark.parametrize("width", [5, 40])
@pytest.mark.parametrize("gain", [0, 0.2])
@pytest.mark.parametrize("per_day", [0.5, 2.0])
def test_false_alarms_come_at_the_rate_asked_for(make_scores, width, gain, per_day):
    rates = []
    for seed in range(10):
        before, later = np.split(make_scores(110 * DAY, seed, width), [10 * DAY])
        rates.append(achieved(Rate(per_day=per_day, steps_per_day=DAY, gain=gain), before, later))
    assert np.mean(rates) == pytest.approx(per_day, rel=0.1 if gain else 0.35)


def test_a_rate_below_one_in_the_fit_is_beyond_the_scores_seen(make_scores):
    scores = make_scores(10 * DAY)
    weekly, yearly = (
        Rate(per_day=1 / days, steps_per_day=DAY).fit(scores).fitted for days in (7, 365)
    )
    assert yearly > weekly
    assert yearly > scores.max()


def test_a_change_of_scale_is_followed(make_scores):
    before, later = np.split(make_scores(210 * DAY), [10 * DAY])
    for factor in (0.7, 1.4):
        fixed = achieved(Rate(steps_per_day=DAY, gain=0), before, factor * later)
        following = achieved(Rate(steps_per_day=DAY), before, factor * later)
        assert following == pytest.approx(1, rel=0.25)
        assert not 0.5 < fixed < 2


def test_scores_that_hang_together_for_a_day_do_not_end_in_one_alarm(make_scores):
    before, later = np.split(make_scores(110 * DAY, width=DAY), [10 * DAY])
    calibrator = Rate(steps_per_day=DAY).fit(before)
    thresholds, _ = calibrator.step(later)
    assert 0.5 < count_episodes(later >= thresholds, calibrator.run) / 100 < 1.5
    assert (later >= thresholds).mean() < 0.5


def test_the_length_of_a_day_may_come_from_either_side(make_scores):
    scores = make_scores(2_000)
    ours = Rate(steps_per_day=DAY).fit(scores, steps_per_day=7)
    theirs = Rate().fit(scores, steps_per_day=DAY)
    assert ours.fitted == theirs.fitted


def test_a_day_of_unknown_length_is_refused():
    with pytest.raises(ParameterError) as error:
        Rate().fit([1.0, 2.0])
    assert str(error.value) == (
        "Rate: 1 a day of unknown length; pass Rate(..., steps_per_day=1440) for a step a minute, "
        "or time stamps to the detector"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"per_day": 0}, "Rate: per_day=0; pass a number above 0"),
        ({"per_day": np.inf}, "Rate: per_day=inf; pass a number above 0"),
        ({"steps_per_day": -1}, "steps_per_day=-1; pass a number above 0 or None"),
        ({"gain": -0.1}, "gain=-0.1; pass a number above 0"),
        ({"per_day": 20, "steps_per_day": 24}, "per_day=20 with 24 steps a day; pass less than"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ParameterError, match=message):
        Rate(**settings).fit([1.0, 2.0])
