"""What the service tells Prometheus. Never a label per series: there may be thousands."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

__all__ = ["Metrics"]

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """Counters of one service, in a registry of its own.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.duplicates.inc()
    >>> b"tsmamba_duplicates_total 1.0" in metrics.page()
    True
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "tsmamba_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "tsmamba_score_seconds",
            "Seconds from the request to its answer.",
            ["route"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.observations = Counter(
            "tsmamba_observations",
            "Rows, lines or records of history taken in.",
            ["source"],
            registry=registry,
        )
        self.duplicates = Counter(
            "tsmamba_duplicates", "Rows or lines that were given before.", registry=registry
        )
        self.alerts = Counter("tsmamba_alerts", "Results that alerted.", registry=registry)
        self.invalid = Counter(
            "tsmamba_invalid", "Requests refused.", ["reason"], registry=registry
        )
        self.series = Gauge("tsmamba_series_active", "Series with a state.", registry=registry)
        self.evicted = Counter(
            "tsmamba_series_evicted", "Series forgotten to make room.", registry=registry
        )
        self.checkpoint_time = Gauge(
            "tsmamba_last_checkpoint_timestamp_seconds",
            "Unix time of the last checkpoint, 0 before the first.",
            registry=registry,
        )
        self.checkpoint_failures = Counter(
            "tsmamba_checkpoint_failures",
            "Checkpoints that could not be written.",
            registry=registry,
        )
        self.reload_failures = Counter(
            "tsmamba_reload_failures", "Attempts to load another model.", registry=registry
        )
        self.reload_failing = Gauge(
            "tsmamba_reload_failing",
            "1 while the newest model could not be loaded, and the one before serves.",
            registry=registry,
        )
        self.model = Info("tsmamba_model", "The model that serves.", registry=registry)

    def page(self) -> bytes:
        """Return all of them in Prometheus' text format."""
        return generate_latest(self.registry)
