from dataclasses import replace

import pytest
import torch

from tsmamba.forecast.events.network import EventConfig, EventNetwork


@pytest.fixture
def network(record):
    torch.manual_seed(0)
    n_codes, n_statics = record.latest.shape[1], record.tokens.statics.shape[1]
    return EventNetwork(EventConfig(n_codes, n_statics, horizon=2, d_model=8)).eval()


def moved(network):
    """Return the network with a head that says something."""
    torch.nn.init.normal_(network.head.weight)
    return network


def test_a_new_network_carries_the_last_value_forward(network, one_stay):
    said = network(*one_stay)
    torch.testing.assert_close(said, one_stay[0].values[:, :, None].expand(said.shape))


@torch.no_grad()
def test_what_comes_later_changes_nothing(network, one_stay):
    batch, latest = one_stay
    network = moved(network)
    whole = network(batch, latest)
    other = batch.values.clone()
    other[:, 3:] += 1
    changed = network(replace(batch, values=other), latest)
    torch.testing.assert_close(changed[:, :3], whole[:, :3])
    assert (changed[:, 3:] - whole[:, 3:]).abs().max() > 0.1


@torch.no_grad()
def test_a_stay_is_forecast_alike_alone_and_among_others(network, record):
    network = moved(network)
    together, mask = network(*record.batch(torch.arange(6))), record.batch(torch.arange(6))[0].mask
    for stay in range(6):
        alone = network(*record.batch(torch.tensor([stay])))[0]
        torch.testing.assert_close(together[stay][mask[stay]], alone, atol=1e-5, rtol=1e-5)
