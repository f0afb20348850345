"""The estimator: fit a log, score another one, or open a stream."""

import os
from typing import Any, Self

import polars as pl
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tsmamba.callbacks import observed
from tsmamba.errors import ParameterError
from tsmamba.logs.fitting import fitted_state
from tsmamba.logs.intake import LogSource
from tsmamba.logs.result import LogResult
from tsmamba.logs.saved import load_state, save_state
from tsmamba.logs.settings import LogSettings
from tsmamba.logs.stream import LogStream

__all__ = ["LogDetector"]

_TIME = pl.Datetime("ns", "UTC")
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "time": _TIME,
    "source": pl.String,
    "stream": pl.String,
    "line_no": pl.Int64,
    "severity": pl.String,
    "message": pl.String,
    "template_id": pl.Int64,
    "template": pl.String,
    "score": pl.Float64,
    "cost": pl.Float64,
    "p_value": pl.Float64,
    "is_anomaly": pl.Boolean,
    "reason": pl.String,
    "status": pl.String,
    "episode_id": pl.String,
    "event_id": pl.String,
}


class LogDetector(BaseEstimator):
    r"""Anomalies in logs: what is said, in which order, how often and with which numbers.

    Use it on logs of services and machines, line by line, or by session where a field or an
    identifier in the message tells which lines belong together. Learning and scoring take some
    thousand lines to be useful. Where nothing but new kinds of lines matters, a search for unseen
    templates does as well.

    Parameters
    ----------
    session : str, optional
        What tells sessions apart: the name of a field, or a regular expression that is searched in
        the message (its first group, if it has one), such as ``r"blk_-?\d+"``. Lines are scored
        by themselves without it.
    session_timeout : float or None, default 3600
        Seconds of log time without a line after which a session is over; None waits for the end.
    stream_by : tuple of str
        Fields that tell apart what writes into one log, such as ``("service",)``: the order of
        lines is that within a stream.
    false_alarm_rate : float, optional
        Share of normal records that may alert: 1e-5 of lines, 1e-3 of sessions by default.
    trim : float, optional
        Share of the training sessions that is left out, the rarest: 0.1 by default, because
        training logs hold anomalies. 0 says that the training log is clean and shows all that is
        normal; then counts that no session had weigh most.
    format : str
        ``"auto"``, ``"raw"``, ``"json"``, ``"logfmt"``, ``"syslog"``, ``"cri"``, ``"docker"``,
        ``"otlp"``.
    time_format : str, optional
        Format of strptime for time stamps; the usual ones are known.
    time_zone : str
        Zone of stamps that name none.
    multiline : str or None
        How the lines of a stack trace are joined: ``"auto"``, a regular expression that the first
        line of a record matches, or None.
    max_templates : int
        Bound on the number of templates.
    cool_down : float
        Seconds of log time without an alert after which an episode is over.
    network : {"mamba"}, optional
        Two small Mamba networks that read each session as well, when it is over: its templates one
        after the other, and the gaps between them where times are known. They tell single faults
        in the order of lines where the log stays as it was in :meth:`fit`, which trains them for
        some seconds. They do not learn on: where the habits of a log change, and in sessions of
        over a hundred lines, frequencies and n-grams alone told more. Without `session` they follow
        the lines of each stream as they come, with a threshold of their own, and a line takes twice
        as long; single faults in the order need a `false_alarm_rate` of about 1e-3.
    random_state : int, default 0
        Seed of the networks.

    Attributes
    ----------
    report_ : dict
        What was learned: lines, templates, sessions, formats, lines that did not fit, and in
        ``networks`` the seeds of the networks that are used (``kept``) and of those that came to
        nothing (``rejected``).

    Raises
    ------
    ParameterError
        If an argument or the log cannot be used.

    Examples
    --------
    >>> from tsmamba import LogDetector
    >>> usual = [f"job {i} done in {20 + i % 7} ms" for i in range(1_000)]
    >>> detector = LogDetector().fit(usual)
    >>> result = detector.score(["job 7 done in 22 ms", "disk failed", "job 8 done in 23 ms"])
    >>> result["is_anomaly"].to_list(), result["reason"][1]
    ([False, True, False], 'unseen_template')
    """

    def __init__(
        self,
        *,
        session: str | None = None,
        session_timeout: float | None = 3_600.0,
        stream_by: tuple[str, ...] = (),
        false_alarm_rate: float | None = None,
        trim: float | None = None,
        format: str = "auto",
        time_format: str | None = None,
        time_zone: str = "UTC",
        multiline: str | None = "auto",
        max_templates: int = 4_096,
        cool_down: float = 300.0,
        network: str | None = None,
        random_state: int = 0,
    ) -> None:
        self.session = session
        self.session_timeout = session_timeout
        self.stream_by = stream_by
        self.false_alarm_rate = false_alarm_rate
        self.trim = trim
        self.format = format
        self.time_format = time_format
        self.time_zone = time_zone
        self.multiline = multiline
        self.max_templates = max_templates
        self.cool_down = cool_down
        self.network = network
        self.random_state = random_state

    @observed
    def fit(self, source: LogSource, y: None = None) -> Self:
        """Learn what is usual.

        Parameters
        ----------
        source : path, list of paths, iterable of lines, or frame
            A frame has raw lines in ``line``, or a ``message`` or ``template``, the fields that
            `session` and `stream_by` name, and times in ``time``.
        y : None
            Ignored.

        Returns
        -------
        LogDetector
        """
        settings = LogSettings(**{**self.get_params(), "stream_by": _names(self.stream_by)})
        state = fitted_state(source, settings)
        self.report_ = state.pop("report")
        self._state = state
        return self

    def score(self, source: LogSource, *, learn: bool = True) -> pl.DataFrame:
        """Score a log from its first line to its end.

        Parameters
        ----------
        source : path, list of paths, iterable of lines, or frame
            As for :meth:`fit`.
        learn : bool, default True
            Whether what is usual is learned from on the way, as in a stream. False scores each
            session by the training log alone, so that their order does not matter.

        Returns
        -------
        polars.DataFrame
            A row for each line, or for each session when it was over; ``score`` is 1 at the alert
            threshold. Lines that did not come in time have a row as well, with the reason
            ``silence``.
        """
        return _frame(self._results(source, learn=learn))

    def explain(self, source: LogSource) -> pl.DataFrame:
        """Say what each score is made of.

        Parameters
        ----------
        source : path, list of paths, iterable of lines, or frame
            As for :meth:`fit`.

        Returns
        -------
        polars.DataFrame
            The columns of :meth:`score`, and one for each part. Of a line, each part is a cost in
            units of its threshold, and the highest is the score; of a session, the parts add up to
            the score.
        """
        results = self._results(source)
        names = sorted({name for result in results for name in result.parts})
        parts = {name: [result.parts.get(name, 0.0) for result in results] for name in names}
        return _frame(results).with_columns(
            pl.Series(name, values, dtype=pl.Float64) for name, values in parts.items()
        )

    def stream(self, *, learn: bool = True) -> LogStream:
        """Return a stream that starts from what was learned; streams know nothing of each other."""
        check_is_fitted(self, "_state")
        return LogStream(self._state, learn=learn)

    def templates(self) -> pl.DataFrame:
        """Return the templates of the training log: ``template_id`` and ``template``."""
        return pl.DataFrame(
            self.stream().templates(),
            schema={"template_id": pl.Int64, "template": pl.String},
            orient="row",
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, whole or not at all, without pickle.

        Parameters
        ----------
        path : str or path
            File.
        """
        check_is_fitted(self, "_state")
        save_state(path, {**self._state, "report": self.report_})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model.

        Parameters
        ----------
        path : str or path
            File that :meth:`save` or ``tsmamba logs fit`` wrote.

        Returns
        -------
        LogDetector

        Raises
        ------
        ModelFileError
            If it is missing, damaged, altered or too new.
        """
        state = load_state(path)
        settings = LogSettings.from_dict(state["settings"])
        new = cls(**{name: getattr(settings, name) for name in cls().get_params()})
        new.report_ = state.pop("report")
        new._state = state
        return new

    def _results(self, source: LogSource, *, learn: bool = True) -> list[LogResult]:
        return list(self.stream(learn=learn).results_of(source))


def _names(names: Any) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ParameterError(f"stream_by={names!r}: give names of fields, such as ('service',)")
    return tuple(names)


def _frame(results: list[LogResult]) -> pl.DataFrame:
    columns = {name: [getattr(result, name) for result in results] for name in _SCHEMA}
    times = pl.Series(columns.pop("time"), dtype=pl.Int64).cast(_TIME)
    frame = pl.DataFrame({"time": times, **columns}, schema_overrides=_SCHEMA)
    return frame.select(list(_SCHEMA))
