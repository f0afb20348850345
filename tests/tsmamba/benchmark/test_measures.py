from pathlib import Path

import pytest
import torch

from tsmamba.benchmark import measure_length, measure_memory, probe, timing
from tsmamba.benchmark.claims import Piece
from tsmamba.benchmark.measure_length import exponent
from tsmamba.benchmark.networks import ATTENTION, LSTM, OURS
from tsmamba.benchmark.plan import Plan
from tsmamba.benchmark.probe import ProbeError, peak_bytes
from tsmamba.benchmark.run import MEASURES, measure
from tsmamba.nn import FusedStack, MambaStack

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc"
)


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch) -> None:
    monkeypatch.setattr(timing, "TURN_SECONDS", 0.0)


@pytest.fixture
def _no_probe(monkeypatch) -> None:
    """A process that measures memory loads torch anew; one test of it is enough."""

    def refuse(task: str, network: str, lengths: list[int], **_: str) -> list[int]:
        raise ProbeError(f"no {task} of {network}")

    monkeypatch.setattr(measure_memory, "peak_bytes", refuse)
    monkeypatch.setattr(measure_length, "peak_bytes", refuse)


def test_every_piece_has_a_measure() -> None:
    assert list(MEASURES) == list(Piece)


@pytest.mark.usefixtures("_no_probe")
@pytest.mark.parametrize("piece", [piece for piece in Piece if piece != Piece.parallel])
def test_every_piece_measures_something_positive(piece: Piece, tiny: Plan) -> None:
    found = measure(piece, tiny)
    assert found.measurements
    for measured in found.measurements:
        assert measured.ours.value > 0
        assert (measured.ratio is None) != (measured.exponent is None)
        assert measured.ratio is None or measured.ratio > 0


def test_the_scan_is_raced_forward_and_backward(tiny: Plan) -> None:
    sizes = str(tiny.scan)
    whats = [m.what for m in measure(Piece.loop, tiny).measurements]
    assert whats == [f"scan {sizes}, forward", f"scan {sizes}, forward and backward"]


@pytest.mark.slow
def test_scan_and_block_are_raced_against_their_peers(tiny: Plan) -> None:
    pytest.importorskip("mambapy")
    pytest.importorskip("transformers")
    found = measure(Piece.parallel, tiny)
    assert not found.notes
    assert [(m.baseline.name, m.judged) for m in found.measurements] == [
        ("mambapy's pscan", True),
        ("mambapy's pscan", True),
        ("transformers' slow path", False),
        ("transformers' slow path", False),
    ]


def test_absent_peers_are_noted_and_the_piece_goes_on(tiny: Plan, no_peers) -> None:
    found = measure(Piece.parallel, tiny)
    assert not found.measurements
    assert [note.split()[0] for note in found.notes] == ["mambapy", "transformers"]


def test_threads_are_put_back(tiny: Plan) -> None:
    before = torch.get_num_threads()
    measure(Piece.threads, tiny)
    assert torch.get_num_threads() == before


@pytest.mark.usefixtures("_no_probe")
def test_state_and_cache_are_counted_exactly(tiny: Plan) -> None:
    found = measure(Piece.memory, tiny)
    assert [m.ours.value for m in found.measurements] == [2 * 128 * (3 + 16) * 4] * 3
    assert [m.baseline.value for m in found.measurements] == [
        2 * 64 * 4 * length for length in (8192, 32768, 131072)
    ]
    assert "no train of two Mamba blocks" in found.notes[1]
    assert "248 times as large after 9,424 steps" in found.notes[2]


def test_the_state_in_native_code_is_no_smaller_than_what_is_counted() -> None:
    fused = FusedStack(MambaStack(64, n_layers=2)).init_state(1)
    assert measure_memory.state_bytes() <= fused.nbytes


@needs_proc
def test_peak_memory_grows_with_the_length_and_holds_what_must_be_there() -> None:
    short, long = peak_bytes("train", ATTENTION, [256, 2048], kernel="math")
    scores = 2 * 2048**2 * 4  # two heads in float32
    assert long > scores
    assert short < long / 8


@pytest.mark.parametrize(
    ("script", "reason"),
    [("echo no room >&2; exit 3", "code 3, no room"), ("kill -9 $$", "code -9, perhaps for lack")],
)
def test_a_process_that_fails_says_why(
    script: str, reason: str, tmp_path: Path, monkeypatch
) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\n{script}\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(probe.sys, "executable", str(interpreter))
    with pytest.raises(ProbeError, match=f"{OURS}: the process ended with {reason}"):
        peak_bytes("forward", OURS, [8])


def test_a_process_that_takes_too_long_is_ended(monkeypatch) -> None:
    monkeypatch.setattr(probe, "SECONDS", 0.01)
    with pytest.raises(ProbeError, match="took more than 0 s"):
        peak_bytes("forward", OURS, [8])


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_found(power: float) -> None:
    curve = [(length, 3e-7 * length**power) for length in (128, 512, 1024, 65536)]
    assert exponent(curve) == pytest.approx(power)


def test_the_exponent_is_that_of_least_squares() -> None:
    assert exponent([(1, 1.0), (2, 4.0), (4, 4.0)]) == pytest.approx(1.0)


@pytest.mark.usefixtures("_no_probe")
def test_peers_stop_after_a_call_that_took_too_long(tiny: Plan, monkeypatch) -> None:
    def race(runs: dict, _: float) -> dict[str, float]:
        return {name: next(clocks[name]) for name in runs}

    # The limit is one second. Ours goes on, and LSTM just keeps it.
    clocks = {
        OURS: iter((1.0, 9.0, 90.0)), ATTENTION: iter((0.9, 1.1)), LSTM: iter((0.2, 1.0, 3.0)),
    }  # fmt: skip
    monkeypatch.setattr(measure_length, "race", race)
    found = measure(Piece.length, tiny)
    assert {name: len(curve) for name, curve in found.curves.items()} == {
        OURS: 3, ATTENTION: 2, LSTM: 3,
    }  # fmt: skip
    assert found.curves[OURS][-1] == (64, 90.0)
    assert [m.judged for m in found.measurements] == [True, True, False, False, False, False]


def test_quick_sizes_are_an_eighth_and_still_sizes() -> None:
    full, quick = Plan(), Plan().shortened()
    assert quick.scan == (4, 1024, 128, 16)
    assert [8 * length for length in quick.lengths] == list(full.lengths)
    assert quick.seconds == full.seconds / 8
