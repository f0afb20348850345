from dataclasses import replace

import pytest
import torch

from tsmamba.records.encoder import StayEncoder
from tsmamba.records.tokens import Batch


def batch_of(n_statics):
    generator = torch.Generator().manual_seed(0)
    return Batch(
        torch.randn(2, 6, 3, generator=generator),
        torch.randint(0, 4, (2, 6, 3), generator=generator, dtype=torch.uint8),
        torch.tensor([[1.0, 2, 1, 1, 3, 1], [1, 1, 1, 1, 1, 1]]),
        torch.tensor([[True] * 6, [True] * 4 + [False] * 2]),
        torch.randn(2, n_statics, generator=generator),
    )


def encoder_of(n_statics, *, causal):
    torch.manual_seed(0)
    return StayEncoder(3, n_statics, 8, 1, 4, causal=causal, input_dropout=0.0).eval()


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
def test_what_comes_later_is_seen_unless_it_is_causal(causal):
    encoder, batch = encoder_of(2, causal=causal), batch_of(2)
    changed = batch.values.clone()
    changed[:, 3:] += 1
    both = [
        encoder.encoded(each, encoder.known(each))[0, :3]
        for each in (batch, replace(batch, values=changed))
    ]
    assert torch.allclose(*both) is causal


@torch.no_grad()
def test_what_is_static_changes_every_token():
    encoder, batch = encoder_of(2, causal=True), batch_of(2)
    plain = encoder.encoded(batch, None)
    moved = (encoder.encoded(batch, encoder.known(batch)) != plain).any(-1)
    assert torch.equal(moved, batch.mask)
    assert encoder_of(0, causal=True).known(batch_of(0)) is None


def test_long_gaps_count_as_a_bounded_one():
    passed = encoder_of(0, causal=True).passed(torch.tensor([1.0, 8, 500]))
    assert passed.tolist() == [1, 8, 8]
