"""Episodes: alerts that belong together, with a beginning, a peak and an end."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

import polars as pl
from sklearn.base import BaseEstimator

from tsmamba.anomaly.calibration.checks import check_count, check_number
from tsmamba.errors import ModelFileError, ParameterError

Time = int | datetime
_CLOSE_AT = 0.8
_TIMES = ("start", "end", "peak_time")


class EpisodeRule(BaseEstimator):
    """When an episode opens and when it closes, in scores whose alert threshold is 1.0.

    Parameters
    ----------
    open_at : float > 0, default 1.0
        Score that opens an episode.
    close_at : float in (0, open_at], optional
        Score below which an episode comes to its end. A gap between the two keeps a score that
        trembles around the threshold from being many episodes. It must be above usual scores, or an
        episode has no end: by default 0.8 of ``open_at``, or half way up to it from the usual score
        where a detector knows that and it is higher.
    min_duration : int >= 1, default 1
        Steps in a row at ``open_at`` or above that open an episode.
    cool_down : int >= 0, default 0
        Steps in a row below ``close_at`` that an episode outlasts, so that alerts with no more than
        these between them are one.
    n_channels : int >= 0, default 3
        Channels to name, those that contributed most.

    Examples
    --------
    >>> EpisodeRule(min_duration=3, cool_down=30)
    EpisodeRule(cool_down=30, min_duration=3)
    """

    def __init__(
        self,
        *,
        open_at: float = 1.0,
        close_at: float | None = None,
        min_duration: int = 1,
        cool_down: int = 0,
        n_channels: int = 3,
    ) -> None:
        self.open_at = open_at
        self.close_at = close_at
        self.min_duration = min_duration
        self.cool_down = cool_down
        self.n_channels = n_channels

    def check(self) -> None:
        """Refuse settings out of range, before any work.

        Raises
        ------
        ParameterError
            Naming the setting, what came and what is accepted.

        Examples
        --------
        >>> EpisodeRule(open_at=1.2).check()
        """
        check_number(self, "open_at", above=0)
        check_number(self, "close_at", above=0, optional=True)
        if self.close_at is not None and self.close_at > self.open_at:
            raise ParameterError(
                f"EpisodeRule: close_at={self.close_at:g} above open_at={self.open_at:g}; pass a "
                "close_at that is no greater"
            )
        check_count(self, "min_duration", least=1)
        check_count(self, "cool_down", least=0)
        check_count(self, "n_channels", least=0)

    def closing(self, usual: float = 0.0) -> float:
        """Return the score below which an episode comes to its end.

        Parameters
        ----------
        usual : float
            Score of a usual row.

        Returns
        -------
        float
            ``close_at``, if it is set.

        Examples
        --------
        >>> EpisodeRule().closing(), EpisodeRule().closing(usual=0.75)
        (0.8, 0.875)
        """
        if self.close_at is not None:
            return self.close_at
        half_way = min(self.open_at, (usual + self.open_at) / 2)
        return max(_CLOSE_AT * self.open_at, half_way)


def rule_for(rule: object) -> EpisodeRule:
    """Return the rule to use.

    Parameters
    ----------
    rule : EpisodeRule or None
        As given.

    Returns
    -------
    EpisodeRule

    Raises
    ------
    ParameterError
        If it is none, or one of its settings is out of range.

    Examples
    --------
    >>> rule_for(None)
    EpisodeRule()
    """
    if rule is None:
        return EpisodeRule()
    if not isinstance(rule, EpisodeRule):
        raise ParameterError(f"rule={rule!r}; pass an EpisodeRule or None")
    rule.check()
    return rule


@dataclass(frozen=True)
class Episode:
    """An episode, as far as it is known.

    Parameters
    ----------
    id : str
        Of key and first step: the same in every run over the same stream.
    start, end : int or datetime
        Time of its first step, and of its last one that was not below ``close_at``.
    peak_time : int or datetime
        Time of its greatest score, the first of equals.
    peak : float
        That score.
    n_steps : int
        Steps from start to end, both included, missing ones as well.
    channels : tuple of str
        Those that contributed most over its steps, first the greatest.
    """

    id: str
    start: Time
    end: Time
    peak_time: Time
    peak: float
    n_steps: int
    channels: tuple[str, ...] = ()


@dataclass(frozen=True)
class EpisodeEvent:
    """What has just become of an episode.

    Parameters
    ----------
    kind : {"open", "update", "close"}
        It has opened, gone on, or ended; the end of the episode is then before this step.
    episode : Episode
        As it is now.
    """

    kind: Literal["open", "update", "close"]
    episode: Episode


@dataclass
class _Run:
    """Steps that are an episode, or may become one."""

    first: int
    last: int
    start: Time
    end: Time
    peak: float
    peak_time: Time
    count: int = 0  # steps in a row at open_at or above, while it is not open
    low: int = 0  # steps in a row below close_at
    is_open: bool = False
    shares: dict[str, float] = field(default_factory=dict)

    def extend(
        self, score: float, time: Time, index: int, contributions: Mapping[str, float] | None
    ) -> None:
        """Take in a step that belongs to it."""
        self.last, self.end = index, time
        if score > self.peak:
            self.peak, self.peak_time = score, time
        for name, share in (contributions or {}).items():
            self.shares[name] = self.shares.get(name, 0.0) + float(share)


class EpisodeTracker:
    """Episodes of one stream, step by step, in memory that does not grow.

    Parameters
    ----------
    rule : EpisodeRule, optional
        When to open and to close.
    key : str, optional
        Name of the stream, for the ids.

    Raises
    ------
    ParameterError
        If a setting of the rule is out of range.

    Examples
    --------
    >>> tracker = EpisodeTracker(EpisodeRule(cool_down=1), key="pump")
    >>> for index, score in enumerate([0.2, 1.5, 0.3, 1.1, 0.2, 0.1]):
    ...     event = tracker.step(score, index=index)
    ...     print(score, event and (event.kind, event.episode.id, event.episode.n_steps))
    0.2 None
    1.5 ('open', 'pump-1', 1)
    0.3 ('update', 'pump-1', 1)
    1.1 ('update', 'pump-1', 3)
    0.2 ('update', 'pump-1', 3)
    0.1 ('close', 'pump-1', 3)
    """

    def __init__(self, rule: EpisodeRule | None = None, key: str | None = None) -> None:
        self.rule = rule_for(rule)
        self.key = key
        self._run: _Run | None = None

    @property
    def current(self) -> Episode | None:
        """The episode that is open, if one is."""
        run = self._run
        return self._episode(run) if run is not None and run.is_open else None

    def step(
        self,
        score: float | None,
        t: Time | None = None,
        index: int = 0,
        contributions: Mapping[str, float] | None = None,
    ) -> EpisodeEvent | None:
        """Take in the next step.

        Parameters
        ----------
        score : float, optional
            None or NaN where there is none: such a step opens and closes nothing.
        t : int or datetime, optional
            Its time; the index where there is no other.
        index : int
            Its number in the stream, rising.
        contributions : mapping of str to float, optional
            How much each channel contributed to the score.

        Returns
        -------
        EpisodeEvent or None
            None while no episode is open.
        """
        run = self._run
        if score is None or math.isnan(score):
            return EpisodeEvent("update", self._episode(run)) if run and run.is_open else None
        score, index = float(score), int(index)  # numbers of numpy are no JSON
        time = index if t is None else t if isinstance(t, datetime) else int(t)
        if run is None or not run.is_open:
            return self._closed_step(score, time, index, contributions)
        if score >= self.rule.closing():
            run.low = 0
            run.extend(score, time, index, contributions)
        else:
            run.low += 1
        if run.low <= self.rule.cool_down:
            return EpisodeEvent("update", self._episode(run))
        event = EpisodeEvent("close", self._episode(run))
        self._run = None
        return event

    def _closed_step(
        self, score: float, time: Time, index: int, contributions: Mapping[str, float] | None
    ) -> EpisodeEvent | None:
        """Take in a step while no episode is open."""
        if score < self.rule.open_at:
            self._run = None
            return None
        run = self._run
        if run is None:
            run = self._run = _Run(index, index, time, time, -math.inf, time)
        run.count += 1
        run.extend(score, time, index, contributions)
        if run.count < self.rule.min_duration:
            return None
        run.is_open = True
        return EpisodeEvent("open", self._episode(run))

    def _episode(self, run: _Run) -> Episode:
        prefix = "" if self.key is None else f"{self.key}-"
        ranked = sorted(run.shares, key=lambda name: (-run.shares[name], name))
        return Episode(
            f"{prefix}{run.first}",
            run.start,
            run.end,
            run.peak_time,
            run.peak,
            run.last - run.first + 1,
            tuple(ranked[: self.rule.n_channels]),
        )

    def state(self) -> dict[str, Any]:
        """Return what the next steps depend on, fit for JSON; times of day as ISO strings."""
        if self._run is None:
            return {"run": None}
        run = asdict(self._run)
        for name in _TIMES:
            if isinstance(run[name], datetime):
                run[name] = run[name].isoformat()
        return {"run": run}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state.

        Parameters
        ----------
        state : mapping
            What `state` gave.

        Raises
        ------
        ModelFileError
            If it is not one; the tracker then stays as it is.
        """
        try:
            run = None if state["run"] is None else _Run(**state["run"])
            for name in _TIMES if run is not None else ():
                value = getattr(run, name)
                if isinstance(value, str):
                    setattr(run, name, datetime.fromisoformat(value))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"state of an EpisodeTracker: {error}; pass what state() of one gave"
            ) from error
        if run is not None:
            run.shares = dict(run.shares)
        self._run = run


def episodes_of(
    scores: Iterable[float | None],
    times: Sequence[Time] | None = None,
    rule: EpisodeRule | None = None,
    key: str | None = None,
    contributions: Iterable[Mapping[str, float]] | None = None,
) -> list[Episode]:
    """Return the episodes of a whole stream: those that `EpisodeTracker` reports, step by step.

    Parameters
    ----------
    scores : iterable of float
        In the order of time; None or NaN where there is none.
    times : sequence of int or datetime, optional
        Their times; numbers of the steps without.
    rule : EpisodeRule, optional
        When to open and to close.
    key : str, optional
        Name of the stream, for the ids.
    contributions : iterable of mapping of str to float, optional
        How much each channel contributed to each score.

    Returns
    -------
    list of Episode
        In the order of time. The last one may still be open at the end.

    Raises
    ------
    ParameterError
        If a setting of the rule is out of range, or times or contributions do not match the scores.

    Examples
    --------
    >>> [(one.start, one.end, one.peak) for one in episodes_of([0.1, 1.2, 1.5, 0.9, 0.2, 2.0])]
    [(1, 3, 1.5), (5, 5, 2.0)]
    """
    tracker = EpisodeTracker(rule, key)
    listed = list(scores)
    stamps: Sequence[Time] = range(len(listed)) if times is None else times
    shares = [None] * len(listed) if contributions is None else list(contributions)
    for name, given in (("times", stamps), ("contributions", shares)):
        if len(given) != len(listed):
            raise ParameterError(
                f"{name}: {len(given)} for {len(listed)} scores; pass one for each score"
            )
    found = []
    for index, (score, t, share) in enumerate(zip(listed, stamps, shares, strict=True)):
        event = tracker.step(score, t, index, share)
        if event is not None and event.kind == "close":
            found.append(event.episode)
    return found if tracker.current is None else [*found, tracker.current]


def episode_frame(
    episodes: Iterable[Episode], time_dtype: pl.DataType | type[pl.DataType] = pl.Int64
) -> pl.DataFrame:
    """Return episodes as a frame, one row each.

    Parameters
    ----------
    episodes : iterable of Episode
        The episodes.
    time_dtype : polars data type, default Int64
        Of the times: that of the column they came from.

    Returns
    -------
    polars.DataFrame
        Columns ``id``, ``start``, ``end``, ``peak_time``, ``peak``, ``n_steps`` and ``channels``,
        the last one of lists.

    Examples
    --------
    >>> episode_frame(episodes_of([0.1, 1.2, 1.5, 0.2])).drop("channels").rows()
    [('1', 1, 2, 2, 1.5, 2)]
    """
    schema: dict[str, Any] = {
        "id": pl.String,
        "start": time_dtype,
        "end": time_dtype,
        "peak_time": time_dtype,
        "peak": pl.Float64,
        "n_steps": pl.Int64,
        "channels": pl.List(pl.String),
    }
    rows = [{**asdict(one), "channels": list(one.channels)} for one in episodes]
    return pl.DataFrame(rows, schema=schema)
