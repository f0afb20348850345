"""Scoring rows as they come."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tsmamba.anomaly.calibration import Drift
from tsmamba.anomaly.model import DetectorModel
from tsmamba.anomaly.pace import Pace
from tsmamba.anomaly.result import Result, Time, number_of
from tsmamba.anomaly.rows import Rows, read_batch, read_row, read_stream_rows
from tsmamba.anomaly.state import StreamState, advance, longest_gap
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
    time_col, id_col : str
        Columns of frames that hold times, and the id of their one series.
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
        time_col: str = "ds",
        id_col: str = "unique_id",
    ) -> None:
        self.key = key
        self.max_keys = max_keys
        self._model = model
        self._drift = drift
        self._names = names
        self._pace = pace
        self._time_col = time_col
        self._id_col = id_col
        self._series: OrderedDict[str | None, StreamState] = OrderedDict()

    @property
    def keys(self) -> list[str | None]:
        """Series with a state, the one not used for longest first."""
        return list(self._series)

    @property
    def nbytes(self) -> int:
        """Bytes of all states; the same after any number of rows of the same series."""
        return sum(series.nbytes for series in self._series.values())

    @property
    def takes_integers(self) -> bool:
        """Whether times are integers, as those of the fit were; they are stamps otherwise."""
        return self._pace is not None and not self._pace.stamps

    def last_time(self, key: str | None = None) -> Time | None:
        """Tell the time of the newest row of a series.

        Parameters
        ----------
        key : str, optional
            The series, if not that of the stream.

        Returns
        -------
        int, datetime or None
            None where there is no such series, or its rows had no times.
        """
        series = self._series.get(self.key if key is None else key)
        return None if series is None else series.t

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
            With a delay, that of an earlier row, whose time it gives: the one that was given
            `delay` calls before.

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
            Their times, never decreasing; those of the time column, if a frame has it.
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
        width = len(self._model.units.mean)
        rows = read_stream_rows(X, width, self._names, self._time_col, self._id_col)
        times = _times_of(rows, t)
        return self._run(key, rows.values, times) if len(rows.values) else []

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
        values = read_batch(list(rows.values()), width, self._names)
        times = None if t is None else [t]
        series = {key: self._of(key) for key in rows}
        groups: dict[int, list[int]] = {}  # places in the batch by rows since the last one
        lates = []
        clocks: dict[tuple[int, float], tuple[list[int], float]] = {}
        for place, each in enumerate(series.values()):
            past = id(each.t), each.late  # mostly those that come together came together before
            if past not in clocks:
                clocks[past] = self._clock(each, times, 1)
            (gap,), late = clocks[past]
            groups.setdefault(gap, []).append(place)
            lates.append(late)
        for each, late in zip(series.values(), lates, strict=True):
            each.late = late
        keys = list(series)
        out: dict[str, Result] = {}
        for gap, places in groups.items():
            grid = np.full((len(places), gap, width), np.nan)
            grid[:, -1] = values[places]
            given = [False] * (gap - 1) + [True]
            group = {keys[place]: series[keys[place]] for place in places}
            results = self._advance(group, grid, given, times or [None])
            out |= {key: one for key, (one,) in results.items()}
        return {key: out[key] for key in rows}

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

    def _clock(
        self, series: StreamState, times: list[Time] | None, n: int
    ) -> tuple[list[int], float]:
        """Return how many rows each of `n` is after the one before, or refuse their times.

        Beside it what `StreamState.late` is to be after them.
        """
        late = series.late
        if times is None:
            return [1] * n, late
        kind = times[0] if series.t is None else series.t
        stamps = isinstance(kind, datetime) if self._pace is None else self._pace.stamps
        known = times if series.t is None else [series.t, *times]
        numbers = [number_of(t, stamps) for t in known]
        steps = [after - before for before, after in pairwise(numbers)]
        for step, before, after in zip(steps, known, known[1:], strict=False):
            if step < 0:
                raise ParameterError(
                    f"time goes backwards: {after} after {before}; pass rows in the order of time"
                )
        gaps = [1] * (n - len(steps))  # nothing is known of before the first row
        if self._pace is None and stamps:
            return [1] * n, late
        pace, most = self._pace or Pace(1.0, stamps=False), longest_gap(self._model) + 1
        for step in steps:
            gap, late = pace.next(step, late, most)
            gaps.append(gap)
        return gaps, late

    def _run(self, key: str | None, rows: np.ndarray, times: list[Time] | None) -> list[Result]:
        """Score rows of one series, with room for those that the times left out."""
        key = self.key if key is None else key
        series = self._of(key)
        gaps, series.late = self._clock(series, times, len(rows))
        grid, given = rows, [True] * len(rows)
        if sum(gaps) > len(rows):
            places = np.cumsum(gaps) - 1
            there = np.zeros(sum(gaps), dtype=bool)
            there[places] = True
            grid = np.full((len(there), rows.shape[1]), np.nan)
            grid[places], given = rows, there.tolist()
        return self._advance({key: series}, grid[None], given, times or [None] * len(rows))[key]

    def _advance(
        self,
        series: Mapping[Any, StreamState],
        grid: np.ndarray,
        given: list[bool],
        times: list[Any],
    ) -> dict[Any, list[Result]]:
        """Move series past rows, of which some were given at these times, and answer those."""
        scored = advance(self._model, list(series.values()), grid)
        out = {}
        for (key, each), told in zip(series.items(), scored.told(), strict=True):
            out[key] = each.answers.take(key, told, given, times)
            each.t = each.t if times[-1] is None else times[-1]
            self._keep(key, each)
        return out


def _times_of(rows: Rows, t: Sequence[Time] | None) -> list[Time] | None:
    """Return the times of rows, from their frame or from beside it."""
    n = len(rows.values)
    if rows.times is None:
        if t is not None and len(t) != n:
            raise ParameterError(f"{len(t)} times for {n} rows; pass one time a row")
        return None if t is None else list(t)
    name = rows.times.name
    if t is not None:
        raise ParameterError(
            f"t= beside a frame whose column {name!r} holds times; leave t out, or drop the column"
        )
    dates = rows.times.dtype == pl.Date
    return (rows.times.cast(pl.Datetime("us")) if dates else rows.times).to_list()
