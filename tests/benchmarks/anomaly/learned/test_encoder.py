import numpy as np
import pytest
import torch

from benchmarks.anomaly.learned.encoder import (
    ConvEncoder,
    MambaEncoder,
    NextTokenEncoder,
    Patches,
    contrast,
    encoder_block,
)

ENCODERS = [ConvEncoder, MambaEncoder, NextTokenEncoder]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for encoder in ENCODERS:
        monkeypatch.setattr(encoder, "steps", 5)
        monkeypatch.setattr(encoder, "batch", 16)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_seed_repeats_a_block_and_another_changes_it(judged, encoder):
    blocks = [encoder_block(judged, encoder, "z", seed) for seed in (0, 0, 1)]
    assert blocks[0].shape == judged.values.shape
    assert np.isfinite(blocks[0]).all()
    np.testing.assert_array_equal(blocks[0], blocks[1])
    assert np.abs(blocks[0] - blocks[2]).max() > 0


def test_what_is_odd_is_far_from_the_memory(judged):
    block = encoder_block(judged, ConvEncoder, "raw", seed=0)
    labels = judged.problem.labels
    assert block[labels].mean() > 2 * block[~labels].mean()


@pytest.mark.parametrize("width", [64, 200])
def test_level_and_size_are_lost_on_patches_without_mean_and_deviation(width):
    values = np.random.default_rng(0).normal(size=600)
    starts = np.arange(0, 300, 50)
    plain, moved = (Patches(v, width, "z").at(starts) for v in (values, 5 + 2 * values))
    torch.testing.assert_close(plain, moved, atol=1e-4, rtol=1e-4)
    assert 64 <= plain.shape[1] <= 128
    assert not torch.equal(*(Patches(v, width, "raw").at(starts) for v in (values, 5 + 2 * values)))


def test_patches_that_are_told_apart_cost_less_than_those_that_are_not():
    rng = np.random.default_rng(0)
    smooth = np.convolve(rng.normal(size=4_000), np.ones(32) / 6, "same")

    class Same(ConvEncoder):
        def forward(self, patches):
            return super().forward(patches) * 0 + 1

    class Shape(ConvEncoder):
        """Knows each patch by its points, which hardly change from one shift to the next."""

        def forward(self, patches):
            return patches

    torch.manual_seed(0)
    blind, seeing = Same(), Shape()
    seeing.head = torch.nn.Identity()
    patches = Patches(smooth, 64, "z")
    told = contrast(seeing, patches, np.random.default_rng(1))
    assert told < 0.7 * contrast(blind, patches, np.random.default_rng(1))


def test_patches_near_in_time_are_not_to_be_told_apart():
    # All patches of so short a series are near each other, so there is nothing to tell.
    patches = Patches(np.random.default_rng(0).normal(size=70), 64, "z")
    loss = contrast(ConvEncoder(), patches, np.random.default_rng(0))
    assert float(loss.detach()) == pytest.approx(0, abs=1e-6)
