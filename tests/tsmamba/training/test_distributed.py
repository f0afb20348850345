"""Real processes: alone, started by torchrun on one node and on two, and started by hand."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tsmamba import MambaForecaster
from tsmamba.training import Ranks, joined, process_rank

WORKER = str(Path(__file__).with_name("rank_worker.py"))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
EXACT = ["plain", "odd batch", "one window", "student-t", "signs"]
SHARED = [*EXACT, "dropout", "no seed", "one is late", "one is stopped", "of the user"]
LIMIT = 150


def finish(*commands, **environment):
    """Run commands side by side and return exit codes and outputs; none outlives the limit."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            command,
            env=env | environment | extra,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        for command, extra in commands
    ]
    # torchrun ends its processes before itself, if it is asked to; each also ends by itself.
    timer = threading.Timer(LIMIT, lambda: [each.terminate() for each in started])
    timer.start()
    try:
        outputs = [each.communicate(timeout=LIMIT + 40)[0] for each in started]
    finally:
        timer.cancel()
        for each in started:
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
    return [each.returncode for each in started], outputs


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def seen(folder, case, rank):
    """Return what a rank wrote: a dictionary, and its weights."""
    path = folder / f"{case}-{rank}"
    return json.loads(path.with_suffix(".json").read_text()), load_file(f"{path}.safetensors")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    codes, outputs = finish(([sys.executable, WORKER, str(folder), *EXACT], {}))
    assert codes == [0], outputs
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    launch = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", WORKER, str(folder), *SHARED]
    codes, outputs = finish((launch, {}))
    assert codes == [0], outputs
    return folder


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nodes")
    meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
    launch = [*TORCHRUN, "--nnodes", "2", "--nproc-per-node", "1", *meet]
    commands = [
        ([*launch, "--node-rank", str(node), WORKER, str(folder), "plain"], {}) for node in (0, 1)
    ]
    codes, outputs = finish(*commands)
    assert codes == [0, 0], outputs
    return folder


def assert_equal_to_one_process(alone, shared, case):
    one, weights = seen(alone, case, 0)
    for rank in (0, 1):
        other, other_weights = seen(shared, case, rank)
        assert other["losses"] == pytest.approx(one["losses"], abs=1e-5)
        assert [step for step, _ in other["errors"]] == [step for step, _ in one["errors"]]
        errors = [error for _, error in one["errors"]]
        assert [error for _, error in other["errors"]] == pytest.approx(errors, abs=1e-5)
        assert other["windows"] == one["windows"]
        assert other["forecast"] == pytest.approx(one["forecast"], abs=1e-5)
        torch.testing.assert_close(other_weights, weights, atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("case", EXACT)
def test_two_processes_train_like_one(alone, two, case):
    assert_equal_to_one_process(alone, two, case)


@pytest.mark.slow
def test_two_nodes_train_like_one_process(alone, nodes):
    assert_equal_to_one_process(alone, nodes, "plain")


@pytest.mark.slow
@pytest.mark.parametrize("case", SHARED)
def test_all_ranks_end_alike(two, case):
    (first, weights), (second, other) = seen(two, case, 0), seen(two, case, 1)
    for key in ("losses", "errors", "interrupted", "forecast"):
        assert first[key] == second[key]
    torch.testing.assert_close(weights, other, atol=0, rtol=0)


@pytest.mark.slow
def test_training_moves_the_weights(alone):
    """Else equality would prove nothing."""
    for case in EXACT:
        result, _ = seen(alone, case, 0)
        assert len(set(result["losses"])) == (4 * 12 if case == "plain" else 12)
        first, *later = (error for _, error in result["errors"])
        assert min(later) < first or case == "one window"


@pytest.mark.slow
@pytest.mark.parametrize("case", ["one is late", "one is stopped"])
def test_what_stops_one_rank_stops_all_at_the_same_step(two, case):
    """Ranks tell each other with the gradients, so of what happens later in a step in the next."""
    result, _ = seen(two, case, 0)
    assert len(result["losses"]) == (6 if case == "one is late" else 5)
    assert result["interrupted"] == (case == "one is stopped")


@pytest.mark.slow
def test_a_group_is_left_only_by_who_joined_it(two):
    results = [seen(two, case, rank)[0] for rank in (0, 1) for case in SHARED]
    assert [result["joined"] for result in results] == [*[False] * 9, True] * 2
    # A thread of the group that outlives it may end the process in an abort.
    alive = [any("gloo" in name for name in result["threads"]) for result in results]
    assert alive == [result["joined"] and Path("/proc/self/task").exists() for result in results]


@pytest.mark.slow
def test_a_model_saved_by_all_ranks_is_whole(two):
    model = MambaForecaster.load(two / "plain.tsm")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as torchrun does: more of them round differently
    try:
        forecast = model.predict()["MambaForecaster"].to_list()
    finally:
        torch.set_num_threads(threads)
    assert forecast == seen(two, "plain", 0)[0]["forecast"]


def by_hand(folder, *cases):
    """Start two ranks without torchrun, which would end the second for the first."""
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, WORKER, str(folder), *cases]
    return finish(*((command, place | {"RANK": rank}) for rank in "01"))


@pytest.mark.slow
def test_a_rank_that_fails_ends_the_others(tmp_path):
    started = time.perf_counter()
    codes, (waiting, failed) = by_hand(tmp_path, "one fails")
    assert codes == [1, 1]
    assert "ZeroDivisionError: rank 1 fails" in failed
    assert "This is rank 0 of 2 that share a training" in waiting
    assert time.perf_counter() - started < LIMIT


@pytest.mark.slow
def test_a_rank_that_hangs_ends_the_others_in_time(tmp_path):
    launch = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", WORKER, str(tmp_path)]
    codes, [output] = finish(([*launch, "one is stuck"], {}))
    assert codes == [1]
    assert "This is rank 0 of 2 that share a training" in output


@pytest.mark.slow
def test_ranks_with_other_series_are_refused(tmp_path):
    codes, outputs = by_hand(tmp_path, "other series")
    assert codes == [1, 1]
    for output in outputs:
        assert "the processes of this training differ in" in output
        assert "give each of them all series" in output


# One process


def test_a_process_alone_joins_nobody():
    with joined() as ranks:
        assert (ranks.rank, ranks.size, process_rank()) == (0, 1, 0)
        assert ranks.share(5).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("n", "size"), [(0, 3), (2, 3), (7, 2), (8, 4), (9, 4)])
def test_shares_are_nearly_equal_and_cover_all(n, size):
    shares = [Ranks(rank, size).share(n) for rank in range(size)]
    assert torch.cat(shares).tolist() == list(range(n))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_process_alone_draws_from_one_stream():
    ranks = Ranks()
    ranks.align(nn.Linear(1, 1))
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first = torch.rand(1)
    with ranks.own_draws():
        second = torch.rand(1)
    assert torch.equal(torch.cat([first, second, torch.rand(1)]), expected)


def test_progress_belongs_to_the_first_of_those_started_together(monkeypatch):
    for name, value in {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "x"}.items():
        monkeypatch.setenv(name, value)
    assert process_rank() == 0
    monkeypatch.setenv("MASTER_PORT", "1")
    assert process_rank() == 3
