"""A log as it comes: lines in, results out, and the whole state as one value."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from tsmamba.errors import ParameterError
from tsmamba.logs.alarming import is_alarming
from tsmamba.logs.episodes import Episodes, LogEpisode
from tsmamba.logs.intake import LogSource, batches, last_changes
from tsmamba.logs.lines import Event, LineModel, LineScore
from tsmamba.logs.naming import Templates
from tsmamba.logs.reader import Reader
from tsmamba.logs.record import Line, LogRecord
from tsmamba.logs.result import LogResult
from tsmamba.logs.scoring.gaps import Overdue
from tsmamba.logs.sessions import SessionModel
from tsmamba.logs.settings import LogSettings
from tsmamba.logs.tracker import OpenSession, Tracker

__all__ = ["LogStream"]

# A message is shown up to so many characters.
_SHOWN = 2_000
# Episodes that wait for `drain_episodes`, the newest.
_WAITING = 10_000


class LogStream:
    """Scores lines as they come, each with what came before it.

    The same lines give the same results however they are cut into calls. Made by
    :meth:`tsmamba.LogDetector.stream`.

    Attributes
    ----------
    lines : int
        Records so far.
    lines_unparsed : int
        Records with something amiss; `unparsed` counts them by what it was.
    lines_without_session : int
        Lines that belong to no session.
    alerts : int
        Results that alerted.

    Examples
    --------
    >>> from tsmamba import LogDetector
    >>> detector = LogDetector(multiline=None).fit(["job 1 done", "job 2 done"] * 200)
    >>> stream = detector.stream()
    >>> [result.is_anomaly for result in stream.feed(["job 2 done", "disk failed"])]
    [False, True]
    """

    def __init__(self, state: Mapping[str, Any], *, learn: bool = True) -> None:
        self._learn = learn
        self.settings = LogSettings.from_dict(state["settings"])
        # The format that the training log was found to have, where none was given.
        self._reading = replace(self.settings, format=state["format"])
        self._reader = Reader.from_dict(self._reading, state["reader"])
        self._templates = Templates.from_dict(state["templates"])
        # What does not change while a stream goes on.
        self._networks: list[str] = state["networks"]
        self._model: LineModel | SessionModel
        if self.settings.session is None:
            self._model = LineModel.from_dict(state["model"], self._networks)
        else:
            self._model = SessionModel.from_dict(state["model"], self._networks)
        if not learn:
            if isinstance(self._model, LineModel):
                raise ParameterError(
                    "learn=False scores sessions by what the training log taught, and there are "
                    "none: give session to the detector, or leave learn out"
                )
            self._templates.miner.frozen = True
        self._tracker = Tracker.from_dict(state["tracker"])
        self._episodes = Episodes.from_dict(state["episodes"])
        self._session_of = self.settings.session_finder()
        told = [LogEpisode(**episode) for episode in state["told"]]
        self._told: deque[LogEpisode] = deque(told, maxlen=_WAITING)
        self._numbered: int = state["numbered"]
        self.lines_without_session: int = state["lines_without_session"]
        self.alerts: int = state["alerts"]

    @property
    def lines(self) -> int:
        """Records so far."""
        return self._reader.lines

    @property
    def lines_unparsed(self) -> int:
        """Records with something amiss."""
        return self._reader.lines_unparsed

    @property
    def unparsed(self) -> dict[str, int]:
        """Records with something amiss, by what it was."""
        return self._reader.unparsed

    @property
    def n_templates(self) -> int:
        """Templates that are known by now."""
        return len(self._templates)

    def feed(self, lines: list[str] | list[bytes] | list[Line]) -> list[LogResult]:
        """Score lines.

        Parameters
        ----------
        lines : list of str, bytes or Line
            In the order in which they came.

        Returns
        -------
        list of LogResult
            One for each line that is whole by now; a line waits for the next one where a stack
            trace may follow. With sessions, one for each session that is over.
        """
        return self._score(self._reader.read([self._line(line) for line in lines]))

    def results_of(self, source: LogSource) -> Iterator[LogResult]:
        """Score a whole log, and close: what :meth:`tsmamba.LogDetector.score` puts in a frame."""
        reader = Reader(self._reading, last_changes(source))
        for records in batches(source, reader):
            yield from self._score(records)
        yield from self.close()

    def flush(self) -> list[LogResult]:
        """Score what waits for more lines; call it when nothing has come for a while."""
        return self._score(self._reader.flush())

    def close(self) -> list[LogResult]:
        """Score what waits, and the sessions that are under way: the log has ended."""
        results = self.flush()
        for session in self._tracker.close():
            results.append(self._session(session))
        self._told += self._episodes.close()
        return results

    def templates(self) -> list[tuple[int, str]]:
        """Return the templates that are known by now, each with its number."""
        return self._templates.items()

    def drain_episodes(self) -> list[LogEpisode]:
        """Return the episodes that began or ended since the last call."""
        told = list(self._told)
        self._told.clear()
        return told

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values: another stream goes on from there."""
        return {
            "settings": self.settings.to_dict(),
            "format": self._reading.format,
            "reader": self._reader.to_dict(),
            "templates": self._templates.to_dict(),
            "model": self._model.to_dict(),
            "networks": self._networks,
            "tracker": self._tracker.to_dict(),
            "episodes": self._episodes.to_dict(),
            "numbered": self._numbered,
            "lines_without_session": self.lines_without_session,
            "alerts": self.alerts,
            "told": [asdict(episode) for episode in self._told],
        }

    def _line(self, line: str | bytes | Line) -> Line:
        if isinstance(line, Line):
            return line
        # Half a surrogate pair is no reason to stop; the parser counts it as not UTF-8.
        text = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
        self._numbered += 1
        return Line("lines", "lines", self._numbered, self._numbered - 1, self._numbered, text)

    def _score(self, records: list[tuple[Line, LogRecord]]) -> list[LogResult]:
        results: list[LogResult] = []
        for line, record in records:
            template = self._templates.id_of(record)
            for old, new in self._templates.renames():
                self._model.rename(old, new)
                self._tracker.rename(old, new)
            if isinstance(self._model, LineModel):
                self._score_line(self._model, line, record, template, results)
                continue
            name = self._session_of(record)
            if name is None:
                self.lines_without_session += 1
                continue
            for session in self._tracker.add(name, template, line, record.time):
                results.append(self._session(session))
        return results

    def _score_line(
        self,
        model: LineModel,
        line: Line,
        record: LogRecord,
        template: int,
        results: list[LogResult],
    ) -> None:
        stream = self.settings.stream_of(record)
        if record.time is not None:
            for late, score in model.overdue(record.time):
                results.append(self._tell(self._overdue(line, record.time, late, score)))
        numbers = self._templates.numbers(record, template)
        new_error = model.is_new(template) and is_alarming(record)
        score = model.step(
            Event(template, stream, line.source, record.time, record.severity, numbers, new_error)
        )
        ready = score.thresholds[0] < float("inf")
        result = LogResult(
            event_id=f"{line.stream}:{line.offset}",
            time=record.time,
            source=line.source,
            stream=stream,
            line_no=line.number,
            message=record.body[:_SHOWN],
            severity=record.severity,
            template_id=template,
            template=self._templates.text(template),
            score=score.score if ready else None,
            cost=score.cost,
            p_value=min(1.0, self.settings.rate**score.score) if ready else None,
            reason=score.reason,
            parts=score.parts,
            status="ok" if ready else "warmup",
        )
        results.append(self._tell(result))

    def _overdue(self, line: Line, now: int, late: Overdue, score: LineScore) -> LogResult:
        template = self._templates.text(late.template)
        return LogResult(
            event_id=f"{line.stream}:{line.offset}:silence:{late.template}",
            time=now,
            source=line.source,
            stream=late.stream,
            line_no=line.number,
            message=(
                f"nothing like {template!r} for {late.seconds:.0f} s; "
                f"usually one every {late.usual:.0f} s"
            ),
            severity=None,
            template_id=late.template,
            template=template,
            score=score.score,
            cost=score.cost,
            p_value=min(1.0, self.settings.rate**score.score),
            reason=score.reason,
            parts=score.parts,
        )

    def _session(self, session: OpenSession) -> LogResult:
        if not isinstance(self._model, SessionModel):
            raise TypeError("sessions need a model of sessions")
        scored = self._model.step(session.templates, session.gaps or None, learn=self._learn)
        ready = scored.threshold < float("inf")
        score = scored.cost / scored.threshold
        result = LogResult(
            event_id=f"{session.origin}:session",
            time=session.time,
            source=session.source,
            stream=session.name,
            line_no=session.line_no,
            message="",
            severity=None,
            template_id=scored.template,
            template=self._templates.text(scored.template),
            score=score if ready else None,
            cost=scored.cost,
            p_value=min(1.0, self.settings.rate**score) if ready else None,
            reason=scored.reason,
            parts={name: cost / scored.threshold for name, cost in scored.parts.items()},
            status="ok" if ready else "warmup",
        )
        return self._tell(result)

    def _tell(self, result: LogResult) -> LogResult:
        if self._episodes.quiet and not result.is_anomaly:
            return result
        episode, told = self._episodes.step(result)
        self._told += told
        if episode is None:
            return result
        self.alerts += 1
        result.episode_id = episode
        return result
