"""Scoring rows as they come."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from tsmamba.anomaly.calibration import Drift
from tsmamba.anomaly.model import DetectorModel
from tsmamba.anomaly.pace import Pace
from tsmamba.anomaly.result import Result, Status, Time, number_of
from tsmamba.anomaly.rows import read_row, read_stream_rows
from tsmamba.anomaly.state import Scored, StreamState, advance, longest_gap
from tsmamba.anomaly.stream_file import load_stream, save_stream
from tsmamba.errors import ParameterError


class Stream:
    """Scores of one series or of thousands, row by row, at constant time and memory a row.

    Get one from `MambaDetector.stream`. Rows one by one, in chunks or all at once give the same
    numbers. All series share the model; each has a state of its own.

    Parameters
    ----------
    model : DetectorModel
        Fitted.
    drift : Drift
        When a new level counts as normal.
    names : list of str or None
        Names of the channels, for rows given as mappings or frames.
    pace : Pace or None
        Distance of rows in time, where it is known.
    key : str, optional
        Series that rows without a key belong to.
    max_keys : int
        Series kept at most; the one not used for longest goes first.
    """

    def __init__(
        self,
        model: DetectorModel,
        *,
        drift: Drift,
        names: Sequence[str] | None = None,
        pace: Pace | None = None,
        key: str | None = None,
        max_keys: int = 10_000,
    ) -> None:
        self.key = key
        self.max_keys = max_keys
        self._model = model
        self._drift = drift
        self._names = names
        self._pace = pace
        self._series: OrderedDict[str | None, StreamState] = OrderedDict()

    @property
    def keys(self) -> list[str | None]:
        """Series with a state, the one not used for longest first."""
        return list(self._series)

    @property
    def nbytes(self) -> int:
        """Bytes of all states; the same after any number of rows of the same series."""
        return sum(series.nbytes for series in self._series.values())

    def score_one(self, x: Any, t: Time | None = None, *, key: str | None = None) -> Result:
        """Score the next row.

        Parameters
        ----------
        x : number, sequence of numbers, or mapping of channel name to number
            The row; NaN or None where missing.
        t : int or datetime, optional
            Its time. Rows left out before it count as missing.
        key : str, optional
            The series, if not that of the stream.

        Returns
        -------
        Result
            With a delay, that of an earlier row, whose time it gives.

        Raises
        ------
        ParameterError
            If the row has another number of channels, holds infinity, or goes back in time. The
            state is then as before.

        Examples
        --------
        >>> from tsmamba import MambaDetector
        >>> rng = np.random.default_rng(0)
        >>> stream = MambaDetector(preset="tiny").fit(rng.normal(size=(500, 1))).stream()
        >>> stream.score_one(9.0).is_anomaly
        True
        """
        row = read_row(x, len(self._model.units.mean), self._names)
        return self._run(key, row[None], None if t is None else [t])[0]

    def score_many(
        self, X: Any, t: Sequence[Time] | None = None, *, key: str | None = None
    ) -> list[Result]:
        """Score the next rows of one series.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_channels), (n_rows,) for one channel, or frame
            The rows; NaN where missing.
        t : sequence of int or datetime, optional
            Their times, never decreasing.
        key : str, optional
            The series, if not that of the stream.

        Returns
        -------
        list of Result
            One a row, as `score_one` gives them.

        Raises
        ------
        ParameterError, FrameError
            As for `score_one`; no row is then scored.
        """
        rows = read_stream_rows(X, len(self._model.units.mean), self._names)
        if t is not None and len(t) != len(rows):
            raise ParameterError(f"{len(t)} times for {len(rows)} rows; pass one time a row")
        return self._run(key, rows, None if t is None else list(t)) if len(rows) else []

    def score_batch(self, rows: Mapping[str, Any], t: Time | None = None) -> dict[str, Result]:
        """Score the next row of many series at once, which costs far less than one by one.

        Parameters
        ----------
        rows : mapping of key to row
            Rows as for `score_one`. The order of keys does not matter.
        t : int or datetime, optional
            Time of all of them.

        Returns
        -------
        dict of key to Result

        Raises
        ------
        ParameterError
            As for `score_one`; no row is then scored.

        Examples
        --------
        >>> from tsmamba import MambaDetector
        >>> rng = np.random.default_rng(0)
        >>> stream = MambaDetector(preset="tiny").fit(rng.normal(size=(500, 1))).stream()
        >>> results = stream.score_batch({"a": 0.1, "b": 9.0})
        >>> results["a"].is_anomaly, results["b"].is_anomaly
        (False, True)
        """
        if not rows:
            return {}
        if len(rows) > self.max_keys:
            raise ParameterError(
                f"{len(rows)} series at once, the stream keeps {self.max_keys}; "
                "raise max_keys of stream()"
            )
        width = len(self._model.units.mean)
        values = {key: read_row(x, width, self._names) for key, x in rows.items()}
        series = {key: self._of(key) for key in values}
        gaps = {key: self._gaps(each, None if t is None else [t]) for key, each in series.items()}
        for key, each in series.items():
            if gaps[key][0] > 1:
                self._skip(each, int(gaps[key][0]) - 1)
        together = np.stack(list(values.values()))[:, None]
        scored = advance(self._model, list(series.values()), together)
        out = {}
        for (key, each), scores in zip(series.items(), scored, strict=True):
            out[key] = self._results(key, each, scores, [t], np.zeros(1, dtype=int))[0]
            each.t = t if t is not None else each.t
            self._keep(key, each)
        return out

    def seed(self, X: Any, t: Sequence[Time] | None = None, *, key: str | None = None) -> "Stream":
        """Take in rows that came before, so that there is no warm-up.

        Parameters
        ----------
        X, t, key
            As for `score_many`.

        Returns
        -------
        Stream
            This one.
        """
        self.score_many(X, t, key=key)
        return self

    def save(self, path: str | Path) -> None:
        """Write the states of all series: whole or not at all, and without pickle.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        ModelFileError
            If it cannot be written.
        """
        save_stream(path, self._model, self._series)

    def load(self, path: str | Path) -> "Stream":
        """Continue from a file, bit for bit.

        Parameters
        ----------
        path : str or path
            What `save` wrote, of a stream of the same detector.

        Returns
        -------
        Stream
            This one, with the states of the file in place of its own.

        Raises
        ------
        ModelFileError
            If the file is damaged or belongs to another model. This stream is then as before.
        """
        self._series = load_stream(path, self._model, self._drift)
        return self

    def _of(self, key: str | None) -> StreamState:
        """Return the series of a key, or a new one that is kept only once it was used."""
        if key in self._series:
            return self._series[key]
        return StreamState.start(self._model, self._drift)

    def _keep(self, key: str | None, series: StreamState) -> None:
        self._series[key] = series
        self._series.move_to_end(key)
        while len(self._series) > self.max_keys:
            self._series.popitem(last=False)

    def _gaps(self, series: StreamState, times: list[Time] | None) -> np.ndarray | list[int]:
        """Return how many rows each row is after the one before, or refuse the times."""
        if times is None:
            return [1]
        kind = times[0] if series.t is None else series.t
        stamps = isinstance(kind, datetime) if self._pace is None else self._pace.stamps
        numbers = [number_of(t, stamps) for t in times]
        first = numbers[0] if series.t is None else number_of(series.t, stamps)
        steps = np.diff(np.array([first, *numbers], dtype=np.int64))
        if (steps < 0).any():
            row = int(np.argmax(steps < 0))
            before = series.t if row == 0 else times[row - 1]
            raise ParameterError(
                f"time goes backwards: {times[row]} after {before}; pass rows in the order of time"
            )
        if self._pace is None and isinstance(times[0], datetime):
            return np.ones(len(times), dtype=np.int64)
        step = 1.0 if self._pace is None else self._pace.step
        most = longest_gap(self._model) + 1
        return np.clip(np.rint(steps / step), 1, most).astype(np.int64)

    def _skip(self, series: StreamState, n: int) -> None:
        """Let missing rows go by."""
        missing = np.full((1, n, len(self._model.units.mean)), np.nan)
        advance(self._model, [series], missing)
        pending = [*series.pending, *[None] * n]
        series.pending = pending[n:]

    def _run(self, key: str | None, rows: np.ndarray, times: list[Time] | None) -> list[Result]:
        """Score rows of one series, with room for those that the times left out."""
        key = self.key if key is None else key
        series = self._of(key)
        gaps = self._gaps(series, times)
        places = np.arange(len(rows)) if times is None else np.cumsum(gaps) - 1
        n = int(places[-1]) + 1
        grid: np.ndarray = rows
        moments: list[Time | None] = [None] * len(rows) if times is None else [*times]
        if n > len(rows):
            grid = np.full((n, rows.shape[1]), np.nan)
            grid[places] = rows
            moments = [None] * n
            for place, t in zip(places, times or (), strict=True):
                moments[place] = t
        (scored,) = advance(self._model, [series], grid[None])
        results = self._results(key, series, scored, moments, places)
        series.t = times[-1] if times else series.t
        self._keep(key, series)
        return results

    def _results(
        self,
        key: str | None,
        series: StreamState,
        scored: Scored,
        times: Sequence[Time | None],
        places: np.ndarray,
    ) -> list[Result]:
        """Put the scores of the rows at `places` into words; the times wait for their scores."""
        pending = [*series.pending, *times]
        series.pending = pending[len(times) :]
        scores, p_values = scored.scores.tolist(), scored.p_values.tolist()
        out = []
        for i in places.tolist():
            status = _status(scored, i)
            known = status in ("ok", "drift")
            out.append(
                Result(
                    score=scores[i] if known else None,
                    p_value=p_values[i] if known else None,
                    is_anomaly=known and scores[i] >= 1.0,
                    status=status,
                    channel_contrib=scored.contributions[i] if known else None,
                    t=pending[i],
                    key=key,
                )
            )
        return out


def _status(scored: Scored, i: int) -> Status:
    if scored.missing[i]:
        return "missing"
    if not scored.warm[i]:
        return "warmup"
    return "drift" if scored.drifted[i] else "ok"
