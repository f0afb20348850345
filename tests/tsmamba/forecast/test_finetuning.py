"""`finetune`: the corrector learns from other rows, in parts, and is never taken for the worse."""

from copy import deepcopy
from itertools import count

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from safetensors import safe_open
from sklearn.exceptions import NotFittedError

from tsmamba import MambaForecaster, Network, Training
from tsmamba.errors import FrameError, ParameterError
from tsmamba.forecast import correction
from tsmamba.forecast.correction import Correction
from tsmamba.forecast.pretrained import pretrained_corrector
from tsmamba.training import train

POINT = "MambaForecaster"
HORIZON = 6  # so short that each quarter of the rows has validation windows
METHODS = ("full", "head", "ssm-frozen", "lora")
OF_THE_SCAN = ("A_log", "D", "x_proj.weight", "dt_proj.weight", "dt_proj.bias")
FEW = Training(max_steps=3, batch_size=16, eval_every=1)


@pytest.fixture(scope="module")
def early(seasonal):
    """The first 700 hours of each series."""
    return seasonal.filter(pl.int_range(pl.len()).over("unique_id") < 700)


@pytest.fixture(scope="module")
def late(seasonal):
    """The next 600 hours."""
    rank = pl.int_range(pl.len()).over("unique_id")
    return seasonal.filter(rank.is_between(700, 1_299))


@pytest.fixture(scope="module")
def once(small, early):
    """A forecaster whose corrector is off its initial zeros, and in use."""

    def gate(correction, corrector, windows, **kwargs):
        return torch.ones(correction.horizon), 1.0, 0.5

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Correction, "gate", gate)
        forecaster = small(HORIZON).fit(early)
    torch.manual_seed(0)
    torch.nn.init.normal_(forecaster._fitted.model.corrector.head.weight, std=0.1)
    return forecaster


@pytest.fixture
def fitted(once):
    return deepcopy(once)


@pytest.fixture
def last_weights(monkeypatch):
    """Let training keep its last weights, whether they are better or not."""

    def train_to_the_end(network, settings, batch_loss, validation_error, *rest):
        falling = count(0, -1)
        return train(network, settings, batch_loss, lambda _: float(next(falling)), *rest)

    monkeypatch.setattr(correction, "train", train_to_the_end)


@pytest.fixture
def judged_as(monkeypatch):
    """Return a function that sets what the gate finds the validation error to be."""

    def judge(error):
        def gate(correction, corrector, windows, **kwargs):
            return torch.ones(correction.horizon), 1.0, error

        monkeypatch.setattr(Correction, "gate", gate)

    return judge


@pytest.fixture
def taken(judged_as, last_weights):
    """Let every result be taken."""
    judged_as(0.0)


def weights_of(forecaster):
    return deepcopy(forecaster._fitted.model.corrector.state_dict())


def state_of(forecaster):
    """All that a refused call must leave."""
    settings, tensors = forecaster._fitted.model.to_parts()
    return {
        "settings": settings,
        "tensors": {name: x.tolist() for name, x in tensors.items()},
        "history": forecaster._fitted.history.rows(),
        "scaling": forecaster._fitted.scaling.loc.tolist(),
        "report": forecaster.report_,
        "parameters": forecaster.get_params(),
    }


def without_times(report):
    return {name: x for name, x in report.items() if "second" not in name}


# What it trains


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("method", METHODS)
def test_frozen_weights_are_bit_for_bit_the_same(fitted, late, method):
    before = weights_of(fitted)
    assert fitted.finetune(late, method=method, training=FEW) is fitted
    after = weights_of(fitted)
    assert list(after) == list(before)
    moved = {name for name in after if not torch.equal(after[name], before[name])}
    heads = {"head.weight", "head.bias"}
    assert (
        moved
        == {
            "full": set(before),
            "head": heads,
            "ssm-frozen": {name for name in before if not name.endswith(OF_THE_SCAN)},
            "lora": heads | {"stack.layers.0.mixer.x_proj.weight"},
        }[method]
    )


@pytest.mark.usefixtures("taken")
def test_full_is_what_partial_fit_does_in_full_mode(fitted, late):
    learned, tuned = deepcopy(fitted).partial_fit(late), fitted.finetune(late, method="full")
    assert_frame_equal(learned.predict(), tuned.predict(), check_exact=True)
    told = set(tuned.report_) - set(learned.report_)
    assert told == {"finetuning", "validation_error_before"}


@pytest.mark.usefixtures("taken")
def test_the_bundled_corrector_is_tuned_in_fast_mode_and_stays_as_it_is(fast, early, late):
    bundled = deepcopy(pretrained_corrector().state_dict())
    forecaster = fast(HORIZON, random_state=0).fit(early)
    forecaster.finetune(late, method="head", training=FEW)
    after = weights_of(forecaster)
    assert {name for name in after if not torch.equal(after[name], bundled[name])} == {
        "head.weight",
        "head.bias",
    }
    kept = pretrained_corrector().state_dict()
    assert all(torch.equal(kept[name], bundled[name]) for name in bundled)
    tuned = forecaster._fitted.model.corrector
    assert forecaster.partial_fit(late)._fitted.model.corrector is tuned


@pytest.mark.usefixtures("taken")
def test_where_the_fit_left_the_corrector_out_the_bundled_one_is_tuned(base, early, late):
    forecaster = base(HORIZON).fit(early).set_params(mode="fast", random_state=0)
    assert forecaster._fitted.model.corrector is None
    after = weights_of(forecaster.finetune(late, method="head", training=FEW))
    bundled = pretrained_corrector().state_dict()
    same = {name for name in after if torch.equal(after[name], bundled[name])}
    assert same == set(after) - {"head.weight", "head.bias"}


@pytest.mark.usefixtures("taken")
def test_with_a_likelihood_the_spread_is_learned_too(fitted, late):
    training = Training(max_steps=3, batch_size=16, loss="student-t")
    fitted.finetune(late, method="head", training=training)
    assert "spread_head.weight" in weights_of(fitted)
    assert fitted.predict()[f"{POINT}-hi-90"].is_finite().all()


@pytest.mark.usefixtures("taken")
def test_new_series_are_learned_from_and_forecast(fitted, late, seasonal):
    new = late.filter(unique_id=late["unique_id"][0]).with_columns(
        y=40 * pl.col("y"), unique_id=pl.lit("new")
    )
    forecaster = fitted.finetune(new, method="lora", training=FEW)
    assert sorted(forecaster.predict()["unique_id"].unique()) == [
        "new",
        *seasonal["unique_id"].unique().sort(),
    ]


@pytest.mark.usefixtures("taken")
def test_the_order_of_rows_and_series_is_irrelevant(fitted, late):
    turned = late.sort("unique_id", "ds", descending=[True, False])
    other = deepcopy(fitted).finetune(turned, method="lora", training=FEW)
    one = fitted.finetune(late, method="lora", training=FEW)
    assert_frame_equal(one.predict(), other.predict(), check_exact=True)


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("method", METHODS)
def test_a_seed_repeats_the_training_and_leaves_the_global_one(fitted, late, method):
    state = torch.random.get_rng_state()
    tuned = [
        deepcopy(fitted).set_params(random_state=seed).finetune(late, method=method, training=FEW)
        for seed in (0, 0, 1)
    ]
    assert torch.equal(torch.random.get_rng_state(), state)
    one, other, third = (x.predict() for x in tuned)
    assert_frame_equal(one, other, check_exact=True)
    assert not one[POINT].equals(third[POINT])
    assert without_times(tuned[0].report_) == without_times(tuned[1].report_)


# Files


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("method", METHODS)
def test_a_file_holds_merged_weights_under_the_usual_names(fitted, late, method, tmp_path):
    fitted.save(tmp_path / "before.tsm")
    fitted.finetune(late, method=method, training=FEW)
    fitted.save(tmp_path / "after.tsm")
    names = []
    for name in ("before.tsm", "after.tsm"):
        with safe_open(tmp_path / name, "pt") as file:
            names.append({key for key in file.keys() if key.startswith("corrector.")})  # noqa: SIM118
    assert names[0] == names[1]
    loaded = MambaForecaster.load(tmp_path / "after.tsm")
    assert_frame_equal(loaded.predict(), fitted.predict(), check_exact=True)


@pytest.mark.usefixtures("taken")
def test_a_loaded_forecaster_tunes_to_the_same(fitted, late, tmp_path):
    fitted.save(tmp_path / "m.tsm")
    loaded = MambaForecaster.load(tmp_path / "m.tsm")
    outs = [x.finetune(late, method="lora", training=FEW).predict() for x in (fitted, loaded)]
    assert_frame_equal(*outs, check_exact=True)


# The gate


@pytest.mark.usefixtures("last_weights")
@pytest.mark.parametrize("method", METHODS)
def test_what_is_worse_is_not_taken_but_intervals_are_judged_anew(fitted, late, judged_as, method):
    judged_as(1e3)
    before, updated = fitted._fitted.model, deepcopy(fitted).update(late)
    fitted.finetune(late, method=method, training=FEW)
    after = fitted._fitted.model
    assert fitted.report_["finetuning"].startswith("not used: validation error")
    assert after.corrector is before.corrector
    assert after.weights is before.weights
    assert after.gate is before.gate
    assert not torch.equal(after.residuals.quantiles, before.residuals.quantiles)
    keys = ["unique_id", "ds", POINT]
    assert_frame_equal(
        fitted.predict().select(keys), updated.predict().select(keys), check_exact=True
    )


@pytest.mark.parametrize("lr", [1e-3, 10.0])
@pytest.mark.parametrize("method", ["full", "lora"])
def test_the_result_is_taken_just_where_its_validation_error_is_less(fitted, late, method, lr):
    before = fitted._fitted.model
    fitted.finetune(late, method=method, training=Training(max_steps=8, lr=lr, eval_every=4))
    report = fitted.report_
    better = report["validation_error"] < report["validation_error_before"]
    assert report["finetuning"].startswith("used: " if better else "not used: ")
    assert (fitted._fitted.model.weights is before.weights) != better


def test_rows_of_another_rhythm_are_learned_from(fast):
    t = np.arange(2_000)
    season = np.where(t < 1_200, np.sin(2 * np.pi * t / 24), np.sin(2 * np.pi * t / 11))
    noise = 0.5 * np.random.default_rng(0).normal(size=len(t))
    frame = pl.DataFrame({"ds": t, "y": 3 * season + noise})
    old, rows, rest = frame.head(1_200), frame.slice(1_200, 600), frame.tail(200)
    forecaster = fast(HORIZON, random_state=0).fit(old)
    updated = deepcopy(forecaster).update(rows)
    tuned = forecaster.finetune(rows, method="lora", training=FEW)
    assert tuned.report_["finetuning"].startswith("used")
    assert tuned.score(rest, metric="mae") > 0.5 * updated.score(rest, metric="mae")


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (5, "the rows hold no window of 6 steps"),
        (300, "the longest series has 300 steps, fewer than 512"),
    ],
)
def test_few_rows_change_no_weights_and_the_report_says_why(fitted, late, steps, reason):
    rows = late.filter(pl.int_range(pl.len()).over("unique_id") < steps)
    before, updated = fitted._fitted.model, deepcopy(fitted).update(rows)
    fitted.finetune(rows)
    assert fitted._fitted.model is before
    assert fitted.report_["finetuning"] == f"not used: {reason}"
    assert_frame_equal(fitted.predict(), updated.predict(), check_exact=True)


# Refusals and interruptions


REFUSED = {
    "method": ({"method": "all"}, ParameterError, "method='all'; pass one of 'full', 'head'"),
    "warm-up": ({"method": "head", "warmup_steps": 9}, ParameterError, "warmup_steps=9 trains"),
    "rank": ({"rank": 0}, ParameterError, "rank=0; pass a whole number"),
    "training": ({"training": 5}, ParameterError, "training=5; pass a tsmamba.Training or None"),
    "knob": ({"training": Training(lr=-1)}, ParameterError, "training: lr=-1; pass a number"),
}
NO_ROWS = {
    "no target": (lambda rows: rows.drop("y"), "no column 'y', which the model was fitted with"),
    "no ids": (lambda rows: rows.drop("unique_id"), "column 'unique_id'"),
    "infinite": (lambda rows: rows.with_columns(y=pl.lit(np.inf)), "is infinite"),
    "no frame": (lambda rows: rows["y"].to_list(), "got list"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_make_no_sense_change_nothing(fitted, late, case):
    given, error, message = REFUSED[case]
    before = state_of(fitted)
    with pytest.raises(error, match=message):
        fitted.finetune(late, **given)
    assert state_of(fitted) == before


@pytest.mark.parametrize("case", NO_ROWS)
def test_refused_rows_change_nothing(fitted, late, case):
    change, message = NO_ROWS[case]
    before = state_of(fitted)
    with pytest.raises(FrameError, match=message):
        fitted.finetune(change(late))
    assert state_of(fitted) == before


def test_without_a_fit_there_is_nothing_to_tune(small, late):
    with pytest.raises(NotFittedError):
        small().finetune(late)


def test_a_base_alone_has_nothing_to_tune(base, early, late):
    forecaster = base(HORIZON).fit(early)
    before = state_of(forecaster)
    with pytest.raises(ParameterError, match="mode='base' has no corrector to tune; call partial"):
        forecaster.finetune(late)
    assert state_of(forecaster) == before


def test_random_weights_are_not_tuned(base, early, late):
    network = Network(d_model=8)
    forecaster = base(HORIZON).fit(early).set_params(mode="full", network=network)
    before = state_of(forecaster)
    with pytest.raises(ParameterError, match="another shape than network=; call partial_fit"):
        forecaster.finetune(late)
    assert state_of(forecaster) == before


@pytest.mark.parametrize("method", METHODS)
def test_ctrl_c_in_training_keeps_the_best_weights_so_far(
    fitted, late, method, judged_as, monkeypatch
):
    judged_as(0.0)
    before, loss, calls = weights_of(fitted), Correction.loss, count()

    def pressed(correction, network, *args):
        if network.training and next(calls) == 2:
            raise KeyboardInterrupt
        return loss(correction, network, *args)

    monkeypatch.setattr(Correction, "loss", pressed)
    fitted.finetune(late, method=method)
    assert fitted.report_["interrupted"]
    assert fitted.report_["steps"] == 2
    assert list(weights_of(fitted)) == list(before)
    assert fitted.predict()[POINT].is_finite().all()


@pytest.mark.parametrize("method", METHODS)
def test_ctrl_c_anywhere_else_leaves_it_as_before(fitted, late, method, monkeypatch):
    before, forecast = state_of(fitted), fitted.predict()

    def pressed(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Correction, "gate", pressed)
        with pytest.raises(KeyboardInterrupt):
            fitted.finetune(late, method=method, training=FEW)
    assert state_of(fitted) == before
    assert_frame_equal(fitted.predict(), forecast, check_exact=True)
