import numpy as np

from tsmamba.anomaly.windows import windows_of


def test_windows_are_all_stretches_of_each_channel(make_waves):
    x = make_waves(50, 3)
    windows = windows_of(x, 7)
    assert windows.shape == (3, 44, 7)
    np.testing.assert_array_equal(windows[2, 11], x[11:18, 2])


def test_windows_of_many_series_are_those_of_each(rng):
    x = rng.normal(size=(4, 50, 3))
    np.testing.assert_array_equal(windows_of(x, 7), [windows_of(one, 7) for one in x])


def test_windows_are_a_view(make_waves):
    x = make_waves(50, 3)
    assert np.shares_memory(windows_of(x, 7), x)
