import math
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tsmamba.errors import ParameterError
from tsmamba.nn import AttentionBlock, SelfAttention

WIDTH = 20


def make(n_heads=2, **kwargs):
    return SelfAttention(WIDTH, n_heads, **kwargs)


def textbook(layer, x, mask=None):
    """Softmax attention with the whole (L, L) matrix of scores."""
    p = dict(layer.named_parameters())
    batch, length, width = x.shape
    heads, per_head = layer.n_heads, width // layer.n_heads
    q, k, v = (x @ p["qkv_proj.weight"].T).reshape(batch, length, 3, heads, per_head).unbind(2)
    scores = torch.einsum("bihk,bjhk->bhij", q, k) / math.sqrt(per_head)
    seen = torch.ones(batch, length, dtype=torch.bool) if mask is None else mask
    visible = seen[:, None, None, :].expand_as(scores)
    if layer.causal:
        visible = visible & torch.ones(length, length, dtype=torch.bool).tril()
    # Rows of missing steps may have nothing to see, which would be 0 / 0.
    scores = scores.masked_fill(~visible & seen[:, None, :, None], -torch.inf)
    mixed = torch.einsum("bhij,bjhk->bihk", scores.softmax(-1), v).flatten(2)
    return (mixed @ p["out_proj.weight"].T) * seen[..., None]


def outputs_and_gradients(layer, run, x, weights):
    layer.zero_grad()
    given = x.clone().requires_grad_()
    out = run(given)
    (out * weights).sum().backward()
    return [out, given.grad, *(p.grad for p in layer.parameters())]


def equal(ours, theirs, **tolerances):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **tolerances)


@pytest.mark.parametrize("n_heads", [1, 4])
@pytest.mark.parametrize("length", [1, 2, 63])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_it_is_textbook_attention(masked, causal, length, n_heads):
    layer = make(n_heads, causal=causal).double()
    x, weights = (torch.randn(3, length, WIDTH, dtype=torch.float64) for _ in range(2))
    mask = torch.rand(3, length) < 0.6 if masked else None
    ours = outputs_and_gradients(layer, lambda x: layer(x, mask=mask), x, weights)
    theirs = outputs_and_gradients(layer, lambda x: textbook(layer, x, mask), x, weights)
    equal(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_a_missing_step_is_a_dropped_step(causal):
    layer = make(causal=causal)
    x, weights = torch.randn(1, 40, WIDTH), torch.randn(1, 40, WIDTH)
    mask = torch.rand(1, 40) < 0.6
    masked = outputs_and_gradients(layer, lambda x: layer(x, mask=mask), x, weights)
    dropped = outputs_and_gradients(layer, lambda x: layer(x[:, mask[0]]), x, weights[:, mask[0]])
    masked[0], missing = masked[0][:, mask[0]], masked[0][~mask]
    equal(masked, dropped, rtol=1e-4, atol=1e-6)
    assert not missing.any()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_series_that_begins_with_missing_values_has_finite_gradients(causal, dtype):
    layer = make(causal=causal).to(dtype)
    x = torch.randn(2, 9, WIDTH, dtype=dtype)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0, :5], mask[1] = False, False
    holed = torch.where(mask[..., None], x, torch.nan)
    results = outputs_and_gradients(layer, lambda x: layer(x, mask=mask), holed, torch.ones_like(x))
    assert all(result.isfinite().all() for result in results)
    assert not results[0][~mask].any()


@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_keeps_the_fused_kernel(causal):
    """Torch refuses where only the fused kernel is allowed and cannot run."""
    layer = make(causal=causal)
    x = torch.randn(2, 9, WIDTH)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        layer(x)
        layer(x, mask=torch.rand(2, 9) < 0.6)


def test_the_future_does_not_reach_the_past_and_without_order_it_is_a_set():
    x, order = torch.randn(1, 15, WIDTH), torch.randperm(15)
    changed = torch.cat([x[:, :9], x[:, 9:] + 1], dim=1)
    causal = make()
    assert torch.equal(causal(x)[:, :9], causal(changed)[:, :9])
    full = make(causal=False)
    assert (full(x)[:, :9] != full(changed)[:, :9]).any(-1).all()
    torch.testing.assert_close(full(x[:, order]), full(x)[:, order])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("cuts", [(0, 1, 8, 8, 33), (0, 0, 5, 5), (0, 20)], ids=str)
def test_packed_series_are_separate_series(cuts, causal):
    layer = make(causal=causal)
    x, weights = torch.randn(1, cuts[-1], WIDTH), torch.randn(1, cuts[-1], WIDTH)
    mask = torch.rand(1, cuts[-1]) < 0.8
    cu_seqlens = torch.tensor(cuts, dtype=torch.int32)

    def apart(x):
        pieces = [slice(*ends) for ends in pairwise(cuts)]
        return torch.cat([layer(x[:, one], mask=mask[:, one]) for one in pieces], dim=1)

    packed = outputs_and_gradients(
        layer, lambda x: layer(x, mask=mask, cu_seqlens=cu_seqlens), x, weights
    )
    equal(packed, outputs_and_gradients(layer, apart, x, weights), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 5, WIDTH), (2, 0, WIDTH)])
@pytest.mark.parametrize("masked", [False, True])
def test_nothing_in_nothing_out(shape, masked):
    mask = torch.ones(shape[:2], dtype=torch.bool) if masked else None
    assert make()(torch.randn(shape), mask=mask).shape == shape


@pytest.mark.parametrize(("d_model", "heads"), [(8, 1), (32, 1), (48, 1), (64, 2), (96, 3)])
def test_heads_are_32_wide_where_that_fits(d_model, heads):
    assert SelfAttention(d_model).n_heads == heads


@pytest.mark.parametrize("n_heads", [-1, 0, 3, 40])
def test_a_number_of_heads_that_does_not_fit_is_refused(n_heads):
    with pytest.raises(ParameterError, match=f"n_heads={n_heads} does not divide d_model=20; pass"):
        make(n_heads)


def test_a_block_adds_its_mixer_to_its_input():
    block = AttentionBlock(WIDTH, 2, causal=False)
    x = torch.randn(2, 9, WIDTH)
    assert isinstance(block.norm, nn.RMSNorm)
    torch.testing.assert_close(block(x), x + block.mixer(block.norm(x)))
    assert "n_heads=2, causal=False" in repr(block)


def test_dropout_of_a_block_is_active_in_training_only():
    block = AttentionBlock(WIDTH, dropout=0.5)
    x = torch.randn(1, 8, WIDTH)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))
