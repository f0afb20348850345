import copy
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from random import Random

import pytest
import torch
from safetensors.torch import load_file, save_file

from tsmamba.nn import FusedStack, MambaStack
from tsmamba_kernels import backend_report, use_backend
from tsmamba_kernels.errors import ShapeError
from tsmamba_kernels.testing import TOLERANCES, relative_error

LENGTH = 12
OPTIONS = {
    "published": {},
    "log-uniform": {"A_init": "log-uniform"},
    "gain": {"selection": "gain"},
    "tied": {"tied_A": True},
    "foreign": {"dt_rank": 3, "conv_bias": False, "bias": True, "norm_eps": 0.1},
    "all": {"A_init": "log-uniform", "selection": "gain", "tied_A": True},
}
SIZES = {
    "d_model": (1, 7, 40, 64),
    "n_layers": (1, 2, 3, 4),
    "d_state": (1, 3, 5, 16, 17),
    "d_conv": (1, 2, 4, 5),
    "expand": (1, 2, 3),
    "streams": (1, 2, 3, 5, 24, 25, 60),
    "timed": (False, True),
}
CASES = Random(0).sample(list(product(OPTIONS, *SIZES.values())), 40)


@pytest.fixture(params=["native", "reference"])
def backend(request):
    reason = backend_report()[request.param]
    if not reason.startswith("available"):
        pytest.skip(reason)
    with use_backend(request.param):
        yield request.param


def make(d_model=12, n_layers=3, d_state=4, d_conv=4, expand=2, **options):
    """Return a stack off its initial values, where gains and rates look alike."""
    stack = MambaStack(d_model, n_layers, d_state, d_conv, expand, **options).eval()
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return stack


def run(fused, x, state, scale=None):
    """Take a step for each time of ``x`` (B, L, D) and return the outputs."""
    return torch.stack(
        [
            fused.step(x_t, state, delta_scale=None if scale is None else scale[:, t])
            for t, x_t in enumerate(x.unbind(1))
        ],
        dim=1,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_steps_give_the_numbers_of_the_whole_sequence(backend, case):
    name, *sizes, streams, timed = case
    stack = make(*sizes, **OPTIONS[name])
    fused = FusedStack(stack)
    x = torch.randn(streams, LENGTH, sizes[0])
    scale = 2 * torch.rand(streams, LENGTH) if timed else None
    y = run(fused, x, fused.init_state(streams), scale)
    with torch.no_grad():
        exact = stack.double()(x.double(), delta_scale=scale if scale is None else scale.double())
    assert relative_error(y, exact) < TOLERANCES[torch.float32].output


def test_a_stream_goes_on_from_its_history(backend):
    stack = make(**OPTIONS["all"])
    fused = FusedStack(stack)
    x, scale = torch.randn(3, 40, 12), 2 * torch.rand(3, 40)
    _, history = stack.prefill(x[:, :30], delta_scale=scale[:, :30])
    state = fused.pack(history)
    assert not state.requires_grad
    actual = run(fused, x[:, 30:], state, scale[:, 30:])
    expected = stack(x, delta_scale=scale)[:, 30:]
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_a_stack_goes_on_from_a_fused_state(backend):
    stack = make()
    fused = FusedStack(stack)
    x = torch.randn(3, LENGTH, 12)
    state = fused.init_state(3)
    run(fused, x[:, :-1], state)
    assert torch.equal(fused.pack(fused.unpack(state)), state)
    y, after = stack.step(x[:, -1], fused.unpack(state))
    torch.testing.assert_close(fused.step(x[:, -1], state), y, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(fused.unpack(state), after, rtol=1e-5, atol=1e-5)


def test_new_states_are_those_of_the_stack():
    stack = make()
    fused = FusedStack(stack)
    assert torch.equal(fused.pack(stack.init_state(5)), fused.init_state(5))


def test_a_saved_state_goes_on_bit_for_bit(backend, tmp_path):
    fused = FusedStack(make())
    x, state = torch.randn(3, LENGTH, 12), fused.init_state(3)
    run(fused, x, state)
    save_file({"state": state}, tmp_path / "streams.safetensors")
    loaded = load_file(tmp_path / "streams.safetensors")["state"]
    assert torch.equal(run(fused, x, loaded), run(fused, x, state))
    assert torch.equal(loaded, state)


def test_slots_name_the_streams_that_have_a_point(backend):
    fused = FusedStack(make())
    x, state = torch.randn(5, LENGTH, 12), fused.init_state(5)
    arrived = torch.rand(LENGTH, 5) < 0.5
    results = [[] for _ in range(5)]
    for t in range(LENGTH):
        slots = arrived[t].nonzero().squeeze(1)
        for i, y in zip(slots, fused.step(x[slots, t], state, slots=slots), strict=True):
            results[i].append(y)
    for i, ys in enumerate(results):
        alone = run(fused, x[i : i + 1, arrived[:, i]], fused.init_state(1))[0]
        torch.testing.assert_close(torch.stack(ys), alone, rtol=1e-6, atol=2e-6)


def test_training_afterwards_changes_nothing(backend):
    stack = make(**OPTIONS["all"])
    fused, x = FusedStack(stack), torch.randn(3, LENGTH, 12)
    before = run(fused, x, fused.init_state(3))
    assert not before.requires_grad
    old = copy.deepcopy(stack.state_dict())
    optimizer = torch.optim.SGD(stack.parameters(), lr=0.1)
    (stack(x) * torch.randn(12)).sum().backward()
    optimizer.step()
    assert all(not torch.equal(p, old[name]) for name, p in stack.named_parameters())
    assert torch.equal(run(fused, x, fused.init_state(3)), before)


def test_dropout_is_left_out():
    stack = make(dropout=0.5).train()
    fused, x = FusedStack(stack), torch.randn(3, LENGTH, 12)
    y = run(fused, x, fused.init_state(3))
    torch.testing.assert_close(y, stack.eval()(x), rtol=1e-5, atol=1e-5)


def test_a_network_in_double_precision_is_rounded():
    stack = make()
    fused = FusedStack(copy.deepcopy(stack).double())
    x = torch.randn(3, LENGTH, 12)
    y = run(fused, x, fused.init_state(3))
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, stack(x), rtol=1e-5, atol=1e-5)


def test_threads_share_a_stack_with_states_of_their_own(backend):
    stack = make()
    fused, x = FusedStack(stack), torch.randn(4, 3, 50, 12)
    with ThreadPoolExecutor(2) as pool:
        actual = list(pool.map(lambda one: run(fused, one, fused.init_state(3)), x))
    for one, y in zip(x, actual, strict=True):
        torch.testing.assert_close(y, stack(one), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "kwargs", [{"bidirectional": True}, {"attention_at": (1,)}], ids=["bidirectional", "hybrid"]
)
def test_a_stack_without_a_step_is_refused(kwargs):
    with pytest.raises(
        RuntimeError, match="need the whole sequence; call forward, or build a caus"
    ):
        FusedStack(make(**kwargs))


def test_a_stack_without_blocks_is_refused():
    with pytest.raises(ShapeError, match="there are no layers; pass at least one"):
        FusedStack(make(n_layers=0))


def test_a_step_that_is_refused_changes_nothing():
    fused = FusedStack(make())
    state = torch.randn_like(fused.init_state(3))
    before = state.clone()
    message = "slots name state 1 more than once; pass each once"
    with pytest.raises(ShapeError, match=message):
        fused.step(torch.randn(3, 12), state, slots=torch.tensor([0, 1, 1]))
    assert torch.equal(state, before)


def test_states_of_another_stack_are_refused():
    other = make(d_state=5)
    fused = FusedStack(make())
    with pytest.raises(ShapeError, match=re.escape("pass 3 times ((3, 24), (24, 4))")):
        fused.pack(other.init_state(2))
    with pytest.raises(ShapeError, match=re.escape("pass a contiguous (streams, 3, 2, 7, 16)")):
        fused.unpack(FusedStack(other).init_state(2))
