import datetime as dt
import io
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import tsmamba
from tsmamba.cli import app
from tsmamba.errors import FrameWarning

START = dt.datetime(2024, 1, 1)
QUICK = ("--mode", "base", "--horizon", "24", "--context", "48")


def series(steps: int = 600, name: str | None = None) -> pl.DataFrame:
    t = np.arange(steps)
    noise = np.random.default_rng(0).normal(0, 0.1, steps)
    frame = pl.DataFrame(
        {
            "ds": [START + dt.timedelta(hours=int(step)) for step in t],
            "y": 10 + np.sin(2 * np.pi * t / 24) + noise,
        }
    )
    return frame if name is None else frame.insert_column(0, pl.lit(name).alias("unique_id"))


@pytest.fixture
def tsmamba_forecast():
    """Run `tsmamba forecast` with arguments."""
    return lambda *arguments: CliRunner().invoke(app, ["forecast", *map(str, arguments)])


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "load.parquet"
    series().write_parquet(path)
    return path


def csv_of(done) -> pl.DataFrame:
    assert done.exit_code == 0, done.stderr
    return pl.read_csv(io.StringIO(done.stdout), try_parse_dates=True)


def test_head_and_summary_are_shown(tsmamba_forecast, parquet: Path) -> None:
    done = tsmamba_forecast(parquet, *QUICK)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    for words in ("lo-90", "and 18 more rows", "2024-01-26 00:00:00", "24 steps", "mode='base'"):
        assert words in done.stdout
    facts = dict(line.split(None, 1) for line in done.stdout.splitlines()[-9:])
    assert (facts["series"].strip(), facts["rows"].strip()) == ("1", "600")
    assert facts["frequency"].strip() == "1h"


def test_out_dash_gives_csv_alone_on_stdout(tsmamba_forecast, parquet: Path) -> None:
    done = tsmamba_forecast(parquet, *QUICK, "--out", "-", "--level", 80, "--level", 97.5)
    frame = csv_of(done)
    assert frame.columns == [
        "ds",
        "MambaForecaster",
        "MambaForecaster-lo-97.5",
        "MambaForecaster-lo-80",
        "MambaForecaster-hi-80",
        "MambaForecaster-hi-97.5",
    ]
    assert frame.height == 24
    assert frame["ds"][0] == START + dt.timedelta(hours=600)
    assert "frequency" in done.stderr


def test_the_library_gives_the_same_numbers(tsmamba_forecast, parquet: Path) -> None:
    frame = csv_of(tsmamba_forecast(parquet, *QUICK, "--out", "-"))
    expected = tsmamba.MambaForecaster(24, mode="base", context_length=48).fit(series()).predict()
    np.testing.assert_allclose(frame["MambaForecaster"], expected["MambaForecaster"], rtol=1e-5)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "arrow", "jsonl"])
def test_the_forecast_is_written_by_the_ending(
    tsmamba_forecast, parquet: Path, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"forecast.{suffix}"
    done = tsmamba_forecast(parquet, *QUICK, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert "forecast in" in done.stdout
    readers = {
        "csv": pl.read_csv,
        "tsv": lambda path: pl.read_csv(path, separator="\t"),
        "parquet": pl.read_parquet,
        "arrow": pl.read_ipc,
        "jsonl": pl.read_ndjson,
    }
    assert readers[suffix](out).height == 24


def test_the_only_columns_that_fit_are_taken_with_a_note(tsmamba_forecast, tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    series().rename({"ds": "timestamp", "y": "load"}).write_csv(path)
    done = tsmamba_forecast(path, *QUICK, "--out", "-")
    assert csv_of(done).columns[0] == "timestamp"
    assert f"note: no column 'ds' in {path}: taking 'timestamp' as the time" in done.stderr
    assert f"note: no column 'y' in {path}: taking 'load' as the values" in done.stderr


def test_several_series_and_targets(tsmamba_forecast, tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    frame = pl.concat([series(name="a"), series(name="b")]).rename({"unique_id": "site"})
    frame.with_columns(heat=-pl.col("y")).write_parquet(path)
    columns = ("--id-col", "site", "--target", "y", "--target", "heat")
    frame = csv_of(tsmamba_forecast(path, *QUICK, *columns, "--out", "-"))
    assert frame.height == 2 * 2 * 24
    assert frame.columns[:3] == ["site", "ds", "target"]


def test_a_picture_is_drawn(tsmamba_forecast, parquet: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = tsmamba_forecast(parquet, *QUICK, "--plot", tmp_path / "out.png")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_a_saved_model_forecasts_again(tsmamba_forecast, parquet: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.tsm"
    first = csv_of(tsmamba_forecast(parquet, *QUICK, "--save", model, "--out", "-"))
    again = csv_of(tsmamba_forecast(parquet, "--model", model, "--out", "-"))
    assert again.columns == first.columns
    assert again["ds"].equals(first["ds"])
    np.testing.assert_allclose(again.drop("ds"), first.drop("ds"), rtol=1e-5)


def test_a_saved_model_refuses_the_flags_of_a_fit(tsmamba_forecast, parquet, tmp_path) -> None:
    model = tmp_path / "model.tsm"
    model.touch()
    done = tsmamba_forecast(parquet, "--model", model, "--seed", 3, "--target", "y")
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: --seed, --target cannot go with --model: {model} keeps its own settings; "
        "leave one or the other out\n"
    )


def test_a_damaged_model_is_one_message(tsmamba_forecast, parquet: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.tsm"
    model.write_bytes(b"not a model")
    done = tsmamba_forecast(parquet, "--model", model)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


@pytest.fixture
def priced(tmp_path: Path) -> tuple[Path, Path]:
    """A table whose values hang on prices and campaigns, and one of those of the next day."""
    rng = np.random.default_rng(1)
    price, campaign = rng.normal(size=624), rng.choice(["mail", "none"], size=624)
    frame = pl.concat([series(624, name="shop")]).with_columns(
        price=pl.Series(price),
        campaign=pl.Series(campaign),
        region=pl.lit("north"),
        w=pl.lit(1),
        y=pl.col("y") + pl.Series(2.0 * (campaign == "mail") - 3 * price),
    )
    history, ahead = tmp_path / "sales.csv", tmp_path / "plan.csv"
    frame.head(600).write_csv(history)
    frame.tail(24).drop("y", "region", "w").reverse().write_csv(ahead)
    return history, ahead


COVARIATES = (
    *("--future-covariate", "price", "--future-covariate", "campaign"),
    *("--static-covariate", "region"),
)


def test_covariates_and_weights_reach_the_forecaster(tsmamba_forecast, priced, tmp_path) -> None:
    history, ahead = priced
    model = tmp_path / "model.tsm"
    columns = (*COVARIATES, "--weight", "w", "--future", ahead)
    done = tsmamba_forecast(history, *QUICK, *columns, "--save", model, "--out", "-")
    frame = csv_of(done)
    forecaster = tsmamba.MambaForecaster.load(model)
    assert forecaster.future_covariates == ["price", "campaign"]
    assert forecaster.static_covariates == ["region"]
    assert forecaster.weight_col == "w"
    assert forecaster.report_["effects"].startswith("used")
    plan = pl.read_csv(ahead).reverse()
    moved = -3 * plan["price"] + 2 * (plan["campaign"] == "mail").cast(pl.Float64)
    assert np.corrcoef(frame["MambaForecaster"], moved)[0, 1] > 0.9
    again = tsmamba_forecast(history, "--model", model, "--future", ahead, "--out", "-")
    np.testing.assert_allclose(
        csv_of(again)["MambaForecaster"], frame["MambaForecaster"], rtol=1e-5
    )


def test_rows_ahead_and_columns_known_ahead_need_each_other(
    tsmamba_forecast, priced, tmp_path
) -> None:
    history, ahead = priced
    model = tmp_path / "model.tsm"
    asked = "'price', 'campaign' must be known ahead; give the rows ahead with --future FILE\n"
    alone = tsmamba_forecast(history, *QUICK, *COVARIATES)
    assert (alone.exit_code, alone.stderr) == (2, f"error: {asked}")
    unnamed = tsmamba_forecast(history, *QUICK, "--target", "y", "--future", ahead)
    assert unnamed.exit_code == 2
    assert unnamed.stderr.endswith("name some with --future-covariate\n")
    tsmamba_forecast(history, *QUICK, *COVARIATES, "--future", ahead, "--save", model)
    applied = tsmamba_forecast(history, "--model", model)
    assert (applied.exit_code, applied.stderr) == (2, f"error: {asked}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop("ds"), "has no column 'ds', which its rows are joined by"),
        (lambda frame: frame.drop("unique_id"), "has no column 'unique_id'"),
        (lambda frame: frame.drop("price"), "'price'"),
        (lambda frame: frame.head(20), "future lacks 4 of 24 rows"),
        (lambda frame: frame.with_columns(ds=pl.lit("soon")), "such as 'soon'"),
    ],
    ids=["no stamps", "no ids", "no covariate", "too few", "no times"],
)
def test_rows_ahead_that_do_not_fit_are_one_message(
    tsmamba_forecast, priced, change, message: str
) -> None:
    history, ahead = priced
    change(pl.read_csv(ahead)).write_csv(ahead)
    done = tsmamba_forecast(history, *QUICK, *COVARIATES, "--future", ahead)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_quantiles_come_in_place_of_intervals(tsmamba_forecast, parquet: Path) -> None:
    done = tsmamba_forecast(parquet, *QUICK, "--quantile", 0.9, "--quantile", 0.1, "--out", "-")
    assert csv_of(done).columns[2:] == ["MambaForecaster_ql0.1", "MambaForecaster_ql0.9"]


def test_a_season_is_taken_as_given(tsmamba_forecast, parquet: Path) -> None:
    done = tsmamba_forecast(parquet, *QUICK, "--season", 12)
    assert "12 steps" in done.stdout


def test_the_flags_are_shown_in_groups(tsmamba_forecast) -> None:
    text = tsmamba_forecast("--help").stdout
    places = [text.index(f" {group} ") for group in ("Output", "Columns", "Covariates", "Model")]
    assert places == sorted(places)


def test_training_stops_by_the_clock(tsmamba_forecast, parquet: Path) -> None:
    done = tsmamba_forecast(
        *(parquet, "--mode", "full", "--horizon", 12, "--context", 96),
        *("--max-time", 0.2, "--seed", 0, "--out", "-"),
    )
    assert csv_of(done).height == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--horizon", 5000], "too few to learn a forecast of 5000"),
        (["--level", 100], "a level is in percent"),
        (["--quantile", 5], "numbers lie strictly between 0 and 1"),
        (["--quantile", 0.5, "--level", 80], "--level cannot go with --quantile"),
        (["--weight", "w"], "has no column 'w', which --weight names; columns: ds (Datetime), y"),
        (["--future-covariate", "y"], "'y' must be known ahead; give the rows ahead with --future"),
        (["--freq", "hourly"], "freq='hourly' is not a frequency"),
        (["--target", "load"], "has no column 'load', which --target names; columns: ds (Date"),
        (["--out", "forecast.xlsx"], "the name must end with one of .csv, "),
        (["--out", "no/such/folder.csv"], "there is no folder no/such"),
        (["--plot", "no/such/folder.png"], "there is no folder no/such"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_a_refusal_is_one_message_and_exit_code_two(
    tsmamba_forecast, parquet: Path, arguments: list, message: str
) -> None:
    done = tsmamba_forecast(parquet, "--mode", "base", *arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_stamps_on_no_grid_are_taken_row_by_row(tsmamba_forecast, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    minutes = pl.Series(np.random.default_rng(0).integers(1, 90, 300)).cum_sum()
    series(300).with_columns(ds=START + pl.duration(minutes=minutes)).write_csv(path)
    done = tsmamba_forecast(path, *QUICK, "--freq", "uneven")
    assert done.exit_code == 0
    assert re.search(r"frequency +about \d+(\.\d)?m \(uneven\)", done.stdout)
    assert "pass freq='uneven'" in tsmamba_forecast(path, *QUICK).stderr


@pytest.mark.parametrize(
    "arguments", [["--bad"], ["--mode", "fastest"], ["--horizon", "0"], ["--model", "absent.tsm"]]
)
def test_a_bad_flag_is_exit_code_two(tsmamba_forecast, parquet: Path, arguments: list) -> None:
    assert tsmamba_forecast(parquet, *arguments).exit_code == 2


def test_an_absent_file_is_exit_code_two(tsmamba_forecast) -> None:
    assert tsmamba_forecast("absent.csv").exit_code == 2


def test_an_error_that_nobody_foresaw_is_not_hidden(
    tsmamba_forecast, parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self, df, **options):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(tsmamba.MambaForecaster, "fit", fail)
    assert isinstance(tsmamba_forecast(parquet, *QUICK).exception, ZeroDivisionError)


def test_a_repair_is_a_warning_in_one_line(tsmamba_forecast, tmp_path: Path) -> None:
    path = tmp_path / "unsorted.parquet"
    series().reverse().write_parquet(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FrameWarning)
        done = tsmamba_forecast(path, *QUICK, "--out", "-")
    assert csv_of(done).height == 24
    assert done.stderr.startswith("warning: ")
    assert "FrameWarning" not in done.stderr


def test_a_picture_without_matplotlib_is_refused_before_the_fit(
    tsmamba_forecast, parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = tsmamba_forecast(parquet, *QUICK, "--plot", tmp_path / "out.png")
    assert done.exit_code == 2
    assert 'pip install "tsmamba[plot]"' in done.stderr
