from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from benchmarks.finetune import run as runner
from benchmarks.finetune.run import BEFORE, TARGETS, WAYS, Cell, Split, cells, run
from benchmarks.forecast.results import read_results
from tsmamba import MambaForecaster, Training
from tsmamba_datasets import make_seasonal


def source_forecaster(seed):
    """The forecaster of the sources without a training of its own."""
    forecaster = MambaForecaster(6, context_length=64, random_state=seed)
    return forecaster.fit(runner._sources().training)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Short parts of short made series in place of the regions."""
    made = make_seasonal(n_series=8, length=900, seed=0)
    names = dict(zip((*runner.SOURCES, *TARGETS), made["unique_id"].unique().sort(), strict=False))

    def fetch(regions):
        chosen = (regions,) if isinstance(regions, str) else regions
        parts = [made.filter(unique_id=names[name]) for name in chosen]
        named = zip(chosen, parts, strict=True)
        return pl.concat(part.with_columns(unique_id=pl.lit(name)) for name, part in named)

    for name, value in {
        "HORIZON": 6,
        "TEST_STEPS": 150,
        "SOURCE_STEPS": 600,
        "SHARE": 0.3,
        "TUNING": Training(max_steps=3, batch_size=16, eval_every=3),
        "fetch_pjm_load": fetch,
        "source_forecaster": source_forecaster,
    }.items():
        monkeypatch.setattr(runner, name, value)
    caches = (runner._sources, runner._target)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def test_parts_follow_each_other_and_lose_no_row():
    frame = runner.fetch_pjm_load(runner.SOURCES)
    split = Split.of(frame, 200)
    whole = pl.concat(split).sort("unique_id", "ds")
    assert whole.equals(frame.sort("unique_id", "ds"))
    for part, length in zip(split, (550, 200, 150), strict=True):
        assert set(part.group_by("unique_id").len()["len"]) == {length}
    for early, late in pairwise(split):
        assert early["ds"].max() < late["ds"].min()


def test_a_target_has_its_share_of_steps_and_nothing_before():
    split = runner._target(TARGETS[0])
    assert split.training.height == round(0.3 * 750)
    assert not split.before.height


def test_errors_are_of_the_test_part_and_skip_missing_hours():
    split, forecaster = runner._target(TARGETS[0]), runner.source_forecaster(0)
    error = runner.error_of(forecaster, split)
    assert 0 < error["base"] < 1
    missing = split.test.with_columns(
        y=pl.when(pl.col("ds") == split.test["ds"][40]).then(np.nan).otherwise("y")
    )
    other = runner.error_of(forecaster, split._replace(test=missing))
    assert other["base"] == pytest.approx(error["base"], rel=0.2)


def test_a_run_tunes_in_every_way_and_a_second_one_does_nothing(tmp_path, monkeypatch):
    ways = [BEFORE, "lora"]
    monkeypatch.setattr(runner, "TARGETS", TARGETS[:1])
    path, said = tmp_path / "results.jsonl", []
    wanted = cells(ways, seeds=[0])
    assert run(wanted, path, said.append) == 0
    assert run(wanted, path, said.append) == 0
    results = read_results(path, Cell.of)
    assert [line["way"] for line in results] == ways
    assert all(0 < line["target_error"]["corrected"] < 1 for line in results)
    assert "finetuning" in results[-1]["report"]
    assert set(ways) < set(WAYS)
