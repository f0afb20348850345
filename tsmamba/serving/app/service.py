"""One model, its state, and the one lock around them."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, cast

from tsmamba.errors import ParameterError, TsmambaError
from tsmamba.health import CalibrationDrift, Health
from tsmamba.logs.episodes import LogEpisode
from tsmamba.logs.result import LogResult
from tsmamba.serving.app.engine import Engine, StatefulEngine
from tsmamba.serving.app.forecasts import ForecastEngine
from tsmamba.serving.app.lines import LineEngine
from tsmamba.serving.app.messages import Description, Row, RowResult
from tsmamba.serving.app.metrics import Metrics
from tsmamba.serving.app.models import ModelSource, engine_of
from tsmamba.serving.app.rows import RowEngine

__all__ = ["Service"]

_log = logging.getLogger(__name__)


class Service:
    """Answers by the model of a source, which may be exchanged while it runs.

    Every call may come from any thread: they take turns.

    Parameters
    ----------
    source : ModelSource
        Where the model is.
    max_series : int >= 1, default 10,000
        Series with a state at most.
    checkpoint : Path, optional
        File that keeps the state; what it holds is where to begin.

    Raises
    ------
    ModelFileError, ParameterError
        If the model cannot be loaded or served.
    CheckpointError
        If the checkpoint cannot be used.
    """

    def __init__(
        self, source: ModelSource, *, max_series: int = 10_000, checkpoint: Path | None = None
    ) -> None:
        self.metrics = Metrics()
        self.calibration = CalibrationDrift()
        Health([self.calibration]).to_prometheus(self.metrics.registry)
        self.ready = False
        self._source = source
        self._max_series = max_series
        self._checkpoint = checkpoint
        self._lock = Lock()
        self._changed = False
        self._failed = ""
        self.version = source.newest()
        self._engine = self._engine_of(self.version)
        self._open(self._engine)
        self._tell_model()

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._source.name

    @property
    def engine(self) -> Engine:
        """What serves now."""
        return self._engine

    def describe(self) -> Description:
        """Return what the model is and takes."""
        with self._lock:
            return Description(
                kind=self._engine.kind,
                name=self.name,
                version=self.version,
                columns=self._engine.columns(),
                settings=self._engine.settings(),
            )

    def score_rows(self, rows: Sequence[Row]) -> list[RowResult]:
        """Score rows, see `RowEngine.score`."""
        with self._lock:
            results = cast(RowEngine, self._engine).score(rows)
            self.calibration.observe([result.p_value for result in results])
            duplicates = sum(result.status == "duplicate" for result in results)
            alerts = sum(result.is_anomaly for result in results)
            self._count(len(rows) - duplicates, duplicates, alerts)
        return results

    def score_lines(
        self, lines: Sequence[str], stream: str, first: int | None
    ) -> tuple[list[LogResult], list[LogEpisode], int]:
        """Score lines, see `LineEngine.score`."""
        with self._lock:
            results, episodes, duplicates = cast(LineEngine, self._engine).score(
                lines, stream, first
            )
            alerts = sum(result.is_anomaly for result in results)
            self._count(len(lines) - duplicates, duplicates, alerts)
        return results, episodes, duplicates

    def forecast(
        self,
        records: Sequence[dict[str, Any]],
        horizon: int | None,
        quantiles: Sequence[float] | None,
    ) -> list[dict[str, Any]]:
        """Forecast, see `ForecastEngine.forecast`."""
        with self._lock:
            answer = cast(ForecastEngine, self._engine).forecast(records, horizon, quantiles)
            self._count(len(records), 0, 0)
        return answer

    def save(self) -> None:
        """Write a checkpoint if something changed; say so in the log if that fails."""
        with self._lock:
            engine = self._kept_engine()
            if engine is None or not self._changed:
                return
            try:
                engine.save()
            except TsmambaError as error:
                self.metrics.checkpoint_failures.inc()
                _log.error("no checkpoint was written: %s", error)
                return
            self._changed = False
        self.metrics.checkpoint_time.set(time.time())

    def refresh(self) -> None:
        """Serve the newest model; keep the present one, and say so, if that fails."""
        wanted = "the newest version"
        try:
            wanted = self._source.newest()
            if wanted != self.version:
                self._exchange(wanted)
                _log.info("model %s: version %s serves now", self.name, wanted)
        except Exception as error:  # whatever a registry or a broken model may raise
            self.metrics.reload_failures.inc()
            self.metrics.reload_failing.set(1)
            if self._failed != wanted:
                _log.error(
                    "model %s: %s cannot be served, %s goes on: %s",
                    self.name, wanted, self.version, error,
                )  # fmt: skip
            self._failed = wanted
            return
        self._failed = ""
        self.metrics.reload_failing.set(0)

    def close(self) -> None:
        """Write what changed, and let go of the checkpoint."""
        self.save()
        with self._lock:
            engine = self._kept_engine()
            if engine is not None:
                engine.close()

    def _exchange(self, version: str) -> None:
        engine = self._engine_of(version)
        if type(engine) is not type(self._engine):
            raise ParameterError(
                f"it is a {engine.kind}, and the routes are those of a {self._engine.kind}; "
                "start another service for it"
            )
        with self._lock:
            # States belong to their model: those of the one before say nothing to this one.
            before = self._kept_engine()
            if before is not None:
                before.close()
            self._open(engine, anew=True)
            self._engine, self.version, self._changed = engine, version, False
            self.calibration.reset()
            self._tell_model()

    def _engine_of(self, version: str) -> Engine:
        return engine_of(self._source.load(version), self._max_series)

    def _open(self, engine: Engine, *, anew: bool = False) -> None:
        if self._checkpoint is None:
            return
        if not isinstance(engine, StatefulEngine):
            raise ParameterError(f"a {engine.kind} keeps no state; leave --checkpoint out")
        engine.open(self._checkpoint, anew=anew)

    def _kept_engine(self) -> StatefulEngine | None:
        """Return what serves now, if a checkpoint keeps its state."""
        engine = self._engine
        kept = self._checkpoint is not None and isinstance(engine, StatefulEngine)
        return cast(StatefulEngine, engine) if kept else None

    def _count(self, accepted: int, duplicates: int, alerts: int) -> None:
        self._changed = self._changed or accepted > 0
        metrics, engine = self.metrics, self._engine
        metrics.observations.labels("http").inc(accepted)
        metrics.duplicates.inc(duplicates)
        metrics.alerts.inc(alerts)
        metrics.evicted.inc(engine.evicted)
        engine.evicted = 0
        metrics.series.set(engine.n_series)

    def _tell_model(self) -> None:
        self.metrics.series.set(self._engine.n_series)
        self.metrics.model.info(
            {
                "kind": self._engine.kind,
                "name": self.name,
                "version": self.version,
                "alias": self._source.alias,
            }
        )
