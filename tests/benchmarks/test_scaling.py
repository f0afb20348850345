import polars as pl
import pytest

from benchmarks.scaling import scoring, training
from tsmamba import MambaForecaster


def test_training_is_measured_without_its_first_step():
    measured = training.measure(steps=3, batch_size=2, history=480)
    assert len(measured["losses"]) == 3
    assert measured["wall"] > 0
    assert measured["cpu"] > 0


def test_files_to_score_hold_whole_series(tmp_path):
    scoring.write(tmp_path, series=6, files=3)
    parts = [pl.read_parquet(path) for path in (tmp_path / "in").iterdir()]
    assert [part["unique_id"].n_unique() for part in parts] == [2, 2, 2]
    lengths = pl.concat(parts).group_by("unique_id").len()
    assert lengths.height == 6
    assert lengths["len"].is_between(*scoring.LENGTHS).all()
    assert lengths["len"].n_unique() > 1
    assert MambaForecaster.load(tmp_path / "model.tsm").horizon_ == scoring.HORIZON


def test_speeds_of_different_numbers_are_not_told(monkeypatch):
    runs = iter([{"losses": [1.0], "wall": 1, "cpu": 1}, {"losses": [1.1], "wall": 9, "cpu": 9}])
    monkeypatch.setattr(training, "run", lambda *arguments: next(runs))
    with pytest.raises(SystemExit, match="the losses differ"):
        list(training.lines(processes=2, rounds=1, steps=1, batch_size=1))
