import pytest

from benchmarks.logs.templates import DRAIN, grouping, mine, read_sample


def test_only_whole_groups_count():
    assert grouping([1, 1, 2], ["a", "a", "b"]) == (1.0, 1.0)
    assert grouping([1, 1, 1], ["a", "a", "b"]) == (0.0, 0.0)
    assert grouping([1, 2, 3], ["a", "a", "b"]) == pytest.approx((1 / 3, 2 / 5))


@pytest.mark.data
def test_the_samples_are_grouped_as_people_group_them(data_dir):
    accuracies = {}
    for system in DRAIN:
        sample = read_sample(data_dir, system)
        miner, roots = mine(sample.messages)
        assert roots == [miner.match(message) for message in sample.messages], system
        accuracies[system] = grouping(roots, sample.events).accuracy
    assert sum(accuracies.values()) / len(accuracies) > 0.98
    assert min(accuracies.values()) > 0.93
