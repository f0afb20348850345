from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from tsmamba import MambaClassifier
from tsmamba.errors import FrameError, ParameterError
from tsmamba.outcomes.plot import MAX_CODES, plot_explanation

pytest.importorskip("matplotlib")

STAY = 1_001


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def code_sums(classifier, events):
    parts = classifier.explain(events).group_by("code").agg(pl.sum("contribution"))
    return dict(parts.rows())


def bars(figure):
    """Length of each bar by its name."""
    ax = figure.axes[titles(figure).index("what changes the odds")]
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    return {name.split()[0]: bar.get_width() for name, bar in zip(names, ax.patches, strict=True)}


def test_every_measurement_is_drawn_where_and_as_high_as_it_was(fitted, others, tmp_path):
    figure = plot_explanation(fitted, others.events, STAY, path=tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    pulse = others.of(STAY).filter(pl.col("code") == "HR").sort("time")
    ax = figure.axes[titles(figure).index("HR, 1/min")]
    [dots] = [each for each in ax.collections if len(each.get_offsets()) == len(pulse)]
    np.testing.assert_array_equal(
        dots.get_offsets(), pulse.select("time", "numeric_value").to_numpy()
    )


def test_colours_are_the_parts_of_the_bins(causal, others):
    figure = plot_explanation(causal, others.events, STAY)
    ax = figure.axes[titles(figure).index("HR, 1/min")]
    drawn = np.unique(ax.collections[-1].get_array())
    parts = causal.explain(others.of(STAY)).filter(pl.col("code") == "HR")
    np.testing.assert_allclose(drawn, np.unique(parts["contribution"]), rtol=0, atol=1e-6)


def test_bars_are_the_sums_of_codes(fitted, others):
    sums = code_sums(fitted, others.of(STAY))
    assert bars(plot_explanation(fitted, others.events, STAY)) == pytest.approx(sums, abs=1e-6)


def test_the_title_tells_both_probabilities(fitted, others):
    stay = others.of(STAY)
    p = fitted.predict_proba(stay)["p_1"][0]
    total = sum(code_sums(fitted, stay).values())
    usual = 1 / (1 + np.exp(total) * (1 - p) / p)
    title = plot_explanation(fitted, others.events, STAY).get_suptitle()
    assert title == f"{STAY}: {p:.0%} for label 1, {usual:.0%} if all values were usual"


def test_where_it_can_stream_the_probability_over_time_comes_first(causal, others):
    figure = plot_explanation(causal, others.events, STAY)
    assert titles(figure)[0] == "probability, after each event"
    stream = causal.stream()
    rows = others.of(STAY).sort("time").select("time", "code", "numeric_value").rows()
    last = [stream.observe(STAY, *row) for row in rows][-1]
    assert figure.axes[0].lines[0].get_ydata()[-1] == pytest.approx(last.probabilities[1])


def test_of_many_codes_six_have_a_curve(rng):
    codes = [f"c{number}" for number in range(9)]
    events = pl.DataFrame(
        {
            "subject_id": np.repeat(np.arange(40), 90),
            "time": np.tile(np.repeat(np.arange(10.0), 9), 40),
            "code": codes * 400,
            "numeric_value": rng.normal(size=3_600),
        }
    )
    labels = pl.DataFrame({"subject_id": np.arange(40), "label": ["ill", "well"] * 20})
    classifier = MambaClassifier(preset="tiny", base=None, random_state=0).fit(events, labels)
    figure = plot_explanation(classifier, events, 5, label="ill")
    curves = [title for title in titles(figure) if title in codes]
    sizes = {
        code: abs(part) for code, part in code_sums(classifier, events.filter(subject_id=5)).items()
    }
    assert curves == sorted(codes, key=lambda code: -sizes[code])[:MAX_CODES]
    assert "3" in bars(figure)  # three others
    assert "for label ill" in figure.get_suptitle()


@pytest.mark.parametrize("zero", [timedelta(0), datetime(2030, 5, 1, 6, 30)])
def test_times_are_those_of_the_user(fitted, others, zero):
    times = pl.Series("time", [zero + timedelta(hours=hours) for hours in others.events["time"]])
    figure = plot_explanation(fitted, others.events.with_columns(times), STAY)
    labels = [ax.get_xlabel() for ax in figure.axes if ax.get_xlabel()]
    assert labels == ["hours" if zero == timedelta(0) else "time"]
    first = others.of(STAY).filter(pl.col("code") == "HR")["time"].min()
    drawn = figure.axes[titles(figure).index("HR, 1/min")].lines[1].get_xdata()[0]
    expected = first if zero == timedelta(0) else np.datetime64(zero + timedelta(hours=first))
    assert drawn == expected


def test_a_stay_that_cannot_be_drawn_is_named(fitted, others, tmp_path):
    with pytest.raises(NotFittedError):
        plot_explanation(MambaClassifier(), others.events, STAY)
    with pytest.raises(FrameError, match="there is no stay 5 in the events, whose stays are 1000"):
        plot_explanation(fitted, others.events, 5)
    bare = others.of(STAY).filter(pl.col("code") == "Age")
    with pytest.raises(FrameError, match="stay 1001 has no measurement of a code that the model"):
        plot_explanation(fitted, bare, STAY)
    with pytest.raises(ParameterError, match="label=3; pass one of"):
        plot_explanation(fitted, others.events, STAY, label=3)
    with pytest.raises(ParameterError, match=r"must end with one of .*\.png"):
        plot_explanation(fitted, others.events, STAY, path=tmp_path / "p.doc")
