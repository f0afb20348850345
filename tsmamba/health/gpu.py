"""Temperature and throttling of a GPU, and when to pause for it to cool."""

import time
from collections.abc import Callable
from typing import NamedTuple

from tsmamba._optional import require
from tsmamba.errors import MissingExtraError, ParameterError
from tsmamba.health.monitor import Check, Monitor

__all__ = ["Gpu", "GpuReading", "NvmlReader"]

# Bits of nvmlDeviceGetCurrentClocksEventReasons.
_REASONS = {
    "power_cap": 0x04,
    "software_thermal": 0x20,
    "hardware_thermal": 0x40,
    "power_brake": 0x80,
}
_THERMAL = _REASONS["software_thermal"] | _REASONS["hardware_thermal"]


class GpuReading(NamedTuple):
    """What a GPU says of itself; None where it does not.

    Attributes
    ----------
    temperature : float or None
        In degrees Celsius.
    margin : float or None
        Degrees up to the temperature at which the GPU slows down.
    reasons : int
        Why the clocks are lower than they could be, as a mask of NVML.
    clock : float or None
        Of the multiprocessors, in MHz.
    """

    temperature: float | None = None
    margin: float | None = None
    reasons: int = 0
    clock: float | None = None


class NvmlReader:
    """Readings by NVIDIA's library: a callable that returns None where there is no GPU.

    Parameters
    ----------
    index : int, default 0
        Which GPU, as NVML counts them.

    Examples
    --------
    >>> reading = NvmlReader()()
    >>> reading is None or isinstance(reading, GpuReading)
    True
    """

    def __init__(self, index: int = 0) -> None:
        self.index = index

    def __call__(self) -> GpuReading | None:
        """Return what the GPU says; None without the library, the driver or the GPU."""
        try:
            nvml = require("pynvml", "gpu-metrics")
        except MissingExtraError:
            return None
        try:
            nvml.nvmlInit()  # counted, so that a pair around each reading leaves no trace
        except nvml.NVMLError:
            return None

        def ask(name: str, *about: object) -> int | None:
            call: Callable[..., int] | None = getattr(nvml, name, None)
            if call is None:  # newer than the installed library
                return None
            try:
                return call(gpu, *about)
            except nvml.NVMLError:  # not supported by this GPU, driver or partition
                return None

        try:
            gpu = nvml.nvmlDeviceGetHandleByIndex(self.index)
            temperature = ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)
            margin = ask("nvmlDeviceGetMarginTemperature")
            slowdown = ask(
                "nvmlDeviceGetTemperatureThreshold", nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
            )
            if margin is None and temperature is not None and slowdown is not None:
                margin = slowdown - temperature
            reasons = ask("nvmlDeviceGetCurrentClocksEventReasons")
            clock = ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM)
            return GpuReading(temperature, margin, reasons or 0, clock)
        except nvml.NVMLError:
            return None
        finally:
            nvml.nvmlShutdown()


class Gpu(Monitor):
    """Whether a GPU runs too hot, or slower than it could.

    It asks for a pause when the GPU is within a few degrees of its slowdown, or throttles for
    heat, and for its end not before the GPU is well below: otherwise work would stop and go. A
    power brake is told, and no pause asked for. No reading is no alert.

    Parameters
    ----------
    reader : callable, optional
        Returns a `GpuReading` or None; `NvmlReader` when not given.
    pause_below : float, default 3.0
        Degrees below the slowdown at which to pause.
    resume_above : float, default 8.0
        Degrees below it at which to go on.
    every : float, default 5.0
        Seconds between two readings; observations between them cost nothing.
    clock : callable, default time.monotonic
        What tells the seconds.
    name : str, default "gpu"
        Name of the monitor.

    Examples
    --------
    >>> readings = iter([GpuReading(70, 20), GpuReading(88, 2), GpuReading(84, 6), None])
    >>> gpu = Gpu(lambda: next(readings), every=0)
    >>> [gpu.observe().ok for _ in range(4)]
    [True, False, False, True]
    """

    unit = "margin_celsius"
    _parts = ("reading", "paused")

    def __init__(
        self,
        reader: Callable[[], GpuReading | None] | None = None,
        *,
        pause_below: float = 3.0,
        resume_above: float = 8.0,
        every: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        name: str = "gpu",
    ) -> None:
        super().__init__(name, None)
        if not pause_below < resume_above:
            raise ParameterError(
                f"{name}: pause_below={pause_below!r} and resume_above={resume_above!r}; pass a "
                "greater margin to resume at, such as 3 and 8"
            )
        self.pause_below = pause_below
        self.resume_above = resume_above
        self.every = every
        self.paused = False
        self.reading: list[float | None] | None = None
        self._reader = reader or NvmlReader()
        self._clock = clock
        self._due = -float("inf")

    def observe(self, value: None = None) -> Check:
        """Read anew if it is time to.

        Parameters
        ----------
        value : None
            Nothing: the monitor reads for itself.

        Returns
        -------
        Check
        """
        now = self._clock()
        if now >= self._due:
            self._due = now + self.every
            self._take(self._reader())
        return self.check()

    def wait(
        self, at_most: float = 600.0, *, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        """Sleep from reading to reading until no pause is asked for.

        Parameters
        ----------
        at_most : float, default 600
            Seconds after which to return all the same: a GPU that does not cool will not.
        sleep : callable, default time.sleep
            Takes seconds.
        """
        end = self._clock() + at_most
        self.observe()
        while self.paused and self._clock() < end:
            sleep(self.every)
            self.observe()

    def check(self) -> Check:
        """Return what the last reading said."""
        reading = self._last()
        limits = (self.resume_above if self.paused else self.pause_below, None)
        if reading is None:
            return Check(self.name, None, limits, True, f"{self.name}: no reading")
        reasons = [name for name, bit in _REASONS.items() if reading.reasons & bit]
        ok = not self.paused and "power_brake" not in reasons
        parts = [
            "temperature unknown" if reading.temperature is None else f"{reading.temperature:g} °C",
            "" if reading.margin is None else f"{reading.margin:g} below the slowdown",
            "slowed by " + " and ".join(reasons) if reasons else "",
            f"pause up to {self.resume_above:g} below" if self.paused else "",
        ]
        message = f"{self.name}: " + ", ".join(filter(None, parts)).replace("_", " ")
        return Check(self.name, reading.margin, limits, ok, message)

    def metrics(self) -> dict[str, float]:
        """Return the last reading as numbers by name: what there is of it."""
        reading = self._last()
        numbers = super().metrics() | {f"{self.name}_paused": float(self.paused)}
        if reading is None:
            return numbers
        for unit, value in (
            ("temperature_celsius", reading.temperature),
            ("clock_hertz", None if reading.clock is None else 1e6 * reading.clock),
        ):
            if value is not None:
                numbers[f"{self.name}_{unit}"] = float(value)
        return numbers | {
            f"{self.name}_throttled_{name}": float(bool(reading.reasons & bit))
            for name, bit in _REASONS.items()
        }

    def _take(self, reading: GpuReading | None) -> None:
        self.reading = None if reading is None else list(reading)
        if reading is None:
            self.paused = False
            return
        margin = float("inf") if reading.margin is None else reading.margin
        wanted = self.resume_above if self.paused else self.pause_below
        self.paused = bool(reading.reasons & _THERMAL) or margin < wanted

    def _last(self) -> GpuReading | None:
        if self.reading is None:
            return None
        temperature, margin, reasons, clock = self.reading
        return GpuReading(temperature, margin, int(reasons or 0), clock)
