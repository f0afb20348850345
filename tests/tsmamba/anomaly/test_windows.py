import numpy as np

from tsmamba.anomaly.windows import windows_of


def test_windows_are_all_stretches_of_each_channel(make_waves):
    x = make_waves(50, 3)
    windows = windows_of(x, 7)
    assert windows.shape == (3, 44, 7)
    np.testing.assert_array_equal(windows[2, 11], x[11:18, 2])


def test_windows_are_a_view(make_waves):
    x = make_waves(50, 3)
    assert np.shares_memory(windows_of(x, 7), x)
