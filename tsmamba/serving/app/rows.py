"""Scores of rows: a detector, and a state for each series."""

from collections.abc import Sequence
from math import isfinite, nan
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tsmamba.anomaly.estimator import MambaDetector
from tsmamba.anomaly.result import Result, Time
from tsmamba.errors import CheckpointError, ParameterError
from tsmamba.serving.app.engine import StatefulEngine
from tsmamba.serving.app.messages import Row, RowResult

__all__ = ["RowEngine"]

_KINDS = {True: "integers", False: "ISO 8601 text"}


class RowEngine(StatefulEngine):
    """Scores rows of many series, each row once.

    A row that is not newer than the last one of its series was given before: it is answered, and
    changes nothing, so that a client may repeat what it did not get an answer to.

    Parameters
    ----------
    detector : MambaDetector
        Fitted.
    max_series : int
        Series kept at most; the one not used for longest goes first.
    """

    kind = MambaDetector.__name__

    def __init__(self, detector: MambaDetector, max_series: int) -> None:
        self._detector = detector
        self._stream = detector.stream(max_keys=max_series)
        names = getattr(detector, "feature_names_in_", range(detector.n_features_in_))
        self._channels = [str(name) for name in names]
        self._path: Path | None = None
        self._lock: FileLock | None = None

    @property
    def n_series(self) -> int:
        """Series with a state."""
        return len(self._stream.keys)

    def columns(self) -> dict[str, Any]:
        """Return the channels, and what times must be."""
        return {"values": self._channels, "time": _KINDS[self._stream.takes_integers]}

    def settings(self) -> dict[str, Any]:
        """Return preset and delay."""
        return {"preset": self._detector.preset, "delay": self._detector.plan_.delay}

    def score(self, rows: Sequence[Row]) -> list[RowResult]:
        """Score the rows that are new.

        Parameters
        ----------
        rows : sequence of Row
            Of any series.

        Returns
        -------
        list of RowResult
            One a row, in their order.

        Raises
        ------
        ParameterError
            If a row does not fit the model; no row is then scored.
        """
        for row in rows:
            self._check(row)
        last: dict[str, Time | None] = {row.series: None for row in rows}
        if len(last) > self._stream.max_keys:
            raise ParameterError(
                f"{len(last)} series in one request, and {self._stream.max_keys} are kept; send "
                "fewer at once, or start the service with a higher --max-series"
            )
        last = {series: self._stream.last_time(series) for series in last}
        fresh: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            newest = last[row.series]
            if newest is None or row.time > newest:  # type: ignore[operator]
                last[row.series] = row.time
                fresh.setdefault(row.series, []).append(place)
        known = self.n_series + sum(self._stream.last_time(series) is None for series in fresh)
        results = self._results(rows, fresh)
        self.evicted += known - self.n_series
        return [self._told(row, results.get(place)) for place, row in enumerate(rows)]

    def open(self, path: Path, *, anew: bool = False) -> None:
        """Go on from a file of states, and write to it from now on."""
        self._lock = _locked(path)
        try:
            if path.exists() and not anew:
                self._stream.load(path)
            self._path = path
            # A place that cannot be written is told at the start, not at the first save.
            self.save()
        except Exception:
            self.close()
            raise

    def save(self) -> None:
        """Write the states of all series, whole or not at all."""
        if self._path is not None:
            self._stream.save(self._path)

    def close(self) -> None:
        """Let go of the file."""
        self._path = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _check(self, row: Row) -> None:
        where = f"series {row.series!r}, time {row.time}"
        if row.values.keys() != set(self._channels):
            lacking = [name for name in self._channels if name not in row.values]
            unknown = [name for name in row.values if name not in self._channels]
            parts = [f"lack {lacking}"] * bool(lacking) + [f"have {unknown}"] * bool(unknown)
            raise ParameterError(
                f"{where}: the values {' and '.join(parts)}; the model takes {self._channels}: "
                "send each of them, null where it is missing"
            )
        if isinstance(row.time, int) == self._stream.takes_integers:
            return
        if self._stream.takes_integers:
            raise ParameterError(
                f"{where}: the model was fitted on integers as times; send integers"
            )
        raise ParameterError(
            f"{where}: a number does not say its unit, seconds, milliseconds or rows; send "
            "ISO 8601 text such as '2026-03-31T17:05:00Z'"
        )

    def _results(self, rows: Sequence[Row], fresh: dict[str, list[int]]) -> dict[int, Result]:
        """Score new rows; return results by place."""
        results: dict[int, Result] = {}
        at_once: dict[Time, dict[str, int]] = {}
        for series, places in fresh.items():
            if len(places) == 1:
                at_once.setdefault(rows[places[0]].time, {})[series] = places[0]
                continue
            values = [self._values(rows[place]) for place in places]
            times = [rows[place].time for place in places]
            scored = self._stream.score_many(values, times, key=series)
            results.update(zip(places, scored, strict=True))
        # One row of each of many series costs far less in one call.
        for time, group in at_once.items():
            batch = {series: self._values(rows[place]) for series, place in group.items()}
            for series, result in self._stream.score_batch(batch, time).items():
                results[group[series]] = result
        return results

    def _values(self, row: Row) -> list[float]:
        values = [row.values[name] for name in self._channels]
        return [nan if value is None else value for value in values]

    def _told(self, row: Row, result: Result | None) -> RowResult:
        if result is None:
            return RowResult(series=row.series, time=row.time, status="duplicate")
        parts = result.channel_contrib
        named = None
        if parts is not None:
            values = map(_finite, parts.tolist())
            named = dict(zip(self._channels, values, strict=True))
        return RowResult(
            series=row.series,
            time=row.time,
            status=result.status,
            score=_finite(result.score),
            p_value=_finite(result.p_value),
            is_anomaly=result.is_anomaly,
            contributions=named,
            scored_time=result.t,
        )


def _locked(path: Path) -> FileLock:
    """Keep other processes off a file, until the lock is released or this process ends.

    The file itself is replaced at every save, so the lock lies beside it.
    """
    if not path.parent.is_dir():
        raise CheckpointError(
            f"there is no folder {str(path.parent)!r} for the checkpoint; make it first"
        )
    lock = FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise CheckpointError(
            f"{str(path)!r} is in use by another process; stop it, or name another file"
        ) from None
    except OSError as error:
        raise CheckpointError(f"cannot write beside {str(path)!r}: {error.strerror}") from error
    return lock


def _finite(value: float | None) -> float | None:
    """JSON has no NaN."""
    return value if value is not None and isfinite(value) else None
