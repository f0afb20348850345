"""How much several trainings of one fit do."""

import pytest

from tsmamba import Training
from tsmamba.forecast.recipe import Recipe
from tsmamba.forecast.tuning import Tuning


@pytest.mark.parametrize(("n_trainings", "steps"), [(1, 400), (4, 200)])
def test_several_trainings_do_fewer_steps_each_unless_told(n_trainings, steps):
    assert Recipe(training=Training()).settings(n_trainings).steps == steps
    assert Recipe(training=Training(max_steps=7)).settings(n_trainings).steps == 7


def test_trainings_share_the_time_and_leave_the_knobs_as_they_were():
    given = Training(max_time=60, lr=1e-2)
    settings = Recipe(training=given).settings(4)
    assert (settings.max_time, settings.lr) == (15, 1e-2)
    assert (given.max_time, given.max_steps) == (60, None)


def test_steps_are_those_of_all_trainings_with_their_warm_up():
    recipe = Recipe(training=Training(max_steps=10), tuning=Tuning(warmup_steps=3))
    assert recipe.steps(4) == 4 * 13
    assert Recipe().steps(4) == 0
