"""What holds for the selective scan whatever computes it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from tsmamba_kernels import selective_scan, selective_state_update
from tsmamba_kernels.testing import boundaries, masks, pack, run_with_gradients, scan_inputs

TIMED = ("u", "delta", "B", "C", "z", "mask", "delta_scale")
BATCHED = (*TIMED, "initial_state")


def pick(inputs, names, index):
    """Index the operands that have the axis, and leave the others."""
    return {k: v[index] if k in names else v for k, v in inputs.items()}


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cut", [0, 1, 37, 64, 99, 100])
@pytest.mark.parametrize("reverse", [False, True])
def test_two_pieces_with_the_state_carried_are_one_pass(backend, cut, reverse):
    inputs = scan_inputs(2, 100, 9) | {"backend": backend, "reverse": reverse}
    whole, final_state = selective_scan(**inputs)
    pieces = [pick(inputs, TIMED, (slice(None), part)) for part in (slice(cut), slice(cut, None))]
    outs = [torch.empty(0), torch.empty(0)]
    state = inputs["initial_state"]
    for i in (1, 0) if reverse else (0, 1):
        outs[i], state = selective_scan(**(pieces[i] | {"initial_state": state}))
    close(torch.cat(outs, dim=1), whole)
    close(state, final_state)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_loop_of_single_steps_is_one_pass(backend, groups):
    options = ("D", "z", "delta_bias", "initial_state", "delta_scale")
    inputs = scan_inputs(3, 20, 10, groups=groups, options=options)
    whole, final_state = selective_scan(**inputs, backend=backend)
    state, outs = inputs["initial_state"], []
    for t in range(20):
        out, state = selective_state_update(
            state,
            inputs["u"][:, t],
            inputs["delta"][:, t],
            inputs["A"],
            inputs["B"][:, t],
            inputs["C"][:, t],
            inputs["D"],
            inputs["z"][:, t],
            dt_bias=inputs["delta_bias"],
            dt_softplus=True,
            delta_scale=inputs["delta_scale"][:, t],
            backend=backend,
        )
        outs.append(out)
    close(torch.stack(outs, dim=1), whole)
    close(state, final_state)


def test_reverse_is_flip(backend):
    inputs = scan_inputs(2, 70, 9) | {"backend": backend}
    flipped = {k: v.flip(1) if k in TIMED else v for k, v in inputs.items()}
    outputs, gradients = run_with_gradients(selective_scan, inputs | {"reverse": True})
    out, final_state = selective_scan(**flipped)
    close(outputs, [out.flip(1), final_state])

    def flip_back(**arguments):
        out, final_state = selective_scan(**arguments)
        return out.flip(1), final_state

    _, flipped_gradients = run_with_gradients(flip_back, flipped)
    for name, grad in flipped_gradients.items():
        close(gradients[name], grad.flip(1) if name in TIMED else grad)


@pytest.mark.parametrize("pattern", ["left_padding", "right_padding", "interior_gap"])
def test_a_masked_step_is_a_dropped_step(backend, pattern):
    inputs = scan_inputs(1, 70, 9) | {"mask": masks(1, 70)[pattern], "backend": backend}
    seen = inputs["mask"][0]
    out, final_state = selective_scan(**inputs)
    dropped, dropped_state = selective_scan(**pick(inputs, TIMED, (slice(None), seen)))
    close(out[:, seen], dropped)
    close(final_state, dropped_state)
    assert not out[:, ~seen].any()


def test_padding_a_batch_changes_no_row(backend):
    lengths = [70, 64, 3, 0]
    inputs = scan_inputs(4, 70, 9) | {"backend": backend}
    inputs["mask"] = torch.arange(70) < torch.tensor(lengths).unsqueeze(1)
    out, final_state = selective_scan(**inputs)
    for row, length in enumerate(lengths):
        alone = pick(
            pick(inputs, BATCHED, slice(row, row + 1)), TIMED, (slice(None), slice(length))
        )
        alone.pop("mask")
        expected, expected_state = selective_scan(**alone)
        close(out[row : row + 1, :length], expected)
        close(final_state[row : row + 1], expected_state)


def test_a_gap_without_input_is_the_sum_of_its_parts(backend):
    """Decay over a + b is decay over a, then over b: the state lives in real time."""
    inputs = scan_inputs(2, 2, 9, options=("initial_state",)) | {"backend": backend}
    inputs["u"] = torch.zeros_like(inputs["u"])
    inputs["delta"] = inputs["delta"][:, :1].expand(-1, 2, -1)
    _, in_two = selective_scan(**inputs, delta_scale=torch.tensor([[0.7, 1.9]]).expand(2, 2))
    once = pick(inputs, TIMED, (slice(None), slice(1)))
    _, in_one = selective_scan(**once, delta_scale=torch.full((2, 1), 2.6))
    close(in_two, in_one)


def test_linear_in_its_input_without_a_state(backend):
    inputs = scan_inputs(2, 40, 9, options=("D", "z")) | {"return_final_state": False}
    other = torch.randn_like(inputs["u"])

    def scan(u: Tensor) -> Tensor:
        return selective_scan(**(inputs | {"u": u}), backend=backend)

    u = inputs["u"]
    torch.testing.assert_close(scan(2 * u + other), 2 * scan(u) + scan(other), rtol=1e-4, atol=1e-5)


def test_the_future_does_not_reach_the_past(backend):
    inputs = scan_inputs(1, 70, 9, options=("z",)) | {"return_final_state": False}
    before = selective_scan(**inputs, backend=backend)
    for name in ("u", "delta", "B", "C", "z"):
        inputs[name] = inputs[name].clone()
        inputs[name][:, 40:] += 1
    after = selective_scan(**inputs, backend=backend)
    assert torch.equal(before[:, :40], after[:, :40])
    assert not torch.equal(before[:, 40:], after[:, 40:])


def test_batch_rows_do_not_meet(native):
    """Bit for bit: each row alone, and the rows in another order, whatever the split of work."""
    inputs = scan_inputs(5, 70, 40, 16) | {"backend": native}
    whole = selective_scan(**inputs)
    order = torch.tensor([3, 0, 4, 2, 1])
    for y, permuted in zip(whole, selective_scan(**pick(inputs, BATCHED, order)), strict=True):
        assert torch.equal(y[order], permuted)
    for row in range(5):
        alone = selective_scan(**pick(inputs, BATCHED, slice(row, row + 1)))
        for y, single in zip(whole, alone, strict=True):
            assert torch.equal(y[row : row + 1], single)


DETERMINISTIC = {
    "one row": scan_inputs(1, 130, 40),
    "three rows": scan_inputs(3, 130, 40),
    "groups": scan_inputs(1, 130, 40, groups=2),
    "double": scan_inputs(1, 130, 40, dtype=torch.float64),
    "short type": scan_inputs(1, 130, 40, dtype=torch.bfloat16),
    "tied": scan_inputs(1, 130, 40) | {"A": -torch.linspace(0, 2, 40)},
    "packed": pack(scan_inputs(1, 130, 40), boundaries(130)["many_short"]),
}


@pytest.mark.parametrize("inputs", DETERMINISTIC.values(), ids=DETERMINISTIC)
def test_the_number_of_threads_changes_no_bit_of_the_output(native, threads, inputs):
    """Unless threads outnumber channels so far that time is cut; see test_segments."""
    results = []
    for count in (1, 2, 3, 7, 1):
        threads(count)
        results.append(selective_scan(**inputs, backend=native))
    for out, final_state in results[1:]:
        assert torch.equal(out, results[0][0])
        assert torch.equal(final_state, results[0][1])


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("inputs", DETERMINISTIC.values(), ids=DETERMINISTIC)
def test_gradients_are_the_same_from_run_to_run(native, threads, inputs, count):
    threads(count)
    first, *others = (run_with_gradients(selective_scan, inputs, backend=native) for _ in range(3))
    for outputs, gradients in others:
        assert all(torch.equal(x, y) for x, y in zip(outputs, first[0], strict=True))
        assert all(torch.equal(gradients[name], grad) for name, grad in first[1].items())


@pytest.mark.parametrize("count", [1, 3, 7])
def test_gradients_agree_whatever_the_number_of_threads(native, threads, count):
    inputs = scan_inputs(1, 130, 80)
    threads(2)
    _, expected = run_with_gradients(selective_scan, inputs, backend=native)
    threads(count)
    _, gradients = run_with_gradients(selective_scan, inputs, backend=native)
    for name, grad in expected.items():
        torch.testing.assert_close(gradients[name], grad, rtol=1e-4, atol=1e-4)


def test_calls_from_several_python_threads_do_not_meet(native):
    inputs = [scan_inputs(2, 130, 24, seed=seed) for seed in range(4)]
    expected = [run_with_gradients(selective_scan, x, backend=native) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        futures = [
            pool.submit(run_with_gradients, selective_scan, inputs[i % 4], backend=native)
            for i in range(16)
        ]
    for i, future in enumerate(futures):
        outputs, _ = future.result()
        assert all(torch.equal(x, y) for x, y in zip(outputs, expected[i % 4][0], strict=True))


@pytest.mark.parametrize("length", [0, 1, 70])
def test_no_input_is_written_to(backend, length):
    inputs = scan_inputs(2, length, 9)
    before = {k: v.clone() for k, v in inputs.items() if isinstance(v, Tensor)}
    run_with_gradients(selective_scan, inputs, backend=backend)
    assert all(torch.equal(inputs[name], x) for name, x in before.items())


@pytest.mark.usefixtures("poisoned_empty")
@pytest.mark.parametrize("pattern", masks(1, 1))
@pytest.mark.parametrize("length", [0, 1, 65])
def test_all_memory_is_written(native, length, pattern):
    inputs = scan_inputs(2, length, 13, groups=1) | {"mask": masks(2, length)[pattern]}
    outputs, gradients = run_with_gradients(selective_scan, inputs, backend=native)
    assert all(x.isfinite().all() for x in (*outputs, *gradients.values()))


def test_a_second_derivative_is_refused(native):
    inputs = scan_inputs(1, 5, 3)
    u = inputs["u"].requires_grad_()
    (grad,) = torch.autograd.grad(
        selective_scan(**inputs, backend=native)[0].sum(), u, create_graph=True
    )
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        grad.sum().backward()
