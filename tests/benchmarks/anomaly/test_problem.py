import numpy as np

from benchmarks.anomaly.problem import filled, runs


def test_runs_are_where_flags_are(rng):
    flags = rng.random(200) < 0.5
    marked = np.zeros(200, bool)
    for start, stop in runs(flags):
        assert flags[start:stop].all()
        assert start == 0 or not flags[start - 1]
        assert stop == 200 or not flags[stop]
        marked[start:stop] = True
    assert (marked == flags).all()
    assert runs(np.zeros(3, bool)) == []


def test_gaps_carry_the_last_value_of_their_own_channel(rng):
    values = rng.normal(size=(50, 3))
    values[10:15, 0] = values[:4, 1] = values[:, 2] = np.nan
    got = filled(values)
    assert (got[10:15, 0] == values[9, 0]).all()
    assert (got[:4, 1] == values[4, 1]).all()
    assert (got[:, 2] == 0).all()
    known = ~np.isnan(values)
    assert (got[known] == values[known]).all()
