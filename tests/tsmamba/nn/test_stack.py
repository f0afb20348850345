import pytest
import torch

from tsmamba.nn import MambaBlock, MambaStack

WIDTH = 12


def make(**kwargs):
    return MambaStack(WIDTH, n_layers=3, d_state=4, **kwargs)


def test_a_block_adds_its_mixer_to_its_input():
    block = MambaBlock(WIDTH)
    x = torch.randn(2, 9, WIDTH)
    torch.testing.assert_close(block(x), x + block.mixer(block.norm(x)))


def test_a_bidirectional_block_adds_one_mixer_for_each_direction():
    block = MambaBlock(WIDTH, bidirectional=True)
    assert block.mixer_back.reverse
    x = torch.randn(2, 9, WIDTH)
    normed = block.norm(x)
    both = block.mixer(normed) + block.mixer_back(normed)
    torch.testing.assert_close(block(x), x + both)


def test_a_bidirectional_stack_sees_the_future_and_a_causal_one_does_not():
    x = torch.randn(1, 15, WIDTH)
    changed = x.clone()
    changed[:, -1] += 1
    for bidirectional in (False, True):
        stack = make(bidirectional=bidirectional)
        moved = (stack(x) != stack(changed)).any(-1)[0]
        assert moved[-1]
        assert moved[:-1].any() == bidirectional


def test_the_norm_has_its_published_form():
    stack = MambaStack(WIDTH, n_layers=0)
    x = torch.randn(2, 3, WIDTH)
    rms = (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(stack(x), x / rms)


@pytest.mark.parametrize("irregular", [False, True])
def test_steps_give_the_numbers_of_the_whole_sequence(irregular):
    stack = make()
    x = torch.randn(2, 20, WIDTH)
    scale = torch.rand(2, 20) * 2 if irregular else None
    state = stack.init_state(2)
    assert len(state) == 3
    out = []
    for t in range(20):
        y, state = stack.step(x[:, t], state, delta_scale=None if scale is None else scale[:, t])
        out.append(y)
    torch.testing.assert_close(
        torch.stack(out, 1), stack(x, delta_scale=scale), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_on_the_right_is_as_good_as_absent(bidirectional):
    stack = make(bidirectional=bidirectional)
    x = torch.randn(2, 20, WIDTH)
    mask = torch.arange(20).expand(2, -1) < 13
    torch.testing.assert_close(stack(x, mask=mask)[:, :13], stack(x[:, :13]), rtol=1e-4, atol=1e-5)


def test_missing_steps_do_not_reach_their_neighbours():
    stack = make(bidirectional=True)
    x = torch.randn(2, 20, WIDTH)
    mask = torch.rand(2, 20) < 0.7
    other = torch.where(mask[..., None], x, 50.0)
    assert torch.equal(stack(x, mask=mask)[mask], stack(other, mask=mask)[mask])


def test_a_bidirectional_stack_cannot_step():
    stack = make(bidirectional=True)
    with pytest.raises(RuntimeError, match="call forward"):
        stack.step(torch.randn(1, WIDTH), stack.init_state(1))


def test_a_state_of_another_depth_is_refused():
    stack = make()
    with pytest.raises(ValueError, match="zip"):
        stack.step(torch.randn(1, WIDTH), stack.init_state(1)[:2])


def test_dropout_is_active_in_training_only():
    stack = make(dropout=0.5)
    x = torch.randn(1, 8, WIDTH)
    assert not torch.equal(stack(x), stack(x))
    stack.eval()
    assert torch.equal(stack(x), stack(x))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_every_parameter_gets_a_gradient(bidirectional):
    stack = make(bidirectional=bidirectional)
    # The sum of squares of a normed vector is constant, so it would hide the gradients.
    (stack(torch.randn(2, 11, WIDTH)) * torch.randn(WIDTH)).sum().backward()
    silent = [name for name, p in stack.named_parameters() if p.grad is None or not p.grad.any()]
    assert not silent
