from itertools import pairwise

from benchmarks.logs.swaps import APART, SWAPS, jobs, swapped, told
from tsmamba import LogDetector


def test_only_neighbours_of_the_stream_are_swapped_and_times_stay():
    _, later = jobs(0, count=4_000)
    lines = [line.replace("jobs", "other") if i % 3 == 0 else line for i, line in enumerate(later)]
    faulty, swaps = swapped(lines, "jobs", 0)
    assert len(swaps) == SWAPS
    ranked = sorted(swaps)
    assert all(b - a >= APART for a, b in pairwise(ranked))
    changed = [i for i, line in enumerate(lines) if faulty[i] != line]
    assert len(changed) == 2 * SWAPS
    assert set(swaps) < set(changed)
    for i in changed:
        assert faulty[i][:27] == lines[i][:27]
        assert "service=jobs" in faulty[i]
    assert sorted(line[27:] for line in faulty) == sorted(line[27:] for line in lines)


def test_what_alerts_is_counted():
    usual, later = jobs(0, count=2_000)
    faulty, swaps = swapped(later, "jobs", 0)
    detector = LogDetector(stream_by=("service",), false_alarm_rate=0.05).fit(usual)
    results = detector.stream().feed(faulty)
    precision, hits, others = told(results, "jobs", swaps)
    assert 0.0 < precision <= 1.0
    assert 0 <= hits <= len(swaps)
    alerts = sum(result.is_anomaly for result in results)
    assert alerts - 5 * hits <= others <= alerts - hits
