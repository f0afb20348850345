import numpy as np
import pytest
import torch

from tsmamba.outcomes.lessons import Lessons, draw


@pytest.fixture(autouse=True)
def seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize(
    ("counts", "size", "taken"),
    [
        ((6, 4), 100, (6, 4)),
        ((90, 10), 20, (10, 10)),
        ((90, 3), 20, (17, 3)),
        ((50, 4, 30), 24, (10, 4, 10)),
    ],
)
def test_of_each_class_as_many_are_drawn_as_there_are_or_an_equal_share(counts, size, taken):
    classes = np.repeat(np.arange(len(counts)), counts)
    which, _ = draw(np.random.default_rng(0).permutation(classes), size)
    assert len(set(which)) == len(which) == sum(taken)
    which, weights = draw(classes, size)
    assert np.bincount(classes[which]).tolist() == list(taken)
    assert (np.diff(which) > 0).all()
    of_class = np.bincount(classes[which], weights) / weights.sum()
    np.testing.assert_allclose(of_class, np.array(counts) / sum(counts))
    assert weights.mean() == pytest.approx(1)


def test_all_are_drawn_with_weight_one_where_there_are_few():
    which, weights = draw(np.array([1, 0, 1, 0, 0]), 5)
    assert which.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(weights, 1)


def test_draws_follow_the_seed():
    classes = np.arange(1_000) % 2
    one, _ = draw(classes, 100)
    other, _ = draw(classes, 100)
    torch.manual_seed(0)
    again, _ = draw(classes, 100)
    assert one.tolist() == again.tolist() != other.tolist()


def test_no_subject_is_on_both_sides_of_a_fold():
    subjects = np.repeat(np.arange(40), 6)
    classes = (np.arange(240) % 6 > 3) & (subjects % 3 == 0)
    lessons = Lessons(None, classes.astype(int), np.ones(240), subjects, cut=True)
    seen = []
    for inside, outside in lessons.folds(4, lessons.targets):
        assert not set(subjects[inside]) & set(subjects[outside])
        assert set(classes[inside]) == {0, 1}
        seen += outside.tolist()
    assert sorted(seen) == list(range(240))
