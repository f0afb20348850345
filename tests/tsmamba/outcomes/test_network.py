from dataclasses import replace

import pytest
import torch

from tsmamba.outcomes.network import RecordConfig, RecordNetwork
from tsmamba.records.tokens import NEVER, Batch

N_CODES, N_STATICS = 3, 2
each_way = pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])


def make(**options):
    """Return a network in evaluation mode."""
    config = RecordConfig(N_CODES, options.pop("n_statics", N_STATICS), 2, d_model=8, d_state=4)
    return RecordNetwork(replace(config, **options)).eval()


def batch_of(*lengths):
    """Return random stays of these lengths, padded to the longest with what must not matter."""
    longest = max(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    shape = len(lengths), longest
    return Batch(
        torch.randn(*shape, N_CODES) * mask[..., None],
        torch.randint(0, NEVER + 1, (*shape, N_CODES), dtype=torch.uint8),
        torch.randint(1, 6, shape).float(),
        mask,
        torch.randn(len(lengths), N_STATICS),
    )


def part(batch, row, length):
    """Return the beginning of one stay alone."""
    inside = batch.values, batch.since, batch.elapsed, batch.mask
    return Batch(*(each[row : row + 1, :length] for each in inside), batch.statics[row : row + 1])


@each_way
@pytest.mark.parametrize("n_statics", [0, N_STATICS])
def test_a_stay_is_answered_alike_alone_and_among_longer_ones(causal, n_statics):
    network = make(causal=causal, n_statics=n_statics, n_layers=2)
    lengths = (1, 4, 9)
    batch = batch_of(*lengths)
    together = network(batch)
    for row, length in enumerate(lengths):
        alone = network(part(batch, row, length))
        found = together.outputs[row, :length] if causal else together.outputs[row]
        torch.testing.assert_close(found, alone.outputs[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            together.following[row, :length], alone.following[0], rtol=1e-5, atol=1e-6
        )


@each_way
def test_padding_has_no_gradient_and_changes_none(causal):
    network = make(causal=causal).double()
    batch = batch_of(3, 7)
    batch = replace(batch, **{
        name: getattr(batch, name).double().requires_grad_(name != "statics")
        for name in ("values", "elapsed", "statics")
    })  # fmt: skip

    def gradients(batch, row, length):
        network.zero_grad()
        answers = network(batch)
        logits = answers.outputs[row, :length] if causal else answers.outputs[row]
        (logits.square().sum() + answers.following[row, :length].square().sum()).backward()
        return [parameter.grad.clone() for parameter in network.parameters()]

    alone, together = gradients(part(batch, 0, 3), 0, 3), gradients(batch, 0, 3)
    torch.testing.assert_close(together, alone, rtol=1e-9, atol=1e-12)
    assert not batch.values.grad[0, 3:].any()
    assert not batch.values.grad[1].any()


def test_a_causal_answer_is_that_of_the_stay_so_far():
    network = make(causal=True, n_layers=2)
    batch = batch_of(8)
    whole = network(batch)
    for length in range(1, 9):
        so_far = network(part(batch, 0, length))
        torch.testing.assert_close(
            so_far.outputs[0, -1], whole.outputs[0, length - 1], rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("causal", [True, False])
def test_only_a_network_that_looks_both_ways_sees_what_comes(causal):
    network, batch = make(causal=causal), batch_of(6)
    later = replace(batch, values=batch.values.clone())
    later.values[0, -1] += 1
    same = torch.equal(network(batch).following[0, :-1], network(later).following[0, :-1])
    assert same == causal


@each_way
def test_time_that_passes_drives_the_answer_up_to_a_bound(causal):
    network, batch = make(causal=causal), batch_of(6)
    for name, weight in network.named_parameters():
        if "dt_proj.bias" in name:
            torch.nn.init.zeros_(weight)  # forgets within some bins

    def answer(gap):
        elapsed = batch.elapsed.clone()
        elapsed[0, 3] = gap
        return network(replace(batch, elapsed=elapsed)).outputs

    assert not torch.allclose(answer(1), answer(4), rtol=1e-5)
    assert torch.equal(answer(8), answer(4_000))


def test_a_gap_without_input_is_the_sum_of_its_parts():
    """The scan forgets over a gap what it forgets over its parts, one after the other."""
    network, batch = make(causal=True), batch_of(6)
    mixer = network.stack.layers[0].mixer
    torch.nn.init.zeros_(mixer.conv1d.bias)
    tokens = network.tokens(batch.values, batch.since, network.embed_statics(batch.statics))
    # Three zeros behind them, for what the convolution holds is input, too.
    tokens = torch.nn.functional.pad(tokens, (0, 0, 0, 3))
    passed = torch.nn.functional.pad(network.passed(batch.elapsed), (0, 3))
    _, start = network.stack.prefill(tokens, delta_scale=passed)

    def after(*gaps):
        nothing = torch.zeros(1, len(gaps), 8)
        scale = network.passed(torch.tensor([gaps], dtype=torch.float32))
        _, [state] = network.stack.prefill(nothing, delta_scale=scale, state=start)
        return state.ssm

    torch.testing.assert_close(after(2.0, 3.0), after(5.0), rtol=1e-5, atol=1e-7)
    assert not torch.allclose(after(2.0), after(5.0), rtol=1e-2)
    assert (after(5.0).abs() <= start[0].ssm.abs()).all()


def test_a_code_that_was_never_measured_is_told_from_one_that_was():
    network, batch = make(), batch_of(4)
    never = replace(batch, since=torch.full_like(batch.since, NEVER))
    now = replace(batch, since=torch.zeros_like(batch.since))
    assert not torch.allclose(network(never).outputs, network(now).outputs, rtol=1e-3)


def test_dropout_is_for_training_only():
    network, batch = make(), batch_of(4)
    assert torch.equal(network(batch).outputs, network(batch).outputs)
    network.train()
    assert not torch.equal(network(batch).outputs, network(batch).outputs)
