import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from tsmamba import MambaForecaster, Training
from tsmamba.errors import ParameterError


def test_a_clone_is_equal_and_another_object():
    training = Training(max_steps=7, lr=1e-2)
    copy = clone(training)
    assert copy is not training
    assert copy.get_params() == training.get_params()


def test_it_shows_what_was_changed():
    assert repr(Training()) == "Training()"
    assert repr(Training(max_steps=5, max_time=2.0)) == "Training(max_steps=5, max_time=2.0)"


def test_its_parameters_are_reached_through_an_estimator():
    forecaster = MambaForecaster(training=Training(max_steps=9))
    assert forecaster.get_params()["training__max_steps"] == 9
    forecaster.set_params(training__lr=0.5, horizon=3)
    assert forecaster.training.lr == 0.5
    assert forecaster.training.max_steps == 9


def test_setting_a_parameter_of_a_clone_leaves_the_original_alone():
    first = MambaForecaster(training=Training(lr=0.1))
    clone(first).set_params(training__lr=0.2)
    assert first.training.lr == 0.1


def test_a_default_training_is_made_where_one_of_its_parameters_is_set():
    forecaster = MambaForecaster().set_params(training__max_steps=3)
    assert forecaster.training.get_params() == Training(max_steps=3).get_params()


def test_a_grid_reaches_nested_parameters():
    for point in ParameterGrid({"training__lr": [0.1, 0.2], "network__d_model": [8]}):
        forecaster = clone(MambaForecaster()).set_params(**point)
        assert forecaster.training.lr == point["training__lr"]
        assert forecaster.network.d_model == 8


def test_unknown_parameters_are_refused():
    with pytest.raises(TypeError, match="learning_rate"):
        Training(learning_rate=0.1)
    with pytest.raises(ValueError, match="epochs"):
        MambaForecaster().set_params(training__epochs=3)


@pytest.mark.parametrize(
    ("name", "values", "accepted"),
    [
        ("max_steps", [-1, 1.5, True, "a"], "a whole number of at least 0"),
        ("batch_size", [0, 2.0, None], "a whole number of at least 1"),
        ("eval_every", [0, 0.5], "a whole number of at least 1"),
        ("max_time", [0, -1.0, math.nan, "1h"], "a number above 0"),
        ("lr", [0, -1e-3, math.nan, math.inf, None], "a number above 0"),
        ("weight_decay", [-0.1, math.nan], "a number of at least 0"),
        ("ema_decay", [-0.1, 1, 1.5], "a number of at least 0 and below 1"),
        ("clip_norm", [0, None], "a number above 0"),
    ],
)
def test_knobs_out_of_range_are_refused(name, values, accepted):
    for value in values:
        with pytest.raises(ParameterError) as error:
            Training(**{name: value}).check()
        assert str(error.value) == f"training: {name}={value!r}; pass {accepted}"


@pytest.mark.parametrize("loss", ["huber", "Absolute", None, 1])
def test_a_loss_that_is_not_there_is_refused(loss):
    with pytest.raises(ParameterError) as error:
        Training(loss=loss).check()
    assert str(error.value) == (
        f"training: loss={loss!r}; pass one of 'absolute', 'squared', 'student-t'"
    )


def test_numbers_of_numpy_are_accepted():
    Training(max_steps=np.int64(3), lr=np.float32(0.1), max_time=np.float64(1), ema_decay=0).check()


def test_without_a_number_of_steps_there_is_a_default():
    assert Training().steps == 400
    assert Training(max_steps=3).steps == 3
