"""Mamba in the place of attention: what the encoder must still do."""

import re
from pathlib import Path

import pytest
import torch

from benchmarks import replace_attention as swap

DOCS = Path(__file__).resolve().parents[2] / "docs" / "networks.md"


@pytest.fixture
def encoder():
    return swap.make(swap.AFTER).eval()


def moved(encoder, **kwargs):
    """Return at which steps the output follows a change of step 20 of 40."""
    encoder.double()  # far away the change is small
    x = torch.randn(1, 40, swap.WIDTH).double()
    changed = x.clone()
    changed[:, 20, 0] += 1
    with torch.no_grad():
        return (encoder(x, **kwargs) != encoder(changed, **kwargs)).any(-1)[0]


def test_only_attention_is_replaced():
    before, after = swap.make(swap.BEFORE), swap.make(swap.AFTER)
    kept = {name: x for name, x in before.state_dict().items() if ".self_attn." not in name}
    assert len(kept) == 2 * 8
    assert all(torch.equal(after.state_dict()[name], x) for name, x in kept.items())
    assert not any("in_proj_bias" in name for name in after.state_dict())


def test_every_step_sees_all_others_unless_it_is_to_look_back(encoder):
    assert moved(encoder).all()
    causal = swap.make(swap.BEFORE)
    swap.replace_attention(causal, causal=True)
    assert moved(causal.eval()).tolist() == [False] * 20 + [True] * 20


def test_evaluation_gives_the_numbers_of_training(encoder):
    x = torch.randn(2, 30, swap.WIDTH)
    torch.testing.assert_close(encoder(x), encoder.train()(x))


def test_padding_is_not_seen(encoder):
    padding = torch.zeros(1, 40, dtype=torch.bool)
    padding[:, 20:] = True
    assert moved(encoder, src_key_padding_mask=padding).nonzero().ravel().tolist() == [20]


def test_it_trains():
    encoder = swap.make(swap.AFTER)
    (encoder(torch.randn(2, 30, swap.WIDTH)) * torch.randn(swap.WIDTH)).sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


def test_what_a_scan_cannot_do_is_refused(encoder):
    x = torch.randn(1, 40, swap.WIDTH)
    with pytest.raises(ValueError, match="a scan takes no attn_mask; causal=True"):
        encoder(x, mask=torch.ones(40, 40, dtype=torch.bool).triu(1))
    with pytest.raises(ValueError, match="a scan mixes one sequence"):
        encoder.layers[0].self_attn(x, x + 1, x + 1)


def test_the_documented_change_is_this_one():
    section = DOCS.read_text(encoding="utf-8").split("## Replacing an attention layer")[1]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    names = {}
    torch.manual_seed(0)
    exec(code, names)
    x = torch.randn(1, 30, swap.WIDTH)
    with torch.no_grad():
        assert torch.equal(names["encoder"](x), swap.make(swap.AFTER)(x))


def test_the_table_has_both(monkeypatch):
    memory = {swap.BEFORE: [2**20, 2**21], swap.AFTER: [2**22, 2**23]}
    monkeypatch.setattr(swap, "peaks", lambda name, lengths: memory[name])
    lines = swap.measure(lengths=(8,), calls=2)
    assert lines[2] == "| parameters | 99,968 | 131,968 | | |"
    (forward, training) = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines[3:])
    assert forward[::3] == ["forward, L = 8", "1 MiB"]
    assert forward[4] == "4 MiB"
    assert training[3:] == ["2 MiB", "8 MiB"]
    assert all(cell.endswith(" ms") for cell in (*forward[1:3], *training[1:3]))


def test_peak_memory_is_that_of_a_process_of_its_own():
    length = 4096  # peaks of a few MiB are no more than what the system counts pages to
    forward, training = swap.peaks(swap.AFTER, [length])
    assert length * swap.WIDTH * 4 < forward < training
