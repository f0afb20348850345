import pytest

from benchmarks.forecast.models import CONTESTANTS
from benchmarks.forecast.plots import STYLES
from benchmarks.forecast.report import BEGIN, END, write_report
from benchmarks.forecast.sets import find_set
from benchmarks.forecast.tables import tables

pytest.importorskip("matplotlib")

WHERE = {"date": "2030-01-01T00:00:00+00:00", "threads": 1, "device": "a processor"}
WHERE |= {"versions": {"torch": "2.9"}, "commit": "abc"}


def line(name, horizon, model, seed=0, *, mse=0.5, mae=0.5, **extra):
    seconds = {"fit_seconds": 1.0, "predict_seconds": 0.5}
    cell = {"set": name, "horizon": horizon, "model": model, "seed": seed}
    return cell | {"mse": mse, "mae": mae, "mse_ahead": [mse] * 24} | seconds | WHERE | extra


@pytest.fixture
def results():
    horizons = find_set("ETTh1").horizons
    bands = {
        f"{kind}_{level}": 0.8 for kind in ("coverage", "interval_score") for level in (80, 90)
    }
    return [
        *(line("ETTh1", h, "RLinear", mse=0.4, mae=0.3) for h in horizons),
        *(
            line("ETTh1", h, "tsmamba (full)", seed, mse=0.3 + 0.1 * seed, mae=0.35, **bands)
            for h in horizons
            for seed in (0, 1)
        ),
        line("ETTh1", 96, "tsmamba (full)", 2, mse=0.35, mae=0.35, **bands),
        line("ETTh1", 96, "LSTM", mse=0.9),
        line("M4", 48, "seasonal naive", smape=13.912, mase=1.193, owa=0.627),
        {"set": "M4", "horizon": 48, "model": "LSTM", "seed": 0, "error": "ValueError: cannot"},
    ]


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "accuracy.md").write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")
    return tmp_path


def test_tables_give_means_spread_and_the_best(results):
    text = tables(results)
    ours, rlinear = "**0.350** / 0.350 | " * 4, "0.400 / **0.300** | " * 4
    assert f"| tsmamba (full) | {ours}**0.350 ± 0.071** / 0.350 ± 0.000 |" in text
    assert f"| RLinear | {rlinear}0.400 / **0.300** |" in text
    assert "| tsmamba (full) | – | **0.350 ± 0.071** |" in text
    # One horizon of four is no average, of a contestant or of a seed.
    assert "| LSTM | 0.900 / 0.500 | – | – | – | – |" in text
    assert "| seasonal naive | **13.912** | **1.193** | **0.627** |" in text
    assert "| ETTh1 | tsmamba (full) | 80.0 % | 80.0 % | 0.800 | 0.800 |" in text
    assert "- M4, 48 steps, LSTM, seed 0: ValueError: cannot" in text
    assert "| RLinear | – | 6 |" in text
    where = "on a processor (threads: 1); torch 2.9; commit abc; seeds 0, 1, 2."
    assert f"Run from 2030-01-01 to 2030-01-01 {where}" in text


def test_the_report_replaces_what_stands_between_the_marks(results, docs):
    write_report(results, docs)
    first = (docs / "accuracy.md").read_text()
    assert first.startswith("# Before\n")
    assert first.endswith(f"{END}\n\nAfter.\n")
    assert "old" not in first
    assert "### ETTh1" in first
    for name in ("accuracy.png", "horizons.png"):
        assert (docs / "images" / name).read_bytes().startswith(b"\x89PNG")
    write_report(results, docs)
    assert (docs / "accuracy.md").read_text() == first


def test_a_report_of_nothing_and_a_page_without_marks_are_refused(results, docs):
    with pytest.raises(ValueError, match="hold no cell that succeeded"):
        write_report(results[-1:], docs)
    (docs / "accuracy.md").write_text("# Before\n")
    with pytest.raises(ValueError, match="must hold the lines <!-- results: begin -->"):
        write_report(results, docs)
    assert (docs / "accuracy.md").read_text() == "# Before\n"


def test_every_contestant_has_a_style():
    assert set(STYLES) == set(CONTESTANTS)
