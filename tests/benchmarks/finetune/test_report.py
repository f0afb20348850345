import pytest

from benchmarks.finetune.report import tables
from benchmarks.forecast.report import BEGIN, END, fill_page

WHERE = {"date": "2030-01-01T00:00:00+00:00", "threads": 1, "device": "a processor"}
WHERE |= {"versions": {"torch": "2.9"}, "commit": "abc"}
FAILED = {"target": "A", "way": "head", "seed": 0, "error": "ValueError: cannot"}


def line(way, target, seed, on_target, on_sources=0.05):
    decided = {"finetuning": "used: it did"} if way == "lora" and target == "A" else {}
    return {
        "way": way,
        "target": target,
        "seed": seed,
        "seconds": 3.0,
        "report": decided,
        "target_error": {"corrected": on_target, "base": 0.08},
        "source_error": {"corrected": on_sources, "base": 0.05},
    } | WHERE


@pytest.fixture
def results():
    return [
        line("target alone", "A", 0, 0.09),
        line("not tuned", "A", 0, 0.08),
        line("not tuned", "B", 0, 0.08),
        line("full", "A", 0, 0.06, on_sources=0.07),
        line("lora", "A", 0, 0.06, on_sources=0.06),
        line("lora", "B", 0, 0.07, on_sources=0.05),
        line("lora", "B", 1, 0.01),
        FAILED,
    ]


def test_errors_are_in_percent_of_the_mean_load(results):
    text = tables(results)
    assert "on a processor (threads: 1); torch 2.9; commit abc; seeds 0, 1." in text
    assert "| full | 6.000 | 8.000 | 0.7500 | 3 | 0 of 1 |" in text
    assert "| lora | 4.667 | 8.000 | 0.5833 | 3 | 1 of 3 |" in text
    assert "| lora | 6.000 | 4.000 |" in text
    assert "| full | 6.000 | – |" in text
    assert "- A, head, seed 0: ValueError: cannot" in text


def test_differences_are_paired_by_target_and_seed(results):
    text = tables(results)
    lora = next(row for row in text.splitlines() if row.startswith("| lora | -3.000 |"))
    assert lora == "| lora | -3.000 | -1.500 ± 0.500 | +0.500 ± 0.500 | -1.000 | +0.1000 ± 0.1000 |"


def test_the_report_replaces_what_stands_between_the_marks(results, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")
    fill_page(results, page, tables)
    assert page.read_text() == f"# Before\n\n{BEGIN}\n\n{tables(results)}\n\n{END}\n\nAfter.\n"
    with pytest.raises(ValueError, match="hold no cell that succeeded"):
        fill_page([FAILED], page, tables)
