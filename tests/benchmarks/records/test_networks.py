import torch

from benchmarks.records.networks import GRUD, GRUDForecasts
from tsmamba.records.tokens import Batch


def batch_of(length):
    generator = torch.Generator().manual_seed(0)
    return Batch(
        torch.randn(2, 5, 3, generator=generator)[:, :length],
        torch.zeros(2, length, 3, dtype=torch.uint8),
        torch.ones(2, length),
        torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, :length],
        torch.zeros(2, 1),
    )


@torch.no_grad()
def test_padding_does_not_change_an_answer():
    torch.manual_seed(0)
    network = GRUD(3, 1).eval()
    torch.testing.assert_close(network(batch_of(5))[1], network(batch_of(3))[1])


@torch.no_grad()
def test_a_new_forecaster_gives_a_part_of_the_last_value():
    network = GRUDForecasts(3, 1, horizon=2).eval()
    said = network(batch_of(5))
    torch.testing.assert_close(said, 0.7 * batch_of(5).values[:, :, None].expand(said.shape))
