import datetime as dt
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tsmamba.errors import FrameError, MissingExtraError, ParameterError, TsmambaError
from tsmamba.plotting import MAX_SERIES, plot_forecast

pytest.importorskip("matplotlib")

START = dt.datetime(2024, 1, 1)
HORIZON = 24


def series(steps: int, first: int = 0, name: str | None = None) -> pl.DataFrame:
    t = np.arange(first, first + steps)
    frame = pl.DataFrame(
        {
            "ds": [START + dt.timedelta(hours=int(step)) for step in t],
            "y": np.sin(2 * np.pi * t / 24),
        }
    )
    return frame if name is None else frame.insert_column(0, pl.lit(name).alias("unique_id"))


def forecast_of(truth: pl.DataFrame, levels: tuple[int, ...] = (90,)) -> pl.DataFrame:
    bounds = [
        (pl.col("MambaForecaster") + sign * level / 100).alias(f"MambaForecaster-{side}-{level}")
        for level in levels
        for side, sign in (("lo", -1), ("hi", 1))
    ]
    return truth.rename({"y": "MambaForecaster"}).with_columns(bounds)


def lines(figure, axes: int = 0) -> dict[str, np.ndarray]:
    return {line.get_label(): line.get_ydata() for line in figure.axes[axes].lines}


def legend(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.fixture
def history() -> pl.DataFrame:
    return series(200)


@pytest.fixture
def truth() -> pl.DataFrame:
    return series(HORIZON, first=200)


@pytest.fixture
def forecast(truth: pl.DataFrame) -> pl.DataFrame:
    return forecast_of(truth)


def test_history_is_cut_to_three_horizons_before_the_forecast(history, forecast) -> None:
    drawn = lines(plot_forecast(history, forecast))
    assert len(drawn["history"]) == 3 * HORIZON
    assert len(drawn["forecast"]) == HORIZON
    assert "truth" not in drawn


def test_history_steps_are_obeyed(history, forecast) -> None:
    assert len(lines(plot_forecast(history, forecast, history_steps=7))["history"]) == 7


def test_rows_of_the_history_after_the_origin_are_not_drawn(history, truth, forecast) -> None:
    whole = lines(plot_forecast(pl.concat([history, truth]), forecast))
    np.testing.assert_array_equal(
        whole["history"], lines(plot_forecast(history, forecast))["history"]
    )


def test_truth_is_drawn_over_the_horizon_only(history, truth, forecast) -> None:
    later = pl.concat([truth, series(50, first=200 + HORIZON)])
    drawn = lines(plot_forecast(history, forecast, truth=later))
    np.testing.assert_allclose(drawn["truth"], truth["y"])


def test_every_level_is_a_band_widest_first(history, truth) -> None:
    figure = plot_forecast(history, forecast_of(truth, levels=(50, 80, 99)), truth=truth)
    bands = ["99 % interval", "80 % interval", "50 % interval"]
    assert legend(figure) == ["history", "forecast", "truth", *bands]
    assert [band.get_label() for band in figure.axes[0].collections] == bands


def test_quantiles_pair_up_to_bands(history, truth) -> None:
    frame = truth.rename({"y": "MambaForecaster"}).with_columns(
        (pl.col("MambaForecaster") + q).alias(f"MambaForecaster_ql{q}") for q in (0.1, 0.5, 0.9)
    )
    assert legend(plot_forecast(history, frame)) == ["history", "forecast", "80 % interval"]
    alone = frame.drop("MambaForecaster")
    drawn = lines(plot_forecast(history, alone))
    np.testing.assert_allclose(drawn["forecast"], truth["y"] + 0.5)


def test_a_line_marks_the_origin(history, forecast) -> None:
    origin = plot_forecast(history, forecast).axes[0].lines[-1]
    assert set(origin.get_xdata()) == {np.datetime64(history["ds"][-1])}


def test_the_title_names_series_and_horizon() -> None:
    history, truth = series(100, name="pump"), series(HORIZON, first=100, name="pump")
    figure = plot_forecast(history, forecast_of(truth))
    assert figure.axes[0].get_title(loc="left") == "pump, 24 steps ahead"


def test_only_the_first_series_are_drawn_and_the_picture_says_so() -> None:
    names = [f"s{number}" for number in range(MAX_SERIES + 2)]
    history = pl.concat(series(100, name=name) for name in names)
    forecast = forecast_of(pl.concat(series(HORIZON, first=100, name=name) for name in names))
    figure = plot_forecast(history, forecast)
    assert [ax.get_title(loc="left").split(",")[0] for ax in figure.axes] == names[:MAX_SERIES]
    assert figure.get_supxlabel() == "4 of 6 series"


def test_a_wide_frame_gives_a_panel_for_each_target(history, truth) -> None:
    wide = history.with_columns(heat=-pl.col("y")).rename({"y": "load"})
    forecast = pl.concat(
        forecast_of(truth).with_columns(target=pl.lit(name)) for name in ("load", "heat")
    )
    figure = plot_forecast(wide, forecast, target_col=["load", "heat"])
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["load, 24 steps ahead", "heat, 24 steps ahead"]
    np.testing.assert_allclose(lines(figure, 1)["history"][:5], -lines(figure, 0)["history"][:5])


@pytest.mark.parametrize("kind", ["pandas", "pyarrow"])
def test_other_frames_give_the_same_picture(kind: str, history, truth, forecast) -> None:
    pytest.importorskip(kind)
    convert = pl.DataFrame.to_pandas if kind == "pandas" else pl.DataFrame.to_arrow
    figure = plot_forecast(convert(history), convert(forecast), truth=convert(truth))
    expected = lines(plot_forecast(history, forecast, truth=truth))
    for name, values in lines(figure).items():
        np.testing.assert_array_equal(values, expected[name])


def test_integer_steps_and_zoned_stamps_are_drawn(history, forecast) -> None:
    steps = pl.DataFrame({"ds": range(50), "y": range(50)})
    ahead = pl.DataFrame({"ds": range(50, 60), "MambaForecaster": range(10)})
    assert plot_forecast(steps, ahead).axes[0].get_xlim()[1] > 59
    zone = pl.col("ds").dt.replace_time_zone("Asia/Tokyo")
    zoned = plot_forecast(history.with_columns(zone), forecast.with_columns(zone))
    assert zoned.axes[0].get_xlim() == plot_forecast(history, forecast).axes[0].get_xlim()


def test_missing_values_break_the_line(history, forecast) -> None:
    gaps = history.with_columns(pl.when(pl.col("ds").dt.hour() != 5).then("y").alias("y"))
    assert np.isnan(lines(plot_forecast(gaps, forecast))["history"]).sum() == 3


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_picture_is_written(suffix: str, tmp_path: Path, history, forecast) -> None:
    path = tmp_path / f"out.{suffix}"
    plot_forecast(history, forecast, path=path)
    assert path.stat().st_size > 5_000


def test_pyplot_stays_out_of_it(run_python) -> None:
    code = """
import sys
import polars as pl
from tsmamba.plotting import plot_forecast
history = pl.DataFrame({"ds": range(50), "y": range(50)})
plot_forecast(history, pl.DataFrame({"ds": range(50, 60), "m": range(10)}), path="out.png")
print("matplotlib.pyplot" in sys.modules)
"""
    done = run_python("-c", code, MPLBACKEND="TkAgg")
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def test_refusals_say_what_to_do(history, truth, forecast, tmp_path) -> None:
    def message(error: type[TsmambaError], *arguments, **options) -> str:
        with pytest.raises(error) as caught:
            plot_forecast(*arguments, **options)
        return str(caught.value)

    assert message(FrameError, history.rename({"y": "load"}), forecast) == (
        "the history frame has no column 'y', only 'ds', 'load'; name columns with id_col=, "
        "time_col= and target_col="
    )
    assert "the forecast frame has no rows" in message(FrameError, history, forecast.head(0))
    assert "no series of the forecast has history" in message(FrameError, truth, forecast)
    assert "no column of point forecasts" in message(FrameError, history, truth.select("ds"))
    assert message(ParameterError, history, forecast, history_steps=-1) == (
        "history_steps=-1 must be 0 or more, or None"
    )
    assert ".pdf" in message(ParameterError, history, forecast, path=tmp_path / "out.csv")


def test_without_matplotlib_the_extra_is_named(history, forecast, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r'pip install "tsmamba\[plot\]"'):
        plot_forecast(history, forecast)
