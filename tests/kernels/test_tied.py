"""One rate a channel stands for its multiples, in outputs and in all gradients."""

import pytest
import torch

from tsmamba_kernels import selective_scan, selective_state_update
from tsmamba_kernels.testing import Tolerance, boundaries, check_parity, pack, scan_inputs

pytestmark = pytest.mark.usefixtures("native")


def against_multiples(A, B, backend, **arguments):
    """Run tied rates on the backend under test; the reference gets them multiplied out."""
    if backend == "reference":
        A = A.unsqueeze(1) * torch.arange(1, B.shape[-1] + 1)
    return selective_scan(A=A, B=B, backend=backend, **arguments)


def tied(inputs, rates=None):
    drawn = -0.2 - 4.0 * torch.rand_like(inputs["A"].sum(-1))
    return inputs | {"A": drawn if rates is None else rates}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("states", [0, 1, 5, 16, 33])
def test_any_number_of_states_agrees(states, dtype):
    check_parity(against_multiples, tied(scan_inputs(2, 70, 13, states, dtype=dtype)))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [(0.0, torch.inf), (0.05, 0.3)])
def test_every_flag_agrees(reverse, limit):
    inputs = tied(scan_inputs(2, 70, 10, 5, groups=2)) | {"reverse": reverse, "dt_limit": limit}
    check_parity(against_multiples, inputs)


@pytest.mark.parametrize("pattern", boundaries(150))
def test_packed_series_agree(pattern):
    check_parity(against_multiples, tied(pack(scan_inputs(1, 150, 9), boundaries(150)[pattern])))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("states", [1, 5, 16, 33])
def test_decays_that_underflow_agree(states, dtype):
    """dt A goes from nothing to -1e4, and with it each of the multiples passes the underflow."""
    inputs = scan_inputs(2, 70, 24, states, dtype=dtype, options=("D", "z", "initial_state"))
    inputs |= {"delta_softplus": False, "delta": torch.rand_like(inputs["delta"])}
    rates = -torch.logspace(-4, 4, 24, dtype=dtype)
    check_parity(against_multiples, tied(inputs, rates), tolerance=Tolerance(1e-5, 1e-4))


@pytest.mark.parametrize("rate", [0.0, -1e-6, -1e3, -1e30])
def test_extreme_rates_agree(rate):
    inputs = tied(scan_inputs(1, 70, 9, 16), torch.full((9,), rate))
    check_parity(against_multiples, inputs)


def test_a_step_of_no_time_leaves_the_state_bit_for_bit():
    inputs = tied(scan_inputs(2, 5, 9, 16)) | {"delta_scale": torch.zeros(2, 5)}
    _, final_state = selective_scan(**inputs)
    assert torch.equal(final_state, inputs["initial_state"])


def test_a_loop_of_single_steps_is_one_pass(backend):
    inputs = tied(scan_inputs(3, 20, 10, 5, options=("initial_state",)))
    whole, final_state = selective_scan(**inputs, backend=backend)
    state, outs = inputs["initial_state"], []
    for t in range(20):
        u, delta, B, C = (inputs[name][:, t] for name in ("u", "delta", "B", "C"))
        out, state = selective_state_update(
            state, u, delta, inputs["A"], B, C, dt_softplus=True, backend=backend
        )
        outs.append(out)
    torch.testing.assert_close(torch.stack(outs, dim=1), whole, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state, final_state, rtol=1e-5, atol=1e-6)


def test_a_rate_that_is_not_a_number_shows_in_its_channel_only():
    inputs = tied(scan_inputs(2, 20, 9))
    inputs["A"][4] = torch.nan
    _, final_state = selective_scan(**inputs)
    spoiled = torch.arange(9) == 4
    assert final_state[:, spoiled].isnan().all()
    assert final_state[:, ~spoiled].isfinite().all()
