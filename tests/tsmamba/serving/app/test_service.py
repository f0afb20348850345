"""Exchange of the model, and checkpoints, without HTTP."""

import logging
import shutil

import pytest

from tsmamba.errors import ModelFileError, ParameterError, TsmambaError
from tsmamba.serving.app.messages import Row
from tsmamba.serving.app.service import Service


@pytest.fixture
def rows(make_rows):
    return [Row.model_validate(row) for row in make_rows("p", 40)]


def page(service):
    return service.metrics.page().decode()


def test_a_new_version_is_served_from_an_empty_state_on(shelf, pumps, make_pumps, rows):
    source = shelf(pumps, make_pumps(seed=1))
    service = Service(source)
    service.score_rows(rows)
    service.refresh()
    assert (service.version, service.engine.n_series) == ("1", 1)
    source.version = "2"
    service.refresh()
    assert (service.version, service.engine.n_series) == ("2", 0)
    assert 'alias="champion",kind="MambaDetector",name="shelf",version="2"' in page(service)
    alone = Service(shelf(make_pumps(seed=1)))
    assert service.score_rows(rows) == alone.score_rows(rows)


@pytest.mark.parametrize("version", ["missing", "2"])
def test_what_cannot_be_served_leaves_the_model_and_its_state(
    shelf, pumps, load, rows, caplog, version
):
    source = shelf(pumps, load)  # the second is of another class
    service = Service(source)
    service.score_rows(rows[:20])
    source.version = version
    for _ in range(3):
        service.refresh()
    assert service.version == "1"
    assert {result.status for result in service.score_rows(rows[:20])} == {"duplicate"}
    assert "tsmamba_reload_failures_total 3.0" in page(service)
    assert "tsmamba_reload_failing 1.0" in page(service)
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    reason = "no version missing" if version == "missing" else "it is a MambaForecaster, and the"
    assert reason in record.getMessage()
    source.version = "1"
    service.refresh()
    assert "tsmamba_reload_failing 0.0" in page(service)


def test_a_registry_that_does_not_answer_leaves_the_model(shelf, pumps, monkeypatch):
    service = Service(shelf(pumps))

    def unreachable(self):
        raise ConnectionError("nobody answers")

    monkeypatch.setattr(shelf, "newest", unreachable)
    service.refresh()
    assert "tsmamba_reload_failing 1.0" in page(service)


def test_only_what_changed_is_written(shelf, pumps, rows, tmp_path):
    path = tmp_path / "state"
    service = Service(shelf(pumps), checkpoint=path)
    empty = path.read_bytes()
    service.save()
    assert "tsmamba_last_checkpoint_timestamp_seconds 0.0" in page(service)
    service.score_rows(rows[:10])
    service.save()
    assert path.read_bytes() != empty
    assert "tsmamba_last_checkpoint_timestamp_seconds 1." in page(service)
    path.unlink()
    service.score_rows(rows[:10])  # duplicates
    service.save()
    assert not path.exists()
    service.score_rows(rows[10:])
    service.close()
    assert Service(shelf(pumps), checkpoint=path).score_rows(rows[-1:])[0].status == "duplicate"


def test_a_checkpoint_that_cannot_be_written_is_told_and_tried_again(
    shelf, pumps, rows, tmp_path, caplog
):
    folder = tmp_path / "folder"
    folder.mkdir()
    service = Service(shelf(pumps), checkpoint=folder / "state")
    shutil.rmtree(folder)
    service.score_rows(rows)
    service.save()
    assert "no checkpoint was written: cannot write" in caplog.text
    assert "tsmamba_checkpoint_failures_total 1.0" in page(service)
    folder.mkdir()
    service.save()
    assert (folder / "state").exists()


@pytest.mark.parametrize("pair", ["rows", "lines"])
def test_the_checkpoint_goes_with_the_model(
    shelf, pumps, make_pumps, app_log, log_lines, rows, tmp_path, pair
):
    models = {
        "rows": (pumps, make_pumps(seed=1)),
        "lines": (app_log, type(app_log)().fit(log_lines)),
    }[pair]
    source = shelf(*models)
    service = Service(source, checkpoint=tmp_path / "state")

    def use():
        if pair == "rows":
            service.score_rows(rows)
        else:
            service.score_lines(log_lines[:50], "web", 1)

    use()
    service.save()
    source.version = "2"
    service.refresh()
    use()
    service.close()
    restarted = Service(source, checkpoint=tmp_path / "state")
    assert restarted.engine.n_series == 1
    restarted.close()
    source.version = "1"
    with pytest.raises(TsmambaError, match=r"another detector|belongs to the model"):
        Service(source, checkpoint=tmp_path / "state")


def test_forecasts_keep_no_state(shelf, load, tmp_path):
    with pytest.raises(ParameterError, match="a MambaForecaster keeps no state; leave --chec"):
        Service(shelf(load), checkpoint=tmp_path / "state")


def test_a_model_that_cannot_be_loaded_is_refused_at_the_start(shelf, pumps):
    source = shelf(pumps)
    source.version = "7"
    with pytest.raises(ModelFileError, match="there is no version 7"):
        Service(source)
