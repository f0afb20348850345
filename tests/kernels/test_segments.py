"""Where threads outnumber channels, time is cut into segments: each result stays what it was."""

import pytest
import torch

from tsmamba_kernels import selective_scan
from tsmamba_kernels.selective_scan import cpu_plan
from tsmamba_kernels.testing import (
    SCAN_OPTIONS,
    boundaries,
    check_parity,
    masks,
    pack,
    run_with_gradients,
    scan_inputs,
)

pytestmark = pytest.mark.usefixtures("native")

LENGTH = 7 * cpu_plan.CHUNK - 13


@pytest.fixture
def in_segments(monkeypatch):
    """Return a function that makes every scan run in so many segments; it returns their plans."""

    def force(count):
        plans, cut = [], cpu_plan.cut
        monkeypatch.setattr(cpu_plan, "segments", lambda *_: count)
        monkeypatch.setattr(cpu_plan, "cut", lambda *sizes: plans.append(cut(*sizes)) or plans[-1])
        return plans

    return force


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_any_number_of_segments_agrees(in_segments, count, batch, reverse):
    plans = in_segments(count)
    check_parity(selective_scan, scan_inputs(batch, LENGTH, 9) | {"reverse": reverse})
    passes = 2 if count > 1 else 0  # one cut for the forward and one for the backward pass
    assert [plan.shape for plan in plans] == passes * [(batch, count, 4)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_every_type_agrees(in_segments, dtype):
    in_segments(3)
    check_parity(selective_scan, scan_inputs(2, LENGTH, 10, 5, groups=2, dtype=dtype))


@pytest.mark.parametrize(
    "options",
    [(), *(set(SCAN_OPTIONS) - {x} for x in SCAN_OPTIONS)],
    ids=lambda options: "+".join(sorted(options)) or "none",
)
def test_every_optional_operand_may_be_absent(in_segments, options):
    in_segments(2)
    check_parity(selective_scan, scan_inputs(1, LENGTH, 3, 4, options=options))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("pattern", masks(1, 1))
def test_every_mask_pattern_agrees(in_segments, pattern, reverse):
    in_segments(3)
    inputs = scan_inputs(2, LENGTH, 3, 4) | {"mask": masks(2, LENGTH)[pattern]}
    check_parity(selective_scan, inputs | {"reverse": reverse})


@pytest.mark.parametrize("rate", [0.0, -1e-6, -1e3, -1e30])
@pytest.mark.parametrize("tied", [False, True])
def test_extreme_decay_rates_agree(in_segments, tied, rate):
    in_segments(3)
    inputs = scan_inputs(1, LENGTH, 3, 4)
    A = torch.full_like(inputs["A"], rate)
    check_parity(selective_scan, inputs | {"A": A[:, 0] if tied else A})


@pytest.mark.parametrize("wanted", [0, 1])
def test_either_output_alone_carries_all_gradients(in_segments, wanted):
    in_segments(3)
    check_parity(lambda **x: selective_scan(**x)[wanted], scan_inputs(2, LENGTH, 3))


@pytest.mark.usefixtures("poisoned_empty")
def test_all_memory_is_written(in_segments):
    in_segments(3)
    outputs, gradients = run_with_gradients(selective_scan, scan_inputs(2, LENGTH, 13))
    assert all(x.isfinite().all() for x in (*outputs, *gradients.values()))


@pytest.mark.parametrize("reverse", [False, True])
def test_results_are_the_same_from_run_to_run(in_segments, reverse):
    in_segments(3)
    inputs = scan_inputs(2, LENGTH, 13) | {"reverse": reverse}
    first, second = (run_with_gradients(selective_scan, inputs) for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_packed_series_are_not_cut(in_segments):
    plans = in_segments(3)
    check_parity(selective_scan, pack(scan_inputs(1, LENGTH, 9), boundaries(LENGTH)["some_empty"]))
    assert plans == []


@pytest.mark.parametrize("reverse", [False, True])
def test_many_threads_of_few_channels_agree(monkeypatch, threads, reverse):
    cut, plans = cpu_plan.cut, []
    monkeypatch.setattr(cpu_plan, "cut", lambda *sizes: plans.append(sizes) or cut(*sizes))
    threads(7)
    check_parity(selective_scan, scan_inputs(2, 600, 3) | {"reverse": reverse})
    assert plans == 2 * [(2, 600, 2)]


@pytest.mark.parametrize(
    ("batch", "groups", "channels", "length", "threads", "expected"),
    [
        (1, 1, 8, 10_000, 1, 1),
        (1, 1, 8, 10_000, 2, 1),  # the pass for the states would cost what the second thread gains
        (1, 1, 8, 10_000, 3, 6),
        (1, 1, 8, 10_000, 16, 32),
        (1, 1, 8, 1_000, 16, 3),  # no segment of less than four chunks
        (1, 1, 8, 255, 16, 1),
        (1, 1, 8, 0, 16, 1),
        (1, 1, 3, 10_000, 16, 32),  # less than a vector of channels is one part
        (1, 1, 128, 10_000, 16, 1),  # sixteen parts for sixteen threads
        (1, 1, 40, 10_000, 16, 7),
        (5, 1, 8, 10_000, 16, 7),
        (1, 5, 40, 10_000, 16, 7),
        (64, 1, 8, 10_000, 16, 1),
        (0, 1, 8, 10_000, 16, 1),
    ],
)
def test_time_is_cut_only_for_threads_that_would_idle(
    batch, groups, channels, length, threads, expected
):
    assert cpu_plan.segments(batch, groups, channels, length, threads) == expected


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("length", [64, 65, 448, 449, 1000])
def test_segments_are_whole_chunks_that_cover_every_step_once(length, count):
    plan = cpu_plan.cut(2, length, count)
    assert plan.shape[1] <= count
    chunks = -(-length // cpu_plan.CHUNK)
    for row, segments in enumerate(plan.tolist()):
        step = 0
        for of_row, start, steps, chunk in segments:
            assert (of_row, start) == (row, step)
            assert chunk == row * chunks + start // cpu_plan.CHUNK
            assert start % cpu_plan.CHUNK == 0
            assert steps > 0
            step += steps
        assert step == length
