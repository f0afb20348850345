import pytest

from benchmarks.corrector.report import tables
from benchmarks.forecast.report import BEGIN, END, fill_page

WHERE = {"date": "2030-01-01T00:00:00+00:00", "threads": 1, "device": "a processor"}
WHERE |= {"versions": {"torch": "2.9"}, "commit": "abc"}
FAILED = {"variant": "wide", "seed": 0, "error": "ValueError: cannot"}


def trial(name, horizon, corrected, gated):
    errors = {"base": 0.4, "corrected": corrected, "gated": gated}
    return {
        "set": name,
        "horizon": horizon,
        **{key: {"mse": error, "mae": error} for key, error in errors.items()},
    }


def line(variant, seed, pool, corrected=0.4, gated=0.4):
    sets = [trial(name, horizon, corrected, gated) for name in "AB" for horizon in (96, 720)]
    sets[0]["gated"] = {"mse": 0.3, "mae": 0.3}
    members = {f"m{n}": [error, error] for n, error in enumerate(pool)}
    judged = {"parameters": 1_000, "seconds": 60.0, "pool": members, "sets": sets}
    return {"variant": variant, "seed": seed} | judged | WHERE


@pytest.fixture
def results():
    return [
        line("mamba", 0, [0.9, 0.8, 1.0], corrected=0.44),
        line("mamba", 1, [0.9, 0.9, 1.0], corrected=0.44),
        line("LSTM", 0, [0.8, 0.8, 0.99]),
        line("LSTM", 1, [0.9, 0.86, 0.99]),
        line("LSTM", 2, [0.1, 0.1, 0.1]),
        line("one layer", 2, [1.0, 1.0, 1.0]),
        FAILED,
    ]


def test_tables_give_means_over_members_and_spread_over_seeds(results):
    text = tables(results)
    assert "on a processor (threads: 1); torch 2.9; commit abc; seeds 0, 1, 2." in text
    assert "| mamba | the bundled corrector's shape and training | 1,000 | 60 | 2 |" in text
    # Means over three members with each seed: 0.9 and 0.9333.
    mamba = next(row for row in text.splitlines() if row.startswith("| mamba | 0.9167 ± 0.0236 |"))
    assert mamba.count("| 1.1000 ± 0.0000 |") == 2
    assert mamba.count("| 0.9375 ± 0.0000 |") == 2
    assert "| base | 0.400 | 0.400 |" in text
    assert "| one layer | 0.350 | 0.400 |" in text
    assert "- wide, seed 0: ValueError: cannot" in text


def test_differences_are_paired_by_seed_and_counted_by_member(results):
    text = tables(results)
    # Members differ by -5, -2 and -1 percent, seed 2 of one alone left out.
    paired = "| LSTM | -2.67 (t -2.2, 3 of 3) | -2.67 (t -2.2, 3 of 3) | -10.00 (2 of 2) |"
    assert paired in text
    assert f"| one layer {'| – ' * 6}|" in text


def test_the_report_replaces_what_stands_between_the_marks(results, tmp_path):
    page = tmp_path / "ablation.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")
    fill_page(results, page, tables)
    assert page.read_text() == f"# Before\n\n{BEGIN}\n\n{tables(results)}\n\n{END}\n\nAfter.\n"
    with pytest.raises(ValueError, match="hold no cell that succeeded"):
        fill_page([FAILED], page, tables)
