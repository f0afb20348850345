import numpy as np
import pytest
import torch

from benchmarks.anomaly.learned import pooled
from benchmarks.anomaly.learned.pool import Member, tokens_of
from benchmarks.anomaly.learned.pooled import corrected, pooled_corrector, pretrained


def chaos(n, seed):
    """Return a logistic map, which is noise to a line and known to a parabola."""
    values = np.empty(n)
    values[0] = np.random.default_rng(seed).uniform(0.2, 0.8)
    for i in range(1, n):
        values[i] = 3.9 * values[i - 1] * (1 - values[i - 1])
    return values


@pytest.fixture(scope="module")
def pool():
    return [Member("synthetic", *tokens_of(chaos(1_500, seed))) for seed in range(12)]


@pytest.fixture(scope="module")
def network(pool):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_STEPS", 80), ("_EVERY", 40), ("_WINDOW", 128), ("_BATCH", 8)):
            patch.setattr(pooled, name, value)
        yield pretrained(pool, seed=0)


def test_tokens_are_known_before_what_they_foretell():
    values = chaos(1_500, 0)
    later = values.copy()
    later[1_200:] += 3.0
    (tokens, target), (changed, moved) = tokens_of(values), tokens_of(later)
    first = np.flatnonzero(np.abs(target - moved).max(axis=1) > 1e-6)[0]
    np.testing.assert_array_equal(tokens[: first + 1], changed[: first + 1])


def test_a_network_of_many_series_foretells_one_that_it_never_saw(network):
    tokens, target = tokens_of(chaos(1_500, 77))
    with torch.inference_mode():
        left = target - network(torch.from_numpy(tokens)[None])[0].numpy()
    assert np.abs(left).mean() < 0.7 * np.abs(target).mean()


def test_a_gate_never_leaves_more_over_in_training_than_none(judged, network):
    plain = corrected(judged, None)
    gated = corrected(judged, pooled_corrector(judged, network, gated=True))
    whole = corrected(judged, pooled_corrector(judged, network, gated=False))
    n = judged.problem.n_train
    assert gated[:n].mean() <= plain[:n].mean() + 1e-6
    assert np.abs(whole - plain).max() > 0
