from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from tsmamba import LogDetector
from tsmamba.errors import FrameError, ParameterError
from tsmamba.logs.plot import MAX_STRIPS, plot_log_scores

pytest.importorskip("matplotlib")

START = datetime(2026, 3, 2, tzinfo=UTC)


def scores(streams: dict[str, list[float | None]], reason: str = "value") -> pl.DataFrame:
    """Scores of streams, a minute apart."""
    rows = [
        (START + timedelta(minutes=i), name, score, score is not None and score > 1.0, reason)
        for name, values in streams.items()
        for i, score in enumerate(values)
    ]
    names = ["time", "stream", "score", "is_anomaly", "reason"]
    return pl.DataFrame(rows, schema=names, orient="row", strict=False)


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def dots(ax):
    """Heights of the alerts of each reason."""
    return {dots.get_label(): sorted(dots.get_offsets()[:, 1].tolist()) for dots in ax.collections}


def legend(figure):
    return [text.get_text() for box in figure.legends for text in box.get_texts()]


def test_each_stream_has_a_strip_and_the_one_with_most_alerts_is_first(tmp_path):
    frame = scores({"quiet": [0.2] * 9, "loud": [0.2, 3.0, 2.0], "mixed": [0.4, 1.5]})
    figure = plot_log_scores(frame, path=tmp_path / "p.png")
    assert titles(figure) == ["loud", "mixed", "quiet"]
    assert [dots(ax) for ax in figure.axes] == [{"value": [2.0, 3.0]}, {"value": [1.5]}, {}]
    assert all(1.0 in ax.lines[1].get_ydata() for ax in figure.axes)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_alerts_are_coloured_by_reason_and_named_once():
    one, two = scores({"a": [3.0, 0.1], "b": [4.0]}, "gap"), scores({"b": [0.3, 2.0]}, "silence")
    figure = plot_log_scores(pl.concat([one, two]))
    assert legend(figure) == ["gap", "silence"]
    colours = {
        (ax.get_title(loc="left"), each.get_label()): tuple(each.get_facecolor()[0])
        for ax in figure.axes
        for each in ax.collections
    }
    assert colours["a", "gap"] == colours["b", "gap"] != colours["b", "silence"]


def test_usual_scores_are_the_highest_of_each_part_of_the_time():
    values = np.random.default_rng(0).uniform(0.1, 0.9, 50_000)
    values[12_345] = 0.95
    line = plot_log_scores(scores({"a": values.tolist()})).axes[0].lines[0]
    assert len(line.get_xdata()) == 600
    assert line.get_ydata().max() == 0.95
    assert line.get_ydata().min() > 0.8
    few = plot_log_scores(scores({"a": [0.3, 0.2, 0.5]})).axes[0].lines[0]
    assert few.get_ydata().tolist() == [0.3, 0.2, 0.5]


def test_nothing_is_drawn_of_rows_without_a_score():
    frame = scores({"a": [None, None, 0.4, 2.0], "b": [None]})
    figure = plot_log_scores(frame)
    assert titles(figure) == ["a"]
    assert figure.axes[0].lines[0].get_ydata().tolist() == [0.4]


def test_of_many_streams_those_with_most_alerts_are_drawn():
    frame = scores({f"s{i}": [0.1] + [2.0] * i for i in range(9)})
    figure = plot_log_scores(frame)
    assert titles(figure) == [f"s{i}" for i in range(8, 8 - MAX_STRIPS, -1)]
    assert figure.get_supxlabel() == "6 of 9"


def test_another_column_or_none_makes_the_strips():
    frame = scores({"a": [0.1, 2.0], "b": [3.0, 0.3]}).with_columns(source=pl.lit("app.log"))
    assert titles(plot_log_scores(frame, by="source")) == ["app.log"]
    figure = plot_log_scores(frame, by=None)
    assert titles(figure) == ["log"]
    assert figure.axes[0].lines[0].get_ydata().tolist() == [0.1, 0.3]
    assert dots(figure.axes[0]) == {"value": [2.0, 3.0]}


def test_incidents_are_shaded_in_every_strip_and_named_in_the_first():
    at = [START + timedelta(minutes=1), START + timedelta(minutes=3)]
    known = pl.DataFrame({"start": at[:1], "end": at[1:], "name": ["outage"]})
    figure = plot_log_scores(scores({"a": [0.1] * 9, "b": [2.0]}), incidents=known)
    first, second = figure.axes
    assert [len(ax.patches) for ax in (first, second)] == [1, 1]
    assert first.patches[0].get_width() * 24 * 60 == pytest.approx(2.0)
    assert [text.get_text() for text in first.texts] == ["outage"]
    assert not second.texts


def test_scores_of_a_detector_without_times_are_drawn_in_their_order():
    detector = LogDetector(multiline=None).fit([f"job {i} done" for i in range(1_000)])
    scored = detector.score(["job 1 done", "disk failed", "job 2 done"])
    (ax,) = plot_log_scores(scored).axes
    assert dots(ax) == {"unseen_template": [scored["score"][1]]}
    assert ax.collections[0].get_offsets()[0, 0] == 2
    assert ax.lines[0].get_xdata().tolist() == [1, 3]
    incident = pl.DataFrame({"start": [START], "end": [START], "name": ["outage"]})
    with pytest.raises(ParameterError, match="incidents need scores with times"):
        plot_log_scores(scored, incidents=incident)


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (scores({"a": [2.0]}).drop("reason"), {}, "the scores have no column 'reason', only"),
        (scores({"a": [2.0]}), {"by": "host"}, "the scores have no column 'host', only 'time'"),
        (scores({"a": [None]}), {}, "no row of the scores has a score"),
        (
            scores({"a": [2.0]}),
            {"incidents": pl.DataFrame({"start": [START]})},
            "the incidents have no column 'end', only 'start'",
        ),
    ],
)
def test_frames_that_cannot_be_drawn_are_refused(frame, options, message):
    with pytest.raises(FrameError, match=message):
        plot_log_scores(frame, **options)


def test_an_unknown_ending_is_refused(tmp_path):
    with pytest.raises(ParameterError, match=r"must end with one of .*\.png"):
        plot_log_scores(scores({"a": [2.0]}), path=tmp_path / "p.doc")
