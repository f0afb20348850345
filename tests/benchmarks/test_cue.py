import pytest
import torch

from benchmarks.memory import cue


def pulses(history, level):
    """Return how many steps back the highest run of each window is, pointing its way."""
    runs = (history * level[:, None]).unfold(1, cue._PULSE, 1).mean(2)
    return cue.LENGTH - runs.argmax(1)


def test_far_pulses_are_beyond_six_thousand_steps_and_point_to_the_level():
    history, level = cue.windows(200, torch.Generator().manual_seed(0), far=True)
    back = pulses(history, level)
    assert back.min() >= 6_000 - 2
    assert back.max() <= 6_066
    assert set(level.tolist()) == {-1, 1}


def test_pulses_to_learn_from_are_near_and_far():
    history, level = cue.windows(400, torch.Generator().manual_seed(0), far=False)
    back = pulses(history, level)
    assert back.max() <= 6_002
    near, middle = (back < 120).float().mean(), (back < 1_000).float().mean()
    assert 0.2 < near < 0.5  # of the logarithm of the way a third
    assert 0.5 < middle < 0.8


@pytest.mark.parametrize("name", cue.CONTESTANTS)
def test_contestants_answer_before_they_are_trained(name):
    found = cue.solve(cue.CONTESTANTS[name](), seed=0, steps=1)
    assert found.mae == pytest.approx(1, abs=0.1)
    assert 0.3 < found.right < 0.7


def test_what_is_beyond_the_context_is_not_seen():
    history, _ = cue.windows(2, torch.Generator().manual_seed(0), far=True)
    short = cue.make(4_096)
    torch.nn.init.normal_(short.head.weight)
    other = history.clone()
    other[:, : cue.LENGTH - 5_900] = 0  # the pulses too
    said = (cue.forecasts(short.eval(), each[:, -4_096:]) for each in (history, other))
    torch.testing.assert_close(*said, rtol=0, atol=0)
