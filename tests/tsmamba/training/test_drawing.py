import pytest
import torch

from tsmamba import Training
from tsmamba.training.drawing import drawn, training_of


@pytest.mark.parametrize(("n", "size", "batches"), [(10, 4, [4, 4]), (10, 5, [5, 5]), (3, 8, [3])])
def test_every_stay_is_drawn_once_before_any_comes_again(n, size, batches):
    batches_of = drawn(torch.arange(n) + 100, size)
    for _ in range(3):
        seen = [next(batches_of) for _ in batches]
        assert [len(part) for part in seen] == batches
        together = torch.cat(seen)
        assert len(together.unique()) == len(together)
        assert set(together.tolist()) <= set(range(100, 100 + n))


@pytest.mark.parametrize(("stays", "steps"), [(640, 20), (10, 2), (1, 2)])
def test_training_is_so_many_times_over_the_stays(stays, steps):
    knobs = training_of(None, Training(batch_size=64, lr=0.1), stays, readings=2 * stays)
    assert (knobs.max_steps, knobs.eval_every, knobs.lr) == (steps, steps, 0.1)


def test_knobs_of_the_user_win():
    given = Training(max_steps=7, lr=0.5)
    knobs = training_of(given, Training(lr=0.1), stays=640, readings=1280)
    assert (knobs.max_steps, knobs.eval_every, knobs.lr) == (7, 7, 0.5)
    assert given.eval_every == 50
