"""Learning a log: templates first, then what is usual."""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tsmamba.errors import GuidanceWarning, ParameterError
from tsmamba.logs.episodes import Episodes
from tsmamba.logs.intake import LogSource, batches, last_changes
from tsmamba.logs.judging import Gaps, Trainer
from tsmamba.logs.lines import Event, LineModel
from tsmamba.logs.naming import Templates
from tsmamba.logs.reader import Reader
from tsmamba.logs.record import Line, LogRecord
from tsmamba.logs.sessions import SessionModel
from tsmamba.logs.settings import LogSettings
from tsmamba.logs.templates import TemplateMiner
from tsmamba.logs.tracker import OpenSession, Tracker

if TYPE_CHECKING:
    from tsmamba.logs.network import Committee

__all__ = ["fitted_state"]

_LEAST_LINES = 100
_LEAST_SESSIONS = 20


def fitted_state(
    source: LogSource,
    settings: LogSettings,
    advance: Callable[[int], None] = lambda lines: None,
) -> dict[str, Any]:
    """Learn from a log, and return the state that a stream starts from.

    `advance` is told of every few thousand lines that were read.

    Raises
    ------
    ParameterError
        If a setting or the log cannot be used.
    """
    settings.check()
    reader = Reader(settings, last_changes(source))
    templates = Templates(TemplateMiner(max_templates=settings.max_templates))
    seen: list[tuple[Line, LogRecord, int]] = []
    aliases: dict[int, int] = {}
    for records in batches(source, reader):
        for line, record in records:
            seen.append((line, record, templates.id_of(record)))
            aliases.update(templates.renames())
        advance(len(records))
    if len(seen) < _LEAST_LINES:
        raise ParameterError(
            f"the log has {len(seen)} lines; give {_LEAST_LINES} or more to learn from"
        )
    if len({line.source for line, _, _ in seen}) > 1:
        seen = _in_order(seen)
    tracker = Tracker(settings.session_timeout, keep_gaps=settings.network is not None)
    model: LineModel | SessionModel
    weights: list[str] = []
    tried: dict[str, list[int]] = {}
    if settings.session is None:
        model = LineModel(settings.rate)
        events = [_event(settings, templates, *item, aliases) for item in seen]
        model.fit(events, _trainer(settings, tried))
        weights = [] if model.network is None else model.network.committee.weights()
    else:
        sessions = _sessions(settings, tracker, seen, aliases)
        model = _session_model(settings, sessions, tried)
        weights = [] if model.network is None else model.network.weights()
    return {
        "settings": settings.to_dict(),
        "format": _format(settings, reader),
        "reader": Reader(settings).to_dict(),
        "templates": templates.to_dict(),
        "model": model.to_dict(),
        "networks": weights,
        "tracker": tracker.to_dict(),
        "episodes": Episodes(settings.cool_down).to_dict(),
        "numbered": 0,
        "lines_without_session": 0,
        "alerts": 0,
        "told": [],
        "report": {
            "lines": reader.lines,
            "lines_unparsed": reader.lines_unparsed,
            "unparsed": reader.unparsed,
            "formats": sorted(reader.formats),
            "templates": len(templates),
            "sessions": None if settings.session is None else len(sessions),
            "networks": tried or None,
        },
    }


def _session_model(
    settings: LogSettings, sessions: list[OpenSession], tried: dict[str, list[int]]
) -> SessionModel:
    """Learn from sessions; the seeds of the networks are noted in `tried`."""
    model = SessionModel.fitted(
        [session.templates for session in sessions],
        settings.rate,
        settings.trimmed,
        gaps=[session.gaps for session in sessions],
        train=_trainer(settings, tried),
    )
    if model.network is not None and model.long:
        warnings.warn(
            f"network={settings.network!r}: most sessions have over a hundred lines; there the "
            f"n-gram alone told more, so leave network=None unless you have measured better",
            GuidanceWarning,
            stacklevel=2,
        )
    return model


def _trainer(settings: LogSettings, tried: dict[str, list[int]]) -> Trainer | None:
    """Return what trains the networks and notes their seeds; None if none are asked for."""
    if settings.network is None:
        return None
    from tsmamba.logs.network import fitted_committee

    def train(
        sessions: list[list[int]], gaps: list[Gaps], is_of_use: "Callable[[Committee], bool]"
    ) -> "Committee | None":
        found = fitted_committee(sessions, gaps, settings.random_state, is_of_use)
        tried.update(kept=found.kept, rejected=found.rejected)
        if len(found.rejected) > len(found.kept):
            warnings.warn(
                f"network={settings.network!r}: {len(found.rejected)} of "
                f"{len(found.kept) + len(found.rejected)} trained networks find what is usual far "
                f"stranger than the n-gram does and were left out, {len(found.kept)} are used; "
                f"give a longer log, or network=None",
                GuidanceWarning,
                stacklevel=2,
            )
        return found.committee

    return train


def _event(
    settings: LogSettings,
    templates: Templates,
    line: Line,
    record: LogRecord,
    template: int,
    aliases: dict[int, int],
) -> Event:
    known = _root(template, aliases)
    numbers = templates.numbers(record, known)
    stream = settings.stream_of(record)
    return Event(known, stream, line.source, record.time, record.severity, numbers)


def _sessions(
    settings: LogSettings,
    tracker: Tracker,
    seen: list[tuple[Line, LogRecord, int]],
    aliases: dict[int, int],
) -> list[OpenSession]:
    """Sessions, in the order in which they were over."""
    session_of = settings.session_finder()
    over = []
    for line, record, template in seen:
        name = session_of(record)
        if name is not None:
            over += tracker.add(name, _root(template, aliases), line, record.time)
    over += tracker.close()
    if len(over) < _LEAST_SESSIONS:
        example = seen[0][1]
        has = (
            f"the first line has the fields {sorted(example.fields)}"
            if example.fields
            else (f"the first message is {example.body[:120]!r}")
        )
        raise ParameterError(
            f"session={settings.session!r} finds {len(over)} sessions in {len(seen)} lines, and "
            f"{_LEAST_SESSIONS} are needed; {has}. Give a field, or a regular expression that "
            f"finds the session in a message"
        )
    return over


def _root(template: int, aliases: dict[int, int]) -> int:
    while template in aliases:
        template = aliases[template]
    return template


def _in_order(
    seen: list[tuple[Line, LogRecord, int]],
) -> list[tuple[Line, LogRecord, int]]:
    """Sort the records of several sources by time; one without a time stays where it is."""
    latest: dict[str, int] = {}
    keys = []
    for line, record, _ in seen:
        latest[line.source] = max(latest.get(line.source, 0), record.time or 0)
        keys.append(latest[line.source])
    return [seen[i] for i in sorted(range(len(seen)), key=keys.__getitem__)]


def _format(settings: LogSettings, reader: Reader) -> str:
    """Format of the log, if all of it has one."""
    formats = reader.formats
    return formats.pop() if settings.format == "auto" and len(formats) == 1 else settings.format
