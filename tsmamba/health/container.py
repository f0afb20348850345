"""Several monitors as one."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tsmamba._optional import require
from tsmamba.errors import ModelFileError, ParameterError
from tsmamba.health.monitor import Check, Monitor

__all__ = ["Health"]

_PREFIX = "tsmamba_health_"


class Health:
    """Hands each of several monitors what it reads, and reports for all.

    Parameters
    ----------
    monitors : iterable of Monitor
        Their names differ.

    Raises
    ------
    ParameterError
        If two of them have the same name.

    Examples
    --------
    >>> import torch
    >>> from tsmamba.health import CalibrationDrift, Finite
    >>> health = Health([Finite("state"), CalibrationDrift()])
    >>> health.observe(state=torch.zeros(4, 8), p_values=[0.3, 0.8])
    >>> health.ok
    True
    >>> [check.name for check in health.report()]
    ['finite_state', 'calibration']
    """

    def __init__(self, monitors: Iterable[Monitor]) -> None:
        self.monitors = tuple(monitors)
        counts = Counter(monitor.name for monitor in self.monitors)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise ParameterError(
                f"several monitors have the name {twice[0]!r}; pass them other names"
            )

    @property
    def ok(self) -> bool:
        """Whether every monitor says so."""
        return all(check.ok for check in self.report())

    def observe(self, **values: Any) -> None:
        """Hand values to the monitors that read them; that of a GPU reads for itself.

        Parameters
        ----------
        **values
            By what monitors read: ``state``, ``weights``, ``outputs``, ``p_values``, ``misses``.
            Monitors whose value is not there stay as they are.

        Raises
        ------
        ParameterError
            If no monitor reads one of them; nothing is then observed.
        """
        read = {monitor.reads for monitor in self.monitors if monitor.reads is not None}
        unread = sorted(values.keys() - read)
        if unread:
            raise ParameterError(
                f"no monitor reads {unread[0]!r}; they read {', '.join(sorted(read)) or 'nothing'}"
            )
        for monitor in self.monitors:
            if monitor.reads is None:
                monitor.observe(None)
            elif monitor.reads in values:
                monitor.observe(values[monitor.reads])

    def report(self) -> list[Check]:
        """Return what each monitor says now."""
        return [monitor.check() for monitor in self.monitors]

    def metrics(self) -> dict[str, float]:
        """Return the numbers of all monitors by name, as MLflow's ``log_metrics`` takes them.

        Returns
        -------
        dict of str to float
            Those of `Monitor.metrics`; ``ok`` is 1 where all is well.
        """
        numbers = {"ok": float(self.ok)}
        for monitor in self.monitors:
            numbers |= monitor.metrics()
        return numbers

    def to_prometheus(self, registry: Any) -> None:
        """Let a registry show the metrics, as they are when it is asked.

        Parameters
        ----------
        registry : prometheus_client.CollectorRegistry
            Where to register them, as gauges: ``tsmamba_health_ok``, ``tsmamba_health_gpu_paused``.

        Raises
        ------
        MissingExtraError
            If prometheus-client is not installed.
        """
        registry.register(_Collector(self, require("prometheus_client.core", "serve")))

    def state(self) -> dict[str, Any]:
        """Return the states of all monitors by name; JSON values."""
        return {monitor.name: monitor.state() for monitor in self.monitors}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over the states of monitors.

        Parameters
        ----------
        state : mapping of str to JSON value
            What `state` of the same monitors gave.

        Raises
        ------
        ModelFileError
            If it is of other monitors; all of them then stay as they are.
        """
        names = [monitor.name for monitor in self.monitors]
        if sorted(state) != sorted(names):
            raise ModelFileError(
                f"the state is of the monitors {sorted(state)}, not of {sorted(names)}; restore it "
                "into those that it was saved of"
            )
        before = self.state()
        try:
            self._restore(state)
        except ModelFileError:
            self._restore(before)
            raise

    def _restore(self, state: Mapping[str, Any]) -> None:
        for monitor in self.monitors:
            monitor.restore(state[monitor.name])


class _Collector:
    """What a registry asks at each scrape."""

    def __init__(self, health: Health, library: Any) -> None:
        self._health = health
        self._gauge = library.GaugeMetricFamily

    def describe(self) -> list[Any]:
        """Say that names are not known beforehand, so that registering asks for no values."""
        return []

    def collect(self) -> list[Any]:
        """Return the metrics of now."""
        return [
            self._gauge(_PREFIX + name, "See docs/health.md.", value)
            for name, value in self._health.metrics().items()
        ]
