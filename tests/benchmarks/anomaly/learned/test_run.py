from benchmarks.anomaly.learned import blocks
from benchmarks.anomaly.learned import run as runner
from benchmarks.anomaly.learned.run import PRESENT, cells, run
from benchmarks.anomaly.results import read_results


def test_a_second_run_does_nothing(waves, tmp_path, monkeypatch):
    calls = []

    def block(judged, seed):
        calls.append(seed)
        return {"twice": judged.vus_pr([judged.problem.labels + 0.0])}

    monkeypatch.setitem(blocks.BLOCKS, "block", block)
    monkeypatch.setattr(runner, "find_set", lambda name: waves)
    runner._judged.cache_clear()
    path = tmp_path / "results.jsonl"
    wanted = cells(["block"], [0, 1], [("waves", name) for name in "ab"])
    assert len(wanted) == 4
    assert run(wanted, path) == 0
    assert run(wanted, path) == 0
    assert calls == [0, 0, 1, 1]
    lines = read_results(path)
    assert all(0 < line[PRESENT] <= line["twice"] for line in lines)
