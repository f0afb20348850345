from datetime import datetime

import numpy as np
import polars as pl
import pytest

from tsmamba.errors import ParameterError

pytest.importorskip("matplotlib")


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def shaded(ax):
    return sum(patch.get_facecolor()[0] > 0.9 for patch in ax.patches)


@pytest.mark.parametrize("channels", [1, 3])
def test_each_channel_and_the_score_have_axes(tmp_path, make_waves, make_quick, channels):
    x = make_waves(400, channels)
    x[300:310] += 9
    detector = make_quick().fit(x[:250])
    figure = detector.plot(x, path=tmp_path / "p.png")
    assert len(figure.axes) == channels + 1
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    for channel, ax in enumerate(figure.axes[:-1]):
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), x[:, channel])
    np.testing.assert_array_equal(figure.axes[-1].lines[0].get_ydata(), detector.anomaly_score(x))
    n = len(detector.episodes(x))
    assert n > 0
    assert [shaded(ax) for ax in figure.axes] == [n] * (channels + 1)


def test_of_many_channels_the_four_with_most_anomaly_are_drawn(make_waves, make_quick):
    x = make_waves(400, 7)
    x[300:310, [1, 4, 6]] += 99
    drawn = titles(make_quick().fit(x[:250]).plot(x))
    assert len(drawn) == 5
    assert {"channel 1", "channel 4", "channel 6"} < set(drawn)
    assert drawn[:-1] == sorted(drawn[:-1])


@pytest.mark.parametrize("mode", ["offline", "streaming"])
def test_names_and_times_of_a_frame_are_drawn(make_waves, make_quick, mode):
    ds = pl.datetime_range(datetime(2024, 1, 1), datetime(2024, 1, 15), "1h", eager=True)
    frame = pl.DataFrame({"ds": ds, "flow": make_waves(len(ds))[:, 0]})
    figure = make_quick(mode=mode).fit(frame).plot(frame)
    assert titles(figure)[0] == "flow"
    assert len(figure.axes[0].lines[0].get_xdata()) == len(ds)


def test_an_unknown_ending_is_refused(tmp_path, make_waves, tiny):
    with pytest.raises(ParameterError, match=r"must end with one of .*\.png"):
        tiny.plot(make_waves(20, 2), path=tmp_path / "p.doc")


def test_a_folder_that_is_not_there_is_named(tmp_path, make_waves, tiny):
    with pytest.raises(ParameterError, match=r"cannot draw to .*none.*: there is no folder .*none"):
        tiny.plot(make_waves(20, 2), path=tmp_path / "none" / "p.png")
