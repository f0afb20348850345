import datetime as dt
import io
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import tsmamba
from tsmamba.cli import app

START = dt.datetime(2024, 1, 1)
NORMAL, LENGTH = 900, 1_200
BUMP = slice(1_000, 1_012)
TRAIN = ("--train", NORMAL)


def series(length: int = LENGTH) -> pl.DataFrame:
    """Two channels with a period of 24 rows; the second sticks in `BUMP`."""
    t = np.arange(length)
    waves = np.sin(2 * np.pi * t[:, None] / 24 + [0, 1])
    waves += np.random.default_rng(0).normal(0, 0.1, waves.shape)
    waves[BUMP, 1] = 4.0
    stamps = [START + dt.timedelta(minutes=int(step)) for step in t]
    return pl.DataFrame({"ds": stamps, "flow": waves[:, 0], "heat": waves[:, 1]})


@pytest.fixture
def tsmamba_detect():
    """Run `tsmamba detect` with arguments."""
    return lambda *arguments: CliRunner().invoke(app, ["detect", *map(str, arguments)])


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "pump.parquet"
    series().write_parquet(path)
    return path


def csv_of(done) -> pl.DataFrame:
    assert done.exit_code == 0, done.stderr
    return pl.read_csv(io.StringIO(done.stdout), try_parse_dates=True)


def refusal(done) -> str:
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_episodes_and_summary_are_shown(tsmamba_detect, parquet: Path) -> None:
    done = tsmamba_detect(parquet, *TRAIN)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    (episode,) = [line for line in lines if line.lstrip().startswith("2024-01-01 ")]
    assert episode.split()[-2:] == ["heat,", "flow"]
    facts = dict(line.split(None, 1) for line in lines[-6:])
    assert facts["rows"].strip() == "1,200"
    assert facts["channels"].strip() == "flow, heat"
    assert facts["mode"].strip() == "offline"
    assert facts["alerts"].strip().endswith("rows in 1 episodes")


def test_nothing_found_is_no_table(tsmamba_detect, tmp_path: Path) -> None:
    normal, quiet = tmp_path / "normal.parquet", tmp_path / "quiet.parquet"
    series(BUMP.start).write_parquet(normal)
    calm = np.sin(2 * np.pi * np.arange(200) / 24)
    series(200).with_columns(flow=calm).write_parquet(quiet)
    done = tsmamba_detect(quiet, "--fit", normal, "--target", "flow")
    assert done.exit_code == 0, done.stderr
    assert "0 rows in 0 episodes" in done.stdout
    assert "start" not in done.stdout


def test_the_library_gives_the_same_numbers(tsmamba_detect, parquet: Path) -> None:
    done = tsmamba_detect(parquet, *TRAIN, "--out", "-")
    frame = csv_of(done)
    detector = tsmamba.MambaDetector().fit(series().head(NORMAL))
    assert frame.columns == ["time", "score", "p_value", "is_anomaly", "status"]
    assert frame["time"].to_list() == series()["ds"].to_list()
    np.testing.assert_allclose(frame["score"], detector.anomaly_score(series()), rtol=1e-6)
    np.testing.assert_allclose(frame["p_value"], detector.p_value(series()), rtol=1e-6)
    assert frame["is_anomaly"].to_list() == (detector.predict(series()) == -1).tolist()
    assert frame["is_anomaly"].any()
    assert "alerts" in done.stderr


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "arrow", "jsonl"])
def test_scores_are_written_by_the_ending(
    tsmamba_detect, parquet: Path, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"scores.{suffix}"
    done = tsmamba_detect(parquet, *TRAIN, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert "scores in" in done.stdout
    readers = {
        "csv": pl.read_csv,
        "tsv": lambda path: pl.read_csv(path, separator="\t"),
        "parquet": pl.read_parquet,
        "arrow": pl.read_ipc,
        "jsonl": pl.read_ndjson,
    }
    assert readers[suffix](out).height == LENGTH


def test_the_settings_reach_the_detector(tsmamba_detect, parquet: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.tsm"
    settings = ("--delay", 5, "--period", 30, "--contamination", 0.01, "--mode", "streaming")
    done = tsmamba_detect(parquet, *TRAIN, *settings, "--save", model)
    assert done.exit_code == 0, done.stderr
    detector = tsmamba.MambaDetector.load(model)
    assert (
        detector.get_params()
        == tsmamba.MambaDetector(
            mode="streaming", delay=5, period=30, contamination=0.01
        ).get_params()
    )
    assert detector.plan_.delay == 5


def test_rows_without_a_score_are_empty_and_no_alert(tsmamba_detect, parquet: Path) -> None:
    streaming = ("--mode", "streaming", "--delay", "p/4")
    done = tsmamba_detect(parquet, *TRAIN, *streaming, "--out", "-")
    frame = csv_of(done)
    assert frame["score"][0] is None
    assert frame["score"][-1] is None
    assert not frame.filter(pl.col("score").is_null())["is_anomaly"].any()
    assert frame["is_anomaly"].any()
    assert f"{frame['score'].null_count()} rows" in done.stderr


def test_a_delay_without_a_stream_is_noted(tsmamba_detect, parquet: Path) -> None:
    done = tsmamba_detect(parquet, *TRAIN, "--delay", "p/2")
    assert done.exit_code == 0
    assert done.stderr == (
        "note: --delay counts in streams only; add --mode streaming to see what it does\n"
    )


def test_alerts_are_a_preset(tsmamba_detect, parquet: Path) -> None:
    done = tsmamba_detect(parquet, *TRAIN, "--preset", "alerts", "--out", "-")
    found = csv_of(done)
    detector = tsmamba.MambaDetector("alerts").fit(series().head(NORMAL))
    np.testing.assert_allclose(found["score"], detector.anomaly_score(series()), rtol=1e-6)
    assert found["is_anomaly"][BUMP.start]
    facts = dict(line.split(None, 1) for line in done.stderr.splitlines()[-5:])
    assert facts["preset"].strip() == "alerts"
    assert "mode" not in facts


def test_settings_that_a_preset_does_without_are_noted(tsmamba_detect, parquet: Path) -> None:
    idle = ("--mode", "offline", "--period", 24)
    done = tsmamba_detect(parquet, *TRAIN, "--preset", "alerts", *idle)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.splitlines() == [
        "note: --mode has no say with --preset alerts",
        "note: --period has no say with --preset alerts",
    ]


def test_normal_rows_of_another_table(tsmamba_detect, parquet: Path, tmp_path: Path) -> None:
    normal, labelled = tmp_path / "normal.csv", tmp_path / "labelled.parquet"
    series().head(NORMAL).write_csv(normal)
    series().with_columns(label=pl.lit(1)).write_parquet(labelled)
    apart = csv_of(tsmamba_detect(labelled, "--fit", normal, "--out", "-"))
    together = csv_of(tsmamba_detect(parquet, *TRAIN, "--out", "-"))
    np.testing.assert_allclose(apart["score"], together["score"], rtol=1e-6)
    series().drop("heat").write_parquet(labelled)
    assert f"has no column 'heat', which {normal} has; columns: ds" in refusal(
        tsmamba_detect(labelled, "--fit", normal)
    )


def test_a_saved_model_scores_the_same(tsmamba_detect, parquet: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.tsm"
    first = csv_of(tsmamba_detect(parquet, *TRAIN, "--save", model, "--out", "-"))
    wider = tmp_path / "wider.csv"
    series().select("heat", "ds", "flow", label=pl.lit(1)).write_csv(wider)
    again = csv_of(tsmamba_detect(wider, "--model", model, "--out", "-"))
    assert again.drop("score", "p_value").equals(first.drop("score", "p_value"))
    np.testing.assert_allclose(again["score"], first["score"], atol=1e-5)
    np.testing.assert_allclose(again["p_value"], first["p_value"], atol=1e-5)


def test_a_saved_model_refuses_the_flags_of_a_fit(tsmamba_detect, parquet, tmp_path) -> None:
    model = tmp_path / "model.tsm"
    model.touch()
    flags = ("--period", 3, "--target", "heat", "--save", "other.tsm")
    assert refusal(tsmamba_detect(parquet, "--model", model, *flags)) == (
        f"error: --period, --target, --save cannot go with --model: {model} keeps its own "
        "settings; leave one or the other out\n"
    )


def test_a_damaged_model_is_one_message(tsmamba_detect, parquet: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.tsm"
    model.write_bytes(b"not a model")
    assert str(model) in refusal(tsmamba_detect(parquet, "--model", model))


def test_channels_are_columns_of_numbers(tsmamba_detect, tmp_path: Path) -> None:
    path = tmp_path / "pump.csv"
    table = series().rename({"ds": "when"}).with_columns(state=pl.lit("on"), unique_id=pl.lit("p"))
    table.write_csv(path)
    done = tsmamba_detect(path, *TRAIN)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == (
        f"note: no column 'ds' in {path}: taking 'when' as the time\n"
        "note: leaving out 'state', which is no number\n"
    )
    named = tsmamba_detect(path, *TRAIN, "--time-col", "when", "--target", "heat")
    assert named.stderr == ""
    facts = dict(line.split(None, 1) for line in named.stdout.splitlines()[-6:])
    assert facts["channels"].strip() == "heat"


def test_rows_without_times_are_numbered(tsmamba_detect, tmp_path: Path) -> None:
    path = tmp_path / "pump.csv"
    series().drop("ds").write_csv(path)
    done = tsmamba_detect(path, *TRAIN, "--out", "-")
    assert csv_of(done)["time"].to_list() == list(range(LENGTH))
    assert done.stderr.startswith(f"note: no time in {path}: rows are numbered from 0\n")


def test_a_picture_is_drawn(tsmamba_detect, parquet: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = tsmamba_detect(parquet, *TRAIN, "--plot", tmp_path / "out.png")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_a_picture_without_matplotlib_is_refused_before_the_fit(
    tsmamba_detect, parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = tsmamba_detect(parquet, *TRAIN, "--plot", tmp_path / "out.png")
    assert 'pip install "tsmamba[plot]"' in refusal(done)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which rows are normal? Give --train N"),
        (["--train", 9, "--fit", "FILE"], "--train and --fit exclude each other"),
        (["--train", LENGTH + 1], "--train 1201: {file} has 1200 rows; give a smaller number"),
        (["--train", 5], "fit needs at least 16 rows"),
        ([*TRAIN, "--mode", "streaming", "--delay", "p/3"], "or one of 'p/4', 'p/2', 'p'"),
        ([*TRAIN, "--delay", "-1"], "delay='-1'"),
        ([*TRAIN, "--preset", "alerts", "--delay", "p/4"], "delay='p/4' with preset='alerts'"),
        ([*TRAIN, "--calibration", "evt"], "pass one of 'quantile', 'spot'"),
        ([*TRAIN, "--contamination", 2], "contamination=2.0"),
        ([*TRAIN, "--target", "load"], "has no column 'load', which --target names; columns: ds"),
        ([*TRAIN, "--out", "scores.xlsx"], "the name must end with one of .csv, "),
        ([*TRAIN, "--plot", "no/such/folder.png"], "there is no folder no/such"),
        ([*TRAIN, "--save", "no/such/model.tsm"], "there is no folder no/such"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_a_refusal_is_one_message_and_exit_code_two(
    tsmamba_detect, parquet: Path, arguments: list, message: str
) -> None:
    given = [parquet if argument == "FILE" else argument for argument in arguments]
    done = tsmamba_detect(parquet, *given)
    lines = done.stderr.splitlines()
    notes = [line for line in lines if line.startswith("note: --delay")]
    assert (done.exit_code, done.stdout) == (2, "")
    assert len(lines) == len(notes) + 1
    assert lines[-1].startswith("error: ")
    assert message.format(file=parquet) in lines[-1]


def test_several_series_are_refused(tsmamba_detect, tmp_path: Path) -> None:
    path = tmp_path / "pumps.parquet"
    both = [series().with_columns(unique_id=pl.lit(name)) for name in ("a", "b")]
    pl.concat(both).write_parquet(path)
    assert "holds 2 series in 'unique_id'" in refusal(tsmamba_detect(path, *TRAIN))


def test_a_table_without_numbers_is_refused(tsmamba_detect, tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    series().select("ds", word=pl.lit("on")).write_csv(path)
    assert "has no column of numbers to score; columns: ds (Date" in refusal(
        tsmamba_detect(path, *TRAIN)
    )


@pytest.mark.parametrize(
    "arguments", [["--bad"], ["--mode", "online"], ["--preset", "best"], ["--train", "0"]]
)
def test_a_bad_flag_is_exit_code_two(tsmamba_detect, parquet: Path, arguments: list) -> None:
    assert tsmamba_detect(parquet, *arguments).exit_code == 2


def test_an_absent_file_is_exit_code_two(tsmamba_detect) -> None:
    assert tsmamba_detect("absent.csv", *TRAIN).exit_code == 2
