import torch

from tsmamba.logs.network.model import NextTemplate, gap_features


def test_what_comes_later_changes_nothing_before():
    torch.manual_seed(0)
    network = NextTemplate(6).eval()
    numbers, gaps = torch.randint(6, (2, 20)), torch.rand(2, 20)
    later, waits = numbers.clone(), gaps.clone()
    later[:, 12:], waits[:, 12:] = 0, -1.0
    before, after = network(numbers, gaps), network(later, waits)
    assert torch.equal(before[:, :12], after[:, :12])
    assert not torch.allclose(before[:, 12:], after[:, 12:])


def test_gaps_count_and_an_unknown_one_is_not_none():
    torch.manual_seed(0)
    network = NextTemplate(6).eval()
    numbers = torch.randint(6, (1, 5))
    told = [network(numbers, torch.full((1, 5), gap)) for gap in (-1.0, 0.0, 3.0)]
    assert not torch.allclose(told[0], told[1])
    assert not torch.allclose(told[1], told[2])
    features = gap_features(torch.tensor([-1.0, -7.0, 0.0, 86_400.0]))
    assert torch.equal(features[0], features[1])
    assert features[:, 1].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert 1.0 < features[3, 0] < 4.0
