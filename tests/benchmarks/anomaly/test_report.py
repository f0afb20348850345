import pytest

from benchmarks.anomaly import published
from benchmarks.anomaly.methods import METHODS
from benchmarks.anomaly.plots import STYLES
from benchmarks.anomaly.published import read_published, read_scoreboard
from benchmarks.anomaly.report import write_report
from benchmarks.anomaly.results import CORPUS, scored
from benchmarks.anomaly.scores import PROFILES
from benchmarks.anomaly.tables import means, rivals, tables
from benchmarks.forecast.report import BEGIN, END

pytest.importorskip("matplotlib")

WHERE = {"date": "2030-01-01T00:00:00+00:00", "threads": 1, "device": "a processor"}
WHERE |= {"versions": {"numpy": "2.4"}, "commit": "abc"}
OURS = "tsmamba (offline)"


def line(source, series, model, vus_pr, **extra):
    cell = {"set": source, "series": series, "model": model, "seed": 0}
    names = ("vus_roc", "auc_pr", "f1", "recall", "affiliation")
    rest = dict.fromkeys(names, 0.25) | {"delay": 7.0, "seconds": 0.5, "alerted": 0.01}
    return cell | {"vus_pr": vus_pr} | rest | WHERE | extra


@pytest.fixture
def results():
    files = [row.file for row in read_published() if row.source]
    failed = {"set": "ASD", "series": "a", "model": OURS, "seed": 0, "error": "ValueError: cannot"}
    left_out = {"set": "ASD", "series": "a", "model": "matrix profile", "seed": 0}
    nab = {"set": "NAB", "series": CORPUS, "model": "robust z", "seed": 0, "nab_records": 61.5}
    return [
        *(line("ASD", s, "PCA", x) for s, x in (("a", 0.2), ("b", 0.3), ("c", 0.4))),
        *(line("ASD", s, "robust z", 0.9, delay=None, recall=0.0) for s in "ab"),
        *(line("ASD", s, "random", 0.8) for s in "abc"),
        *(line("ASD", s, OURS, x) for s, x in (("b", 0.4), ("c", 0.7))),
        failed | WHERE,
        left_out | {"left_out": "one channel only"} | WHERE,
        *(line("TSB-AD", file, "PCA", 0.9) for file in files),
        *(line("TSB-AD, archive's prefix", file, "PCA", 0.8) for file in files),
        *(line("TSB-AD", file, "robust z", 0.9) for file in files[1:]),
        *(line("UCR", f"{n:03}", "PCA", 0.1, hit=int(n < 4)) for n in range(16)),
        *(line("UCR", f"{n:03}", "matrix profile", 0.1, hit=1) for n in range(3, 8)),
        nab | dict.fromkeys((f"nab_{p}" for p in PROFILES), 58.1) | WHERE,
    ]


@pytest.fixture
def docs(tmp_path):
    page = f"# Before\n\n{BEGIN}\nstale\n{END}\n\nAfter.\n"
    (tmp_path / "accuracy-anomaly.md").write_text(page)
    return tmp_path


def section(text, title):
    return text.partition(f"### {title}")[2].partition("\n### ")[0]


def test_a_mean_is_shown_only_over_all_series(results):
    asd = [row for row in scored(results) if row["set"] == "ASD"]
    assert means(asd, "vus_pr") == pytest.approx({"random": 0.8, "PCA": 0.3})
    assert rivals(asd) == ["PCA", "robust z"]
    text = section(tables(results), "ASD: mean over 3 series")
    assert "| PCA | 0.300 | **0.250** |" in text
    assert f"| {OURS} | – | – | – | – | – | 7 | – | – |" in text
    assert "robust z" not in text


def test_ours_is_compared_series_by_series_with_the_best_baseline(results):
    text = section(tables(results), "VUS-PR beside the best baseline")
    assert f"| ASD | {OURS} | PCA | +0.200 ± 0.100 | 2 |" in text
    # No mean of it is known, so it may be better than the best.
    assert f"| ASD | {OURS} | robust z | -0.500 | 1 |" in text


def test_the_corrector_is_compared_series_by_series_with_the_same_without(results):
    with_it = [line("ASD", s, "tsmamba (offline, corrector)", 0.5) for s in "bc"]
    text = section(tables([*results, *with_it]), "VUS-PR with the corrector, less that without")
    assert "| ASD | tsmamba (offline, corrector) | -0.050 ± 0.150 | 2 |" in text
    assert "with the corrector" not in tables(results)


def test_published_detectors_stand_in_one_order_with_ours_on_the_same_files(results):
    text = section(tables(results), "TSB-AD: mean VUS-PR on the same files")
    assert "Of the 93 files from NAB and UCR in the evaluation list, 50 are here" in text
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| ")][2:]
    assert rows[0] == ["| **PCA**", "0.900", "0.900", "0.900", "0.800 |"]
    assert len(rows) == 1 + 32
    numbers = [float(row[1]) for row in rows]
    assert numbers == sorted(numbers, reverse=True)
    own = [row.vus_pr["KShapeAD"] for row in read_published() if row.source]
    assert f"| KShapeAD, published | {sum(own) / len(own):.3f} |" in text


def test_nab_stands_in_the_published_order(results):
    text = section(tables(results), "NAB: score of all files")
    rows = [row.split(" | ")[0] for row in text.splitlines() if row.startswith("| ")][2:]
    place = rows.index("| **robust z**")
    board = read_scoreboard()
    assert board[rows[place - 1].removeprefix("| ").removesuffix(", published")]["standard"] > 58.1
    assert board[rows[place + 1].removeprefix("| ").removesuffix(", published")]["standard"] < 58.1
    assert "| **robust z** | 58.1 | 58.1 | 58.1 | 61.5 | nothing |" in text


def test_hits_failures_and_what_was_left_out_are_told(results):
    text = tables(results)
    assert "| PCA | 0.250 ± 0.108 | 16 | 0.200 ± 0.179 | half a window |" in text
    assert "- matrix profile on ASD: 1 series (one channel only)" in text
    assert f"- ASD, a, {OURS}, seed 0: ValueError: cannot" in text
    where = "on a processor (threads: 1); numpy 2.4; commit abc; seeds 0."
    assert f"Run from 2030-01-01 to 2030-01-01 {where}" in text


def test_the_report_replaces_what_stands_between_the_marks(results, docs):
    write_report(results, docs)
    page = docs / "accuracy-anomaly.md"
    first = page.read_text()
    assert first.startswith("# Before\n")
    assert first.endswith(f"{END}\n\nAfter.\n")
    assert "stale" not in first
    for name in ("anomaly.png", "anomaly-cost.png"):
        assert (docs / "images" / name).read_bytes().startswith(b"\x89PNG")
    write_report(results, docs)
    assert page.read_text() == first


def test_a_report_of_nothing_and_a_page_without_marks_are_refused(results, docs):
    with pytest.raises(ValueError, match="hold no cell with metrics"):
        write_report([row for row in results if "error" in row], docs)
    (docs / "accuracy-anomaly.md").write_text("# Before\n")
    with pytest.raises(ValueError, match="must hold the lines <!-- results: begin -->"):
        write_report(results, docs)
    assert (docs / "accuracy-anomaly.md").read_text() == "# Before\n"


def test_every_method_has_a_style():
    assert set(STYLES) == set(METHODS)


def test_tables_of_published_results_come_back_as_written(tmp_path, monkeypatch):
    rows, board = read_published(), read_scoreboard()
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    published.write_published(rows)
    published.write_scoreboard(board)
    assert read_published() == rows
    assert read_scoreboard() == board
