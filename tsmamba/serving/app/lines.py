"""Scores of log lines: a log detector, and how far each stream of lines came."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tsmamba.errors import ParameterError
from tsmamba.logs.checkpoint import Checkpoint
from tsmamba.logs.episodes import LogEpisode
from tsmamba.logs.estimator import LogDetector
from tsmamba.logs.record import Line
from tsmamba.logs.result import LogResult
from tsmamba.logs.saved import digest_of
from tsmamba.logs.stream import LogStream
from tsmamba.serving.app.engine import StatefulEngine

__all__ = ["LineEngine"]

_STATE = "stream"


class LineEngine(StatefulEngine):
    """Scores lines of named streams.

    The number of a line in its stream is its identity: whoever sends the number along may repeat
    lines, which are then scored once.

    Parameters
    ----------
    detector : LogDetector
        Fitted.
    max_streams : int
        Streams at most. They are not forgotten: the format of each is part of the state.
    """

    kind = LogDetector.__name__

    def __init__(self, detector: LogDetector, max_streams: int) -> None:
        self._stream = detector.stream()
        self._max_streams = max_streams
        self._identity = digest_of(self._stream.to_dict())
        self._next: dict[str, int] = {}
        self._checkpoint: Checkpoint | None = None

    @property
    def n_series(self) -> int:
        """Streams so far."""
        return len(self._next)

    def columns(self) -> dict[str, Any]:
        """Return the fields that tell sessions and streams within the log apart."""
        chosen = self._stream.settings
        return {"session": chosen.session, "stream_by": list(chosen.stream_by)}

    def settings(self) -> dict[str, Any]:
        """Return the format, and the templates known by now."""
        chosen = self._stream.settings
        return {
            "format": chosen.format,
            "time_zone": chosen.time_zone,
            "templates": self._stream.n_templates,
        }

    def score(
        self, lines: Sequence[str], stream: str, first: int | None = None
    ) -> tuple[list[LogResult], list[LogEpisode], int]:
        """Score the lines that are new.

        Parameters
        ----------
        lines : sequence of str
            In their order; the lines of one stack trace together.
        stream : str
            Where they come from.
        first : int, optional
            Number of the first of them in the stream, from 1; the next one by default.

        Returns
        -------
        results : list of LogResult
            Of the new lines; with sessions, of those that are over.
        episodes : list of LogEpisode
            That began or ended.
        duplicates : int
            Lines that were given before.

        Raises
        ------
        ParameterError
            If there are too many streams.
        """
        if stream not in self._next and len(self._next) >= self._max_streams:
            raise ParameterError(
                f"stream {stream!r} is one more than the {self._max_streams} that are kept; send "
                "its lines under a name that is known, or start the service with a higher "
                "--max-series"
            )
        following = self._next.get(stream, 1)
        start = following if first is None else first
        duplicates = min(max(following - start, 0), len(lines))
        fresh = [
            Line(stream, stream, number, number - 1, number, _bytes(text))
            for number, text in enumerate(lines[duplicates:], start=start + duplicates)
        ]
        self._next[stream] = max(following, start + len(lines))
        # Nothing waits for the next request: it may never come.
        results = self._stream.feed(fresh) + self._stream.flush()
        return results, self._stream.drain_episodes(), duplicates

    def open(self, path: Path, *, anew: bool = False) -> None:
        """Go on from a checkpoint, and write to it from now on."""
        if anew:
            path.unlink(missing_ok=True)
        checkpoint = Checkpoint(path, model=self._identity)
        try:
            saved = checkpoint.load()
        except Exception:
            checkpoint.close()
            raise
        if saved is not None:
            self._next, blobs = saved
            self._stream = LogStream(json.loads(blobs[_STATE]))
        self._checkpoint = checkpoint

    def save(self) -> None:
        """Write the state and how far each stream came, in one transaction."""
        if self._checkpoint is not None:
            state = json.dumps(self._stream.to_dict(), separators=(",", ":")).encode()
            self._checkpoint.commit(self._next, {_STATE: state})

    def close(self) -> None:
        """Let go of the file."""
        if self._checkpoint is not None:
            self._checkpoint.close()
            self._checkpoint = None


def _bytes(text: str) -> bytes:
    return text.removesuffix("\n").removesuffix("\r").encode()
