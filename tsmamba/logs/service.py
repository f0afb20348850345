"""The loop behind ``tsmamba logs score``: read, score, write, and keep what was done."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Literal, Protocol, TypeAlias

from tsmamba.errors import ParameterError
from tsmamba.logs.checkpoint import Checkpoint
from tsmamba.logs.result import LogResult
from tsmamba.logs.sources import Loss, Source
from tsmamba.logs.stream import LogStream

__all__ = ["Counters", "Only", "Output", "Scorer"]

Only: TypeAlias = Literal["all", "alerts", "episodes"]

_BATCH = 512
# A line waits so long for the rest of a stack trace, which is written at once.
_REST = 0.001
_POLL = 0.05
_STATE = "stream"
# What is the same at every commit comes with the model, whose digest the checkpoint knows.
_FIXED = ("networks",)


class Output(Protocol):
    """Takes what is written: a binary file, or what acts as one."""

    def write(self, data: bytes, /) -> object:
        """Take whole lines."""

    def flush(self) -> object:
        """Return once nothing of them can be lost by this process."""


@dataclass(slots=True)
class Counters:
    """What a scorer has done since it was started, for people and for monitoring."""

    lines: int = 0
    lines_unparsed: int = 0
    results: int = 0
    alerts: int = 0
    templates: int = 0
    bytes_lost: int = 0
    checkpoints: int = 0
    checkpoint_time: float = 0.0
    seconds_scoring: float = 0.0
    losses: list[Loss] = field(default_factory=list)


class Scorer:
    """Reads a source, scores its lines, writes results, and commits how far it came.

    The order is fixed: results are written and flushed, then positions and state are committed in
    one transaction. After a crash the lines since the last commit are scored again, with the same
    event ids, so that nothing is lost and what is written twice can be told.

    Parameters
    ----------
    source : Source
        Lines.
    state : dict
        State of the fitted model.
    out : Output
        Gets one JSON object a line; a binary file, or a topic.
    only : {"all", "alerts", "episodes"}
        What is written.
    checkpoint : Checkpoint, optional
        Where to commit; what it holds is where to begin.
    every : float
        Seconds between two commits.
    tell : callable
        Gets messages for people.
    committed : callable
        Called after each commit.
    stop : Event, optional
        Ends :meth:`run` when it is set.
    """

    def __init__(
        self,
        source: Source,
        state: dict[str, Any],
        out: Output,
        *,
        only: Only = "all",
        checkpoint: Checkpoint | None = None,
        every: float = 5.0,
        tell: Callable[[str], None] = lambda message: None,
        committed: Callable[[], None] = lambda: None,
        stop: Event | None = None,
    ) -> None:
        if only not in ("all", "alerts", "episodes"):
            raise ParameterError(f"only={only!r}: give 'all', 'alerts' or 'episodes'")
        self.source = source
        self.counters = Counters()
        self.stop = stop or Event()
        self._out = out
        self._only = only
        self._checkpoint = checkpoint
        self._every = every
        self._tell = tell
        self._tell_committed = committed
        saved = None if checkpoint is None else checkpoint.load()
        if saved is None:
            self.stream = LogStream(state)
        else:
            positions, blobs = saved
            fixed = {name: state[name] for name in _FIXED}
            self.stream = LogStream({**json.loads(blobs[_STATE]), **fixed})
            source.seek(positions)
        # Those of a checkpoint are of another run.
        self._before = self._counts()
        self._committed = time.monotonic()
        self._is_new = True

    def run(self) -> None:
        """Score until the source is done or :attr:`stop` is set, then write and commit the rest."""
        # A scorer killed before its first commit would not know the file it began with.
        self._commit()
        while not self.source.done and not self.stop.is_set():
            lines = self.source.read(_BATCH)
            self._is_new = self._is_new or bool(lines)
            if lines:
                start = time.perf_counter()
                self._write(self.stream.feed(lines))
                self.counters.seconds_scoring += time.perf_counter() - start
            elif not self.source.wait(_REST):
                waited = self.stream.flush()
                self._is_new = self._is_new or bool(waited)
                self._write(waited)
                self.source.wait(_POLL)
            self._report()
            if self._is_new and time.monotonic() - self._committed >= self._every:
                self._commit()
        self._report()
        # What is under way goes on with the next run, if there can be one.
        ended = self.source.done and not self.stop.is_set()
        if ended or self._checkpoint is None:
            self._write(self.stream.close())
        self._commit()

    def _write(self, results: list[LogResult]) -> None:
        episodes = self.stream.drain_episodes()
        if self._only == "episodes":
            records = [episode.to_json() for episode in episodes]
        elif self._only == "alerts":
            records = [result.to_json() for result in results if result.is_anomaly]
        else:
            records = [result.to_json() for result in results]
        if records:
            self._out.write("".join([f"{record}\n" for record in records]).encode())
            self._out.flush()
        counters = self.counters
        counters.results += len(results)
        counters.lines, counters.lines_unparsed, counters.alerts = (
            now - before for now, before in zip(self._counts(), self._before, strict=True)
        )
        counters.templates = self.stream.n_templates

    def _counts(self) -> tuple[int, int, int]:
        return self.stream.lines, self.stream.lines_unparsed, self.stream.alerts

    def _report(self) -> None:
        for loss in self.source.losses():
            self.counters.bytes_lost += loss.n_bytes
            self.counters.losses.append(loss)
            self._tell(loss.message)

    def _commit(self) -> None:
        self._committed, self._is_new = time.monotonic(), False
        if self._checkpoint is None:
            return
        known = self.stream.to_dict()
        changed = {name: value for name, value in known.items() if name not in _FIXED}
        state = json.dumps(changed, separators=(",", ":")).encode()
        self._checkpoint.commit(self.source.positions(), {_STATE: state})
        self.counters.checkpoints += 1
        self.counters.checkpoint_time = time.time()
        self._tell_committed()
