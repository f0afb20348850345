import numpy as np
import pytest

from benchmarks.anomaly.learned.judged import family_of, judged_names, side_of
from benchmarks.anomaly.learned.report import MARKS, gaps_of, table, with_error, write_report
from benchmarks.anomaly.learned.run import PRESENT, cells
from benchmarks.anomaly.sets import find_set

BLOCK = "contrast, Mamba"
WHERE = {"date": "2030-01-01T00:00:00+00:00", "threads": 1, "device": "a processor"}
WHERE |= {"versions": {"numpy": "2.4"}, "commit": "abc", "run": 0}


GAIN = {"chosen": 0.1, "other": 0.2, "fresh": -0.2}


@pytest.fixture
def results():
    fresh = [("UCR", name) for name in find_set("UCR").names() if side_of("UCR", name) == "fresh"]
    return [
        dict(cell._asdict(), **{PRESENT: 0.5, "z": 0.5 + GAIN[side_of(*cell[:2])]})
        | {"seconds": 2.0}
        | WHERE
        for cell in cells([BLOCK], [0, 1], judged_names() + fresh[:3])
    ]


def test_all_sides_of_the_choice_are_told(results):
    row = next(line for line in table(results).splitlines() if BLOCK in line)
    assert "| z | +0.1000 ± 0.0000" in row
    assert "| +0.2000 ± 0.0000" in row
    assert "| -0.2000 ± 0.0000" in row
    assert " 36 / 3 " in row


def test_seeds_are_averaged(results):
    for line in results:
        line["z"] += 0.1 * line["seed"]
    first = results[0]["set"], results[0]["series"]
    assert gaps_of(results, "z")[first] == pytest.approx(results[0]["z"] - 0.5 + 0.05)


def test_kin_count_as_one_draw():
    rng = np.random.default_rng(0)
    keys = judged_names()
    alone = {}
    for key in keys:
        alone.setdefault(family_of(*key), key)
    gaps = {key: float(rng.normal()) for key in alone.values()}
    numbers = np.array(list(gaps.values()))
    mean, error = with_error(gaps)
    assert mean == pytest.approx(numbers.mean())
    assert error == pytest.approx(numbers.std(ddof=1) / np.sqrt(len(numbers)))
    copied = {key: gaps[alone[family_of(*key)]] for key in keys}
    naive = np.std(list(copied.values()), ddof=1) / np.sqrt(len(copied))
    assert with_error(copied)[1] > naive


def test_the_page_has_the_table_and_what_stands_around_it(results, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n{}\nold\n{}\nafter\n".format(*MARKS), encoding="utf-8")
    write_report(results, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert "old" not in text
    with pytest.raises(ValueError, match="run the benchmark first"):
        write_report([], page)
