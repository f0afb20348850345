import json
import re
from pathlib import Path

import pytest
import torch

from tsmamba.errors import ModelFileError, ParameterError
from tsmamba.health import CalibrationDrift, Finite, Gpu, GpuReading, Health, StateNorm

PAGE = Path(__file__).resolve().parents[3] / "docs" / "health.md"
NAMES = ("state_norm", "state_spread_streams", "finite_state", "finite_weights")


@pytest.fixture
def health():
    norm = StateNorm(window=1).calibrate([torch.ones(2, 8)])
    gpu = Gpu(lambda: GpuReading(60, 30), every=0)
    return Health([norm, Finite(), CalibrationDrift(), gpu])


def test_each_monitor_gets_what_it_reads(health):
    health.observe(state=torch.ones(2, 8), p_values=[0.3, 0.05])
    assert [(check.name, check.value) for check in health.report()] == [
        ("state_norm", 1.0), ("finite_state", 4.0), ("calibration", 0.5), ("gpu", 30),
    ]  # fmt: skip
    assert health.ok


def test_monitors_whose_value_is_not_there_stay_as_they_are(health):
    health.observe(p_values=[0.5])
    assert health.report()[0].value is None
    assert health.report()[3].value == 30


def test_one_that_is_not_well_is_enough(health):
    health.observe(state=torch.full((2, 8), 9.0))
    assert [check.name for check in health.report() if not check.ok] == ["state_norm"]
    assert not health.ok
    assert health.metrics()["ok"] == 0.0


def test_metrics_are_plain_numbers(health):
    assert health.metrics()["ok"] == 1.0  # before anything is seen
    health.observe(state=torch.ones(2, 8), p_values=[0.3])
    numbers = health.metrics()
    assert all(type(value) is float for value in numbers.values())
    assert numbers["state_norm_ratio"] == 1.0
    assert numbers["calibration_rate"] == 0.0
    assert numbers["finite_state_ok"] == 1.0


def test_prometheus_sees_the_metrics_of_the_moment(health):
    prometheus = pytest.importorskip("prometheus_client")
    registry = prometheus.CollectorRegistry()
    health.to_prometheus(registry)
    health.observe(state=torch.ones(2, 8))
    assert registry.get_sample_value("tsmamba_health_state_norm_ratio") == 1.0
    assert registry.get_sample_value("tsmamba_health_gpu_margin_celsius") == 30.0
    health.observe(state=torch.full((2, 8), 9.0))
    assert registry.get_sample_value("tsmamba_health_state_norm_ratio") == 9.0
    assert registry.get_sample_value("tsmamba_health_ok") == 0.0
    page = prometheus.generate_latest(registry).decode()
    assert "# TYPE tsmamba_health_state_norm_ok gauge" in page


def test_a_value_that_no_monitor_reads_is_refused_before_any_is_observed(health):
    with pytest.raises(
        ParameterError, match="no monitor reads 'states'; they read p_values, state"
    ):
        health.observe(p_values=[0.5], states=torch.ones(1, 1))
    assert health.report()[2].value is None


def test_two_monitors_of_one_name_are_refused():
    with pytest.raises(ParameterError, match="several monitors have the name 'finite_state'"):
        Health([Finite(), Finite()])
    assert Health([Finite(), Finite(name="finite_second")]).ok


def test_restored_monitors_go_on(health):
    health.observe(state=torch.full((2, 8), 9.0), p_values=[0.05] * 30)
    other = Health([StateNorm(window=1), Finite(), CalibrationDrift(), Gpu(lambda: None, every=0)])
    other.restore(json.loads(json.dumps(health.state(), allow_nan=False)))
    assert other.report() == health.report()


def test_the_state_of_other_monitors_is_refused_and_changes_none(health):
    with pytest.raises(ModelFileError, match="the state is of the monitors"):
        health.restore({"finite_state": {}})
    before = health.state()
    other = before | {"state_norm": {"reference": 3.0, "recent": []}, "gpu": {"heat": 1}}
    with pytest.raises(ModelFileError, match=r"gpu: the state has the parts \['heat'\]"):
        health.restore(other)
    assert health.state() == before


def test_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "True"
    assert [name in line for name, line in zip(NAMES, lines[1:5], strict=True)] == [True] * 4
    assert ["fired" in line for line in lines[5:]] == [False, True]
