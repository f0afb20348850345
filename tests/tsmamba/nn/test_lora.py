import copy

import pytest
import torch

from tsmamba.errors import ParameterError
from tsmamba.nn import FusedStack, Mamba, MambaStack, add_lora, merge_lora

WIDTH, LENGTH, STATES = 12, 30, 4
OPTIONS = {
    "published": {},
    "all": {"A_init": "log-uniform", "selection": "gain", "tied_A": True},
    "bidirectional": {"bidirectional": True},
    "hybrid": {"attention_at": (1,), "n_heads": 3},
}
each_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def make(**options):
    return MambaStack(WIDTH, n_layers=3, d_state=STATES, **options).eval()


def mixers(network):
    return [module for module in network.modules() if isinstance(module, Mamba)]


def trained(network, steps=3):
    """Train whatever is not frozen away from where it starts."""
    free = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(free, lr=0.1)
    x, aim = torch.randn(2, 4, LENGTH, WIDTH)
    for _ in range(steps):
        optimizer.zero_grad()
        (network(x) - aim).square().sum().backward()
        optimizer.step()
    return network


def adapted(**options):
    """Return an adapted stack whose matrices are far from zero."""
    stack = make(**options)
    add_lora(stack, rank=2)
    with torch.no_grad():
        for parameter in stack.parameters():
            if parameter.requires_grad:
                parameter.normal_()
    return stack


@each_option
def test_the_first_output_is_unchanged(options):
    stack, x = make(**options), torch.randn(2, LENGTH, WIDTH)
    before = stack(x)
    add_lora(stack)
    assert torch.equal(stack(x), before)


@each_option
def test_only_the_rows_of_B_and_C_move(options):
    stack = make(**options)
    before = copy.deepcopy(stack.state_dict())
    add_lora(stack)
    merge_lora(trained(stack))
    after = stack.state_dict()
    moved = {name for name in after if not torch.equal(after[name], before[name])}
    assert moved == {name for name in before if name.endswith("x_proj.weight")}
    rank = mixers(stack)[0].dt_rank
    for name in moved:
        assert torch.equal(after[name][:rank], before[name][:rank])
        assert (after[name][rank:] != before[name][rank:]).any(dim=1).all()


@each_option
def test_the_change_has_the_rank_asked_for(options):
    stack = make(**options)
    before = [mixer.x_proj.weight.clone() for mixer in mixers(stack)]
    add_lora(stack, rank=2)
    merge_lora(trained(stack))
    for mixer, old in zip(mixers(stack), before, strict=True):
        change = (mixer.x_proj.weight - old).detach().double()
        assert torch.linalg.matrix_rank(change, rtol=1e-4) == 2


@each_option
def test_a_merged_stack_says_the_same_under_the_old_names(options):
    stack, x = adapted(**options), torch.randn(2, LENGTH, WIDTH)
    plain = make(**options)
    expected = stack(x)
    assert not torch.allclose(plain(x), expected, atol=1e-3)
    merge_lora(stack)
    torch.testing.assert_close(stack(x), expected, rtol=0, atol=1e-6)
    shapes = {name: value.shape for name, value in plain.state_dict().items()}
    assert {name: value.shape for name, value in stack.state_dict().items()} == shapes
    assert list(stack.state_dict()) == list(plain.state_dict())
    plain.load_state_dict(stack.state_dict())
    assert torch.equal(plain(x), stack(x))
    assert {type(module) for module in stack.modules()} == {type(one) for one in plain.modules()}


@pytest.mark.parametrize("merged", [False, True])
def test_the_fused_step_reads_the_adapted_weights(merged):
    stack, x = adapted(), torch.randn(2, LENGTH, WIDTH)
    expected = stack(x)
    if merged:
        merge_lora(stack)
    fused = FusedStack(stack)
    state = fused.init_state(2)
    steps = [fused.step(x_t, state) for x_t in x.unbind(1)]
    torch.testing.assert_close(torch.stack(steps, 1), expected, rtol=1e-4, atol=1e-5)


def test_alpha_over_rank_is_the_factor():
    weights = []
    for alpha in (2.0, 6.0):
        torch.manual_seed(0)
        stack = make()
        before = mixers(stack)[0].x_proj.weight.clone()
        add_lora(stack, rank=2, alpha=alpha)
        with torch.no_grad():
            for parameter in stack.parameters():
                if parameter.requires_grad:
                    parameter.fill_(0.5)
        weights.append((mixers(stack)[0].x_proj.weight - before).detach())
    assert weights[0][-1, 0] == pytest.approx(0.5)  # 2 / 2 of two products of 0.5 and 0.5
    torch.testing.assert_close(weights[1], 3 * weights[0])


def test_merging_leaves_frozen_and_can_be_done_again():
    stack, x = adapted(), torch.randn(1, LENGTH, WIDTH)
    merge_lora(stack)
    once = stack(x)
    assert not any(parameter.requires_grad for parameter in stack.parameters())
    merge_lora(stack)
    assert torch.equal(stack(x), once)
    add_lora(stack)
    assert torch.equal(stack(x), once)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rank": 0}, "rank=0; pass a whole number of at least 1"),
        ({"rank": 2.0}, "rank=2.0; pass a whole number"),
        ({"rank": True}, "rank=True"),
        ({"alpha": 0}, "alpha=0; pass a number above 0"),
        ({"alpha": float("nan")}, "alpha=nan"),
        ({"alpha": None}, "alpha=None"),
    ],
)
def test_numbers_out_of_range_are_refused_and_change_nothing(given, message):
    stack = make()
    with pytest.raises(ParameterError, match=message):
        add_lora(stack, **given)
    assert all(parameter.requires_grad for parameter in stack.parameters())


def test_a_network_without_mamba_is_refused():
    with pytest.raises(ParameterError, match="Linear has no Mamba block to adapt"):
        add_lora(torch.nn.Linear(2, 2))


def test_a_second_adaptation_is_refused_until_the_first_is_merged():
    stack = adapted()
    with pytest.raises(ParameterError, match="adapted already; call merge_lora"):
        add_lora(stack)
