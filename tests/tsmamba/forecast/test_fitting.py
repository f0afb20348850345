from dataclasses import replace

import numpy as np
import pytest
import torch

from tsmamba import MambaForecaster, Network, Training
from tsmamba.forecast.base import N_BLOCKS
from tsmamba.forecast.correction import Correction
from tsmamba.forecast.crossfit import out_of_fold
from tsmamba.forecast.defaults import plan
from tsmamba.forecast.fitting import Fitting
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.forecast.recipe import Recipe
from tsmamba.forecast.source import Source

HORIZON = 8


CONFIG = CorrectorConfig(history=64, horizon=HORIZON, patch=8, d_model=8, n_layers=1, d_state=4)
TRAINED = Recipe(CONFIG, training=Training(max_steps=3, batch_size=8))


def fitting(panel, recipe=TRAINED, **kwargs):
    sizes = plan(panel, horizon=HORIZON, context_length=64, season_length=24, patch_length=8)
    return Fitting(Source.of(panel, 24, cycles=()), sizes, recipe, **kwargs)


def run(*args, **kwargs):
    return fitting(*args, **kwargs).run(lambda step, loss: None)


@pytest.fixture(scope="module")
def panel(make_panel):
    rng = np.random.default_rng(0)
    return make_panel(np.sin(np.arange(1_500) / 4) + 0.3 * rng.normal(size=1_500))


def test_without_a_corrector_only_the_base_is_fitted(panel):
    model, report = run(panel, Recipe())
    assert model.corrector is None
    assert report["corrector"] == "not used: mode='base'"
    assert "steps" not in report


@pytest.mark.parametrize("length", [100, 511])
def test_short_series_get_no_corrector_and_the_report_says_why(make_panel, length):
    _, report = run(make_panel(np.arange(length) % 24))
    assert report["corrector"] == (
        f"not used: the longest series has {length} steps, fewer than 512"
    )


def test_few_windows_get_no_corrector_and_the_report_says_why(panel):
    _, report = run(panel, val_size=HORIZON)
    assert report["corrector"].startswith("not used: ")
    assert report["corrector"].endswith("1 windows to validate on; it needs 32")


def test_where_nothing_can_be_trained_the_pretrained_one_stands_as_it_came(make_panel, monkeypatch):
    short = make_panel(np.sin(np.arange(560) / 4))
    monkeypatch.setattr(Correction, "gate", lambda *_, **__: (torch.ones(HORIZON), 1.0, 0.5))
    corrector = shaken()
    monkeypatch.setattr("tsmamba.forecast.fitting._LEAST_TRAINING", 10_000)
    model, report = run(short, Recipe(CONFIG, corrector, Training(max_steps=3)))
    assert model.corrector is corrector
    assert report["corrector"] == "used"
    assert report["steps"] == 0
    assert report["training"].startswith("none: ")


def test_a_corrector_that_does_not_help_is_left_out(panel):
    model, report = run(panel, Recipe(CONFIG, training=Training(max_steps=0)))
    assert model.corrector is None
    assert report["gate"] == 0
    assert report["corrector"] == ("not used: it did not lower the validation error of the base")
    assert report["validation_error"] == report["validation_error_base"]


def shaken(**kwargs):
    """A corrector that does something."""
    torch.manual_seed(0)
    corrector = Corrector(replace(CONFIG, **kwargs)).eval()
    torch.nn.init.normal_(corrector.head.weight, std=0.1)
    return corrector.requires_grad_(False)


def test_a_pretrained_corrector_is_used_as_it_is(panel, monkeypatch):
    monkeypatch.setattr(Correction, "gate", lambda *_, **__: (torch.ones(HORIZON), 1.0, 0.5))
    corrector = shaken()
    model, report = run(panel, Recipe(CONFIG, corrector))
    assert model.corrector is corrector
    assert report["steps"] == 0
    assert "windows_per_second" not in report


def test_further_training_leaves_the_pretrained_corrector_as_it_was(panel, monkeypatch):
    monkeypatch.setattr(Correction, "gate", lambda *_, **__: (torch.ones(HORIZON), 1.0, 0.5))
    corrector = shaken()
    before = {name: x.clone() for name, x in corrector.state_dict().items()}
    settings = Training(max_steps=3, batch_size=8)
    model, report = run(panel, Recipe(CONFIG, corrector, settings))
    assert report["steps"] == 3 * N_BLOCKS
    assert model.corrector is not corrector
    assert all(torch.equal(before[name], x) for name, x in corrector.state_dict().items())


@pytest.mark.parametrize(("error", "kept"), [(0.4, "used"), (0.6, "used: the pretrained one")])
def test_a_trained_corrector_has_to_be_better_than_the_pretrained_one(
    panel, monkeypatch, error, kept
):
    corrector = shaken()

    def gate(correction, folds, windows):
        return torch.ones(HORIZON), 1.0, 0.5 if folds == (corrector,) else error

    monkeypatch.setattr(Correction, "gate", gate)
    model, report = run(panel, Recipe(CONFIG, corrector, Training(max_steps=1, batch_size=8)))
    assert (model.corrector is corrector) == (error > 0.5)
    assert report["corrector"].startswith(kept)
    assert report["validation_error"] == min(error, 0.5)


def test_a_pretrained_corrector_that_does_not_help_is_left_out(panel):
    corrector = shaken()
    torch.nn.init.constant_(corrector.head.bias, 3.0)
    model, report = run(panel, Recipe(CONFIG, corrector))
    assert model.corrector is None
    assert report["validation_error"] == report["validation_error_base"]


LIKELIHOOD = Recipe(
    replace(CONFIG, spread=True), training=Training(max_steps=3, batch_size=8, loss="student-t")
)


@pytest.fixture
def misleading(monkeypatch):
    """Let training end at a spread that has nothing to do with the errors."""
    train = Correction.train

    def train_and_shake(correction, corrector, *args):
        history = train(correction, corrector, *args)
        torch.nn.init.normal_(corrector.spread_head.weight, std=3.0)
        return history

    monkeypatch.setattr(Correction, "train", train_and_shake)


def test_a_spread_that_does_not_help_leaves_the_base_as_it_is(panel, misleading, monkeypatch):
    monkeypatch.setattr(Correction, "gate", lambda *_, **__: (torch.zeros(HORIZON), 1.0, 1.0))
    model, report = run(panel, LIKELIHOOD)
    base, _ = run(panel, Recipe())
    assert report["spread"].startswith("not used: quantile loss ")
    assert model.corrector is None
    assert model.spread_residuals is None
    assert torch.equal(model.residuals.quantiles, base.residuals.quantiles)


def test_a_correction_is_used_without_a_spread_that_does_not_help(panel, misleading, monkeypatch):
    monkeypatch.setattr(Correction, "gate", lambda *_, **__: (torch.ones(HORIZON), 1.0, 0.5))
    model, report = run(panel, LIKELIHOOD)
    assert report["corrector"] == "used"
    assert report["spread"].startswith("not used: quantile loss ")
    assert model.corrector is not None
    assert model.spread_residuals is None


def test_a_corrector_is_judged_on_all_windows_that_neither_it_nor_the_base_has_seen(panel):
    seen = []

    def gate(correction, folds, windows):
        seen.append(len(windows))
        return torch.zeros(HORIZON), 1.0, 1.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Correction, "gate", gate)
        _, report = run(panel, Recipe(CONFIG, shaken()))
        run(panel)
        run(panel, val_size=200)
    assert seen[0] == report["training_windows"]
    straddling = N_BLOCKS - 1
    assert seen[1] == seen[0] - straddling * (HORIZON - 1)
    assert seen[2] == 200 - HORIZON + 1


@pytest.mark.parametrize(("val_size", "n_folds"), [(0, N_BLOCKS), (400, 1)])
def test_intervals_of_a_trained_corrector_come_from_windows_that_each_fold_never_saw(
    panel, monkeypatch, val_size, n_folds
):
    monkeypatch.setattr(Correction, "gate", lambda *_, **__: (torch.ones(HORIZON), 1.0, 0.5))
    seen = []

    def spied(forecasters, *args):
        seen.append(len(forecasters))
        return out_of_fold(forecasters, *args)

    monkeypatch.setattr("tsmamba.forecast.fitting.out_of_fold", spied)
    run(panel, val_size=val_size)
    assert seen == [n_folds]


def test_the_report_names_times_sizes_and_backend(panel):
    _, report = run(panel)
    assert report["seconds"] >= report["base_seconds"] > 0
    assert report["windows_per_second"] > 0
    assert report["steps"] == 3 * N_BLOCKS
    assert report["n_parameters"] > 100
    assert report["interrupted"] is False
    assert report["backend"] in ("native", "reference")
    assert report["validation_error"] <= report["validation_error_base"]


def test_a_validation_tail_is_left_out_of_all_training(make_panel):
    """Values of the tail change nothing in what is learned before it."""
    rng = np.random.default_rng(0)
    y = np.sin(np.arange(1_200) / 4) + 0.3 * rng.normal(size=1_200)
    one, other = y.copy(), y.copy()
    # Swapped, so that mean and scale of the series stay as they are.
    other[-100:] = other[-100:][::-1]
    results = [run(make_panel(x), Recipe(), val_size=100)[0] for x in (one, other)]
    torch.testing.assert_close(results[0].weights, results[1].weights, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("stop_at", [1, 2])
def test_an_interrupt_still_gives_a_model(panel, stop_at):
    def stop(step, loss):
        if step == stop_at:
            raise KeyboardInterrupt

    model, report = fitting(panel).run(stop)
    assert report["interrupted"] is True
    assert report["steps"] == stop_at
    assert model.weights.isfinite().all()


def test_equal_seeds_train_alike_to_the_last_bit(panel):
    losses = {}
    for name, seed in (("first", 0), ("again", 0), ("other", 1)):
        torch.rand(3)  # the global state plays no part
        losses[name] = []
        recipe = Recipe(CONFIG, training=Training(max_steps=4, batch_size=8))
        fitting(panel, recipe, seed=seed).run(
            lambda step, loss, seen=losses[name]: seen.append(loss)
        )
    assert losses["first"] == losses["again"]
    assert losses["first"] != losses["other"]


@pytest.mark.parametrize("seed", [0, None])
def test_the_global_random_state_is_left_as_it_was(panel, seed):
    before = torch.get_rng_state()
    state = np.random.get_state()  # noqa: NPY002  the state that must not move
    run(panel, seed=seed)
    assert torch.equal(before, torch.get_rng_state())
    assert (state[1] == np.random.get_state()[1]).all()  # noqa: NPY002


@pytest.mark.slow
def test_a_correction_that_helps_is_used_and_improves_new_data(predictable):
    train = predictable.head(-2_400)
    forecaster = MambaForecaster(
        12,
        mode="full",
        context_length=24,
        season_length=24,
        network=Network(patch_length=6, d_model=16, n_layers=1, d_state=8),
        random_state=0,
        training=Training(max_steps=250, lr=1e-2, eval_every=25),
    ).fit(train)
    report = forecaster.report_
    assert report["corrector"] == "used"
    assert report["gate"] > 0.5
    assert report["validation_error"] < 0.9 * report["validation_error_base"]
    errors = []
    for base_only in (False, True):
        frame = forecaster.cross_validation(
            predictable.tail(2_600), n_windows=190, use_fitted=True, base_only=base_only
        )
        errors.append((frame["y"] - frame["MambaForecaster"]).abs().mean())
    assert errors[0] < 0.95 * errors[1]
