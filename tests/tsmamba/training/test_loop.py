import time

import pytest
import torch
from torch import nn

from tsmamba.nn import MambaStack
from tsmamba.training import Training, train
from tsmamba.training.loop import _parameter_groups


class Point(nn.Module):
    """A network of one number, which training moves towards 1."""

    def __init__(self):
        super().__init__()
        self.x = nn.Parameter(torch.zeros(()))


def run(settings, errors=None, on_step=lambda step, loss: None):
    """Train a point; ``errors`` replaces its validation errors, look by look."""
    looks = iter(errors or [])
    seen = []

    def validation_error(network):
        seen.append(float(network.x.detach()))
        return next(looks) if errors else float((network.x - 1).detach().abs())

    network = Point()
    history = train(network, settings, lambda net: (net.x - 1).square(), validation_error, on_step)
    return network, history, seen


def test_training_lowers_the_validation_error():
    network, history, _ = run(Training(max_steps=200, lr=0.1, eval_every=10))
    assert history.steps == 200
    assert history.errors[0] == (0, 1.0)
    assert min(error for _, error in history.errors) < 0.1
    assert abs(float(network.x.detach()) - 1) == min(error for _, error in history.errors)
    assert not network.training


def test_the_weights_of_the_least_error_are_kept():
    network, history, seen = run(
        Training(max_steps=40, lr=0.1, eval_every=10), errors=[5.0, 4.0, 1.0, 2.0, 3.0]
    )
    assert [step for step, _ in history.errors] == [0, 10, 20, 30, 40]
    assert float(network.x.detach()) == seen[2]
    assert len(set(seen)) == 5


@pytest.mark.parametrize("errors", [[1.0, 2.0, 3.0], [1.0, float("nan"), float("nan")]])
def test_training_that_does_not_help_changes_nothing(errors):
    network, _, _ = run(Training(max_steps=20, lr=0.1, eval_every=10), errors=errors)
    assert float(network.x.detach()) == 0


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_few_steps_are_as_good_as_many(steps):
    calls = []
    _, history, _ = run(
        Training(max_steps=steps, lr=0.1), on_step=lambda step, loss: calls.append(step)
    )
    assert history.steps == steps
    assert calls == list(range(1, steps + 1))
    assert history.errors[-1][0] == steps
    assert history.windows == steps * Training().batch_size


def test_time_runs_out():
    started = time.perf_counter()
    _, history, _ = run(
        Training(max_steps=1_000_000, max_time=0.2, eval_every=1_000_000),
        on_step=lambda step, loss: time.sleep(0.01),
    )
    assert 1 <= history.steps <= 21
    assert time.perf_counter() - started < 5
    # The last look is taken however early the end comes.
    assert history.errors[-1][0] == history.steps


def test_an_interrupt_keeps_the_best_so_far():
    def stop(step, loss):
        if step == 25:
            raise KeyboardInterrupt

    network, history, seen = run(
        Training(max_steps=40, lr=0.1, eval_every=10), errors=[5.0, 1.0, 3.0], on_step=stop
    )
    assert history.interrupted
    assert history.steps == 25
    assert float(network.x.detach()) == seen[1]
    assert not network.training


def test_other_errors_are_not_swallowed():
    def stop(step, loss):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(Training(max_steps=3), on_step=stop)


def test_only_matrices_decay():
    network = nn.Module()
    network.stack = MambaStack(8, n_layers=1)
    network.position = nn.Parameter(torch.zeros(2, 8))
    decayed, free = _parameter_groups(network, Training(weight_decay=0.3))
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.3, 0.0)
    names = {id(p): name for name, p in network.named_parameters()}
    assert {names[id(p)] for p in free["params"]} == {
        "position",
        "stack.layers.0.norm.weight",
        "stack.layers.0.mixer.A_log",
        "stack.layers.0.mixer.D",
        "stack.layers.0.mixer.conv1d.bias",
        "stack.layers.0.mixer.dt_proj.bias",
        "stack.norm_f.weight",
    }
    assert {names[id(p)].split("mixer.")[1] for p in decayed["params"]} == {
        "in_proj.weight",
        "conv1d.weight",
        "x_proj.weight",
        "dt_proj.weight",
        "out_proj.weight",
    }


def test_no_parameter_is_in_no_group_or_in_two():
    network = MambaStack(8, n_layers=2, bidirectional=True)
    groups = _parameter_groups(network, Training())
    listed = [id(p) for group in groups for p in group["params"]]
    assert sorted(listed) == sorted(id(p) for p in network.parameters())


def test_gradients_are_clipped():
    sizes = []
    network = Point()
    network.x.register_hook(lambda gradient: gradient * 1e6)
    train(
        network,
        Training(max_steps=3, clip_norm=0.5),
        lambda net: (net.x - 1).square(),
        lambda net: 0.0,
        lambda step, loss: sizes.append(float(network.x.grad.abs())),
    )
    assert max(sizes) <= 0.5 + 1e-6
