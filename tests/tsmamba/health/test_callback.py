import warnings

import pytest
import torch

from tsmamba import MambaForecaster, Network, Training
from tsmamba.callbacks import Callback, Fit, register
from tsmamba.errors import HealthWarning, ParameterError
from tsmamba.health import Gpu, GpuReading, HealthCallback
from tsmamba_datasets import make_seasonal

STEPS = 6


class Spoil(Callback):
    """Breaks a weight, or a gradient, after a step."""

    def __init__(self, part, step):
        self.part, self.at = part, step

    def on_step(self, fit, step, loss, network):
        weight = network.stack.layers[0].mixer.A_log
        if step == self.at:
            (weight.data if self.part == "weight" else weight.grad)[0, 0] = torch.nan


def fit(*callbacks):
    forecaster = MambaForecaster(
        24,
        context_length=120,
        mode="full",
        random_state=0,
        network=Network(patch_length=24, d_model=8, n_layers=1, d_state=4),
        training=Training(max_steps=STEPS, batch_size=8, eval_every=3),
    )
    undo = [register(callback) for callback in callbacks]
    try:
        return forecaster.fit(make_seasonal(length=1_200, seed=1))
    finally:
        for each in undo:
            each.close()


def test_a_fit_that_is_well_is_not_warned_of():
    watch = HealthCallback(every=1)
    fit(watch)
    numbers = watch.health.metrics()
    assert watch.health.ok
    assert 0 < numbers["finite_gradients_norm"] < 1e3
    assert numbers["finite_weights_norm"] > 1
    assert numbers["finite_loss_norm"] > 0


@pytest.mark.parametrize("part", ["weight", "gradient"])
def test_a_nan_is_named_with_its_step(part):
    watch = HealthCallback(every=1)
    with pytest.warns(HealthWarning, match=r"step 5: not finite: .*stack\.layers\.0\.mixer\.A_log"):
        fit(Spoil(part, 5), watch)


def test_it_warns_once_in_each_fit():
    watch = HealthCallback(every=1)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit(Spoil("weight", 2), watch)
        assert [each.category for each in caught] == [HealthWarning]


def test_it_looks_every_so_many_steps_and_at_once_when_the_loss_is_not_finite():
    watch, about, network = HealthCallback(every=10), Fit(None), torch.nn.Linear(1, 1)
    looks = []
    for step in range(1, 24):
        watch.on_step(about, step, 1.0, network)
        looks.append(watch.health.monitors[0].seen)
    assert looks == [1] * 10 + [2] * 10 + [3] * 3
    with pytest.warns(HealthWarning, match=r"step 24: not finite: loss \(1 of 1\)$"):
        watch.on_step(about, 24, float("nan"), network)


def test_a_training_that_is_not_finite_ends_where_asked_for():
    class Count(Callback):
        steps = 0

        def on_step(self, fit, step, loss, network):
            self.steps = step

    count = Count()
    with pytest.warns(HealthWarning, match="step 2"):
        forecaster = fit(Spoil("gradient", 2), count, HealthCallback(every=1, stop=True))
    assert count.steps == 2
    assert forecaster.predict().height == 24


def test_a_hot_gpu_is_waited_for():
    readings = iter([GpuReading(60, 30), GpuReading(89, 1), GpuReading(80, 10)])
    gpu = Gpu(lambda: next(readings, None), every=0)
    fit(HealthCallback(gpu=gpu))
    assert next(readings, None) is None
    assert not gpu.paused


def test_settings_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="every=0; pass 1 or more"):
        HealthCallback(0)
