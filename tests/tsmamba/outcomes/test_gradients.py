from dataclasses import replace

import numpy as np
import pytest
import torch

from tsmamba.outcomes.fitting import network_outputs
from tsmamba.outcomes.gradients import integrated_gradients
from tsmamba.outcomes.network import RecordConfig, RecordNetwork
from tsmamba.records.tokens import NEVER, Tokens

LENGTHS = [5, 1, 9, 3, 4, 7, 2, 6, 8, 5]


def tokens_of(rng):
    """Return stays of three codes and two static features, values carried forward."""
    values, since = [], []
    for length in LENGTHS:
        last, ago = np.zeros(3), np.full(3, NEVER)
        for _ in range(length):
            new = rng.random(3) < 0.5
            last = np.where(new, rng.normal(size=3), last)
            ago = np.where(new, 0, np.where(ago == NEVER, NEVER, ago + 1))
            values.append(last)
            since.append(ago)
    offsets = torch.tensor([0, *np.cumsum(LENGTHS)])
    return Tokens(
        torch.tensor(np.array(values), dtype=torch.float32),
        torch.tensor(np.array(since), dtype=torch.uint8),
        torch.ones(len(values)),
        offsets,
        torch.tensor(rng.normal(size=(len(LENGTHS), 2)), dtype=torch.float32),
    )


def usual_of(tokens):
    return replace(
        tokens, values=torch.zeros_like(tokens.values), statics=torch.zeros_like(tokens.statics)
    )


@pytest.fixture(params=[False, True], ids=["both ways", "causal"])
def network(request):
    config = RecordConfig(n_codes=3, n_statics=2, n_outputs=2, causal=request.param, d_model=16)
    return RecordNetwork(config).eval()


def test_shares_of_a_stay_add_up_to_the_difference_of_its_answers(network, rng):
    tokens = tokens_of(rng)
    weights = np.array([1.0, -0.5])
    values, statics = integrated_gradients(network, tokens, usual_of(tokens), weights)
    which = np.arange(len(tokens))
    answers = [network_outputs(network, each, which) for each in (tokens, usual_of(tokens))]
    difference = (answers[0] - answers[1]) @ weights
    assert abs(difference).max() > 0.1
    summed = np.add.reduceat(values.sum(1), tokens.offsets[:-1].numpy()) + statics.sum(1)
    np.testing.assert_allclose(summed, difference, rtol=0, atol=3e-3)


def test_only_tokens_in_which_a_code_was_measured_have_a_share(network, rng):
    tokens = tokens_of(rng)
    values, _ = integrated_gradients(network, tokens, usual_of(tokens), np.ones(2))
    measured = tokens.since.numpy() == 0
    assert not values[~measured].any()
    assert (values[measured] != 0).all()


def test_a_stay_has_the_same_shares_alone(network, rng):
    tokens = tokens_of(rng)
    values, statics = integrated_gradients(network, tokens, usual_of(tokens), np.ones(2))
    begin, end = tokens.offsets[2], tokens.offsets[3]
    alone = Tokens(
        tokens.values[begin:end],
        tokens.since[begin:end],
        tokens.elapsed[begin:end],
        torch.tensor([0, LENGTHS[2]]),
        tokens.statics[2:3],
    )
    shares = integrated_gradients(network, alone, usual_of(alone), np.ones(2))
    np.testing.assert_allclose(shares[0], values[begin:end], rtol=0, atol=1e-5)
    np.testing.assert_allclose(shares[1], statics[2:3], rtol=0, atol=1e-5)


def test_a_network_without_statics_has_no_share_of_them(rng):
    network = RecordNetwork(RecordConfig(n_codes=3, n_statics=0, n_outputs=1, d_model=16)).eval()
    tokens = replace(tokens_of(rng), statics=torch.zeros(len(LENGTHS), 0))
    values, statics = integrated_gradients(network, tokens, usual_of(tokens), np.ones(1))
    assert statics.shape == (len(LENGTHS), 0)
    assert values.any()
