import json
import types

import pytest

from tsmamba.errors import ParameterError
from tsmamba.health import Gpu, GpuReading, NvmlReader
from tsmamba.health import gpu as gpu_module

pynvml = pytest.importorskip("pynvml")


def gpu_of(*readings, **given):
    upcoming = iter(readings)
    return Gpu(lambda: next(upcoming), every=0, **given)


def test_the_pause_has_hysteresis():
    margins = [20, 3, 2.9, 3.1, 7.9, 8, 5, 3, 2]
    gpu = gpu_of(*(GpuReading(90 - margin, margin) for margin in margins))
    assert [gpu.observe().ok for _ in margins] == [
        True, True, False, False, False, True, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("reasons", "ok", "paused", "told"),
    [
        (0x20, False, True, "slowed by software thermal"),
        (0x40, False, True, "slowed by hardware thermal"),
        (0x60, False, True, "slowed by software thermal and hardware thermal"),
        (0x80, False, False, "slowed by power brake"),
        (0x04, True, False, "slowed by power cap"),
        (0x01, True, False, ""),
    ],
)
def test_a_gpu_that_throttles_is_told_by_its_reason(reasons, ok, paused, told):
    gpu = gpu_of(GpuReading(70, 20, reasons), GpuReading(70, 20))
    check = gpu.observe()
    assert (check.ok, gpu.paused) == (ok, paused)
    assert told in check.message
    assert gpu.observe().ok


def test_messages_say_what_is_known():
    gpu = gpu_of(GpuReading(88, 2, 0x40, 900), GpuReading(), None)
    assert gpu.observe().message == (
        "gpu: 88 °C, 2 below the slowdown, slowed by hardware thermal, pause up to 8 below"
    )
    assert gpu.observe().message == "gpu: temperature unknown"
    assert gpu.observe().message == "gpu: no reading"


def test_readings_are_apart():
    clock, taken = [0.0], []
    gpu = Gpu(lambda: taken.append(clock[0]), clock=lambda: clock[0])
    for clock[0] in (0.0, 1.0, 4.9, 5.0, 9.0, 10.5):
        gpu.observe()
    assert taken == [0.0, 5.0, 10.5]


def test_waiting_ends_when_the_gpu_is_cool():
    slept = []
    gpu = gpu_of(*(GpuReading(90 - margin, margin) for margin in (1, 5, 9, 1)))
    gpu.wait(sleep=slept.append)
    assert len(slept) == 2


def test_waiting_ends_some_day_also_when_it_is_not():
    clock = [0.0]

    def sleep(seconds):
        clock[0] += seconds

    gpu = Gpu(lambda: GpuReading(95, -1), clock=lambda: clock[0])
    gpu.wait(at_most=60, sleep=sleep)
    assert clock == [60.0]
    assert gpu.paused


def test_metrics_hold_what_there_is():
    gpu = gpu_of(GpuReading(70, 20, 0x04, 1_500), None)
    gpu.observe()
    assert gpu.metrics() == {
        "gpu_margin_celsius": 20.0,
        "gpu_ok": 1.0,
        "gpu_paused": 0.0,
        "gpu_temperature_celsius": 70.0,
        "gpu_clock_hertz": 1.5e9,
        "gpu_throttled_power_cap": 1.0,
        "gpu_throttled_software_thermal": 0.0,
        "gpu_throttled_hardware_thermal": 0.0,
        "gpu_throttled_power_brake": 0.0,
    }
    gpu.observe()
    assert gpu.metrics() == {"gpu_ok": 1.0, "gpu_paused": 0.0}


def test_a_restored_pause_goes_on():
    hot, between = GpuReading(88, 2), GpuReading(84, 6)
    one = gpu_of(hot)
    one.observe()
    other = gpu_of(between)
    other.restore(json.loads(json.dumps(one.state())))
    assert other.check() == one.check()
    assert not other.observe().ok


def test_margins_in_the_wrong_order_are_refused():
    with pytest.raises(ParameterError, match="pass a greater margin to resume at"):
        Gpu(pause_below=8, resume_above=8)


# The library


@pytest.fixture
def nvml(monkeypatch):
    """NVML of a GPU that answers all that deals with heat in the older way."""
    calls = []

    def unsupported(gpu):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    library = types.SimpleNamespace(
        NVMLError=pynvml.NVMLError,
        NVML_TEMPERATURE_GPU=pynvml.NVML_TEMPERATURE_GPU,
        NVML_TEMPERATURE_THRESHOLD_SLOWDOWN=pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,
        NVML_CLOCK_SM=pynvml.NVML_CLOCK_SM,
        nvmlInit=lambda: calls.append("init"),
        nvmlShutdown=lambda: calls.append("shutdown"),
        nvmlDeviceGetHandleByIndex=lambda index: f"gpu {index}",
        nvmlDeviceGetTemperature=lambda gpu, sensor: 70,
        nvmlDeviceGetMarginTemperature=unsupported,
        nvmlDeviceGetTemperatureThreshold=lambda gpu, kind: 92,
        nvmlDeviceGetCurrentClocksEventReasons=lambda gpu: 0x44,
        nvmlDeviceGetClockInfo=lambda gpu, kind: 1_200,
        calls=calls,
        unsupported=unsupported,
    )
    monkeypatch.setattr(gpu_module, "require", lambda module, extra: library)
    return library


def test_the_names_that_are_read_exist_in_the_library(nvml):
    ours = {name for name in vars(nvml) if name.startswith(("nvml", "NVML"))}
    assert ours <= set(dir(pynvml))
    for name, bit in {
        "SwPowerCap": 0x04,
        "SwThermalSlowdown": 0x20,
        "HwThermalSlowdown": 0x40,
        "HwPowerBrakeSlowdown": 0x80,
    }.items():
        assert getattr(pynvml, f"nvmlClocksEventReason{name}") == bit


def test_an_older_gpu_has_a_margin_by_its_threshold(nvml):
    assert NvmlReader(1)() == GpuReading(70, 22, 0x44, 1_200)
    assert nvml.calls == ["init", "shutdown"]


def test_a_newer_gpu_tells_its_margin(nvml):
    nvml.nvmlDeviceGetMarginTemperature = lambda gpu: 15
    assert NvmlReader()().margin == 15


def test_an_older_library_lacks_calls(nvml):
    del nvml.nvmlDeviceGetMarginTemperature
    assert NvmlReader()().margin == 22


def test_what_a_gpu_does_not_support_is_missing(nvml):
    for name in vars(nvml):
        if name.startswith("nvmlDeviceGet") and name != "nvmlDeviceGetHandleByIndex":
            setattr(nvml, name, lambda *about: nvml.unsupported(None))
    assert NvmlReader()() == GpuReading()


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetHandleByIndex"])
def test_without_a_driver_or_a_gpu_there_is_no_reading(nvml, name):
    setattr(nvml, name, nvml.unsupported)
    nvml.nvmlInit = (lambda: nvml.unsupported(None)) if name == "nvmlInit" else nvml.nvmlInit
    assert NvmlReader()() is None
    assert nvml.calls.count("init") == nvml.calls.count("shutdown")


def test_without_the_library_there_is_no_reading(monkeypatch):
    def missing(module, extra):
        raise gpu_module.MissingExtraError(module)

    monkeypatch.setattr(gpu_module, "require", missing)
    check = Gpu().observe()
    assert (check.ok, check.value, check.message) == (True, None, "gpu: no reading")
