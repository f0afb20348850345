"""What each method trains of a corrector."""

import copy

import pytest
import torch

from tsmamba import Training
from tsmamba.errors import ParameterError
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.forecast.tuning import Tuning
from tsmamba.training import History, train

METHODS = ("full", "head", "ssm-frozen", "lora")
CONFIG = CorrectorConfig(
    history=48, horizon=20, patch=8, n_context=2, d_model=8, d_state=4, dropout=0.0, spread=True
)
INPUTS = (
    torch.randn(4, 48),
    torch.randn(4, 20),
    torch.ones(4, 48, dtype=torch.bool),
    torch.randn(4, 9, 2),
)
HEADS = {"head.weight", "head.bias", "spread_head.weight", "spread_head.bias", "raw_freedom"}
OF_THE_SCAN = ("A_log", "D", "x_proj.weight", "dt_proj.weight", "dt_proj.bias")
SELECTION = {f"stack.layers.{depth}.mixer.x_proj.weight" for depth in (0, 1)}


@pytest.fixture
def corrector():
    """A corrector off its initial zeros, so that every weight has a gradient."""
    torch.manual_seed(0)
    made = Corrector(CONFIG)
    for head in (made.head, made.spread_head):
        torch.nn.init.normal_(head.weight, std=0.3)
    return made


def train_to_the_end(network, settings, on_step):
    """Train for any loss that reaches all outputs, and keep the last weights."""
    errors = iter(range(0, -1_000, -1))

    def loss(network):
        correction, spread = network.outputs(*INPUTS)
        return (correction - 1).square().mean() + (spread - 1).square().mean() + network.freedom

    return train(network, settings, loss, lambda network: next(errors), on_step)


def tuned(corrector, tuning, train=train_to_the_end, steps=3):
    settings = Training(max_steps=steps, lr=1e-2, eval_every=1)
    return tuning.train(corrector, settings, train, lambda step, loss: None)


def moved(corrector, before):
    after = corrector.state_dict()
    assert list(after) == list(before)
    return {name for name in after if not torch.equal(after[name], before[name])}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_moves_what_it_says_and_nothing_else(corrector, method):
    before = copy.deepcopy(corrector.state_dict())
    tuned(corrector, Tuning(method))
    expected = {
        "full": set(before),
        "head": HEADS,
        "ssm-frozen": {name for name in before if not name.endswith(OF_THE_SCAN)},
        "lora": HEADS | SELECTION,
    }
    assert moved(corrector, before) == expected[method]


def test_low_rank_matrices_leave_the_step_sizes(corrector):
    before = copy.deepcopy(corrector.state_dict())
    tuned(corrector, Tuning("lora", rank=2))
    after = corrector.state_dict()
    rank = corrector.stack.layers[0].mixer.dt_rank
    for name in SELECTION:
        assert torch.equal(after[name][:rank], before[name][:rank])
        change = (after[name] - before[name]).double()
        assert torch.linalg.matrix_rank(change, rtol=1e-4) == 2


@pytest.mark.parametrize("method", METHODS)
def test_no_steps_change_nothing(corrector, method):
    before = copy.deepcopy(corrector.state_dict())
    tuned(corrector, Tuning(method), steps=0)
    assert not moved(corrector, before)


def test_a_warm_up_comes_first_and_moves_the_decay_rates_alone(corrector):
    before, seen, told = copy.deepcopy(corrector.state_dict()), [], []

    def watched(network, settings, on_step):
        start = copy.deepcopy(network.state_dict())
        history = train_to_the_end(network, settings, on_step)
        seen.append((settings.steps, settings.lr, moved(network, start)))
        return history

    settings = Training(max_steps=3, lr=1e-2, eval_every=1)
    tuning = Tuning(warmup_steps=2)
    tuning.train(corrector, settings, watched, lambda step, loss: told.append(step))
    rates = {name for name in before if name.endswith("A_log")}
    assert seen == [(2, 1e-5, rates), (3, 1e-2, set(before))]
    assert told == [1, 2, 3, 4, 5]
    assert settings.get_params() == Training(max_steps=3, lr=1e-2, eval_every=1).get_params()


def test_a_warm_up_that_the_user_ends_is_the_end(corrector):
    calls = []

    def ended(network, settings, on_step):
        calls.append(settings.steps)
        return History(steps=1, interrupted=True)

    assert tuned(corrector, Tuning(warmup_steps=2), ended).interrupted
    assert calls == [2]


@pytest.mark.parametrize("method", METHODS)
def test_a_training_that_the_user_ends_leaves_plain_weights(corrector, method):
    before = copy.deepcopy(corrector.state_dict())

    def ended(network, settings, on_step):
        return History(interrupted=True)

    assert tuned(corrector, Tuning(method), ended).interrupted
    assert not moved(corrector, before)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "all"}, "method='all'; pass one of 'full', 'head', 'ssm-frozen', 'lora'"),
        ({"method": None}, "method=None; pass one of"),
        ({"warmup_steps": -1}, "warmup_steps=-1; pass a whole number of at least 0"),
        ({"rank": 0}, "rank=0; pass a whole number of at least 1"),
        ({"alpha": -1.0}, r"alpha=-1\.0; pass a number above 0"),
        (
            {"method": "lora", "warmup_steps": 5},
            "warmup_steps=5 trains the decay rates, which method='lora' freezes",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        Tuning(**given).check()
