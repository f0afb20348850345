"""Whether a Mamba is the right tool for a frame of series, with which preset, and why."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tsmamba.data.panel import Panel, read_panel
from tsmamba.forecast.defaults import check_parameters, choose_season
from tsmamba.forecast.facts import Facts, examine

__all__ = ["Advice", "Facts", "advise", "choose_preset", "concern"]

_LEAST_STEPS = 512
_LONG = 8192
_STRONG_SEASON = 0.3
_HORIZONS_OF_A_HISTORY = 4  # blocks of the cross-validation of the base
_HORIZONS_TO_TRAIN = 32  # validation takes an eighth of each block
_HOUR, _DAY = 3600, 86_400
_MANY = 0.5  # of the series
_MANY_MISSING = 0.3
_MANY_SCALE_CHANGES = 0.1
_SHORT_GAP = 24
_WIDTH = 100
_INDENT = " " * 10


@dataclass(frozen=True)
class Advice:
    """An answer to whether a Mamba is the right tool here; print it, or take its fields.

    Parameters
    ----------
    facts : Facts
        What was measured.
    preset : str
        Name of the preset that fits.
    verdict : {"mamba", "linear", "naive"}
        The simplest forecaster that is likely to be as good as any.
    reasons : tuple of str
        Sentences; the first explains the verdict.
    expect : tuple of str
        Sentences on accuracy, time and memory.

    Examples
    --------
    >>> import polars as pl
    >>> print(advise(pl.DataFrame({"ds": range(100), "y": [5.0] * 100})).verdict)
    naive
    """

    facts: Facts
    preset: str
    verdict: str
    reasons: tuple[str, ...]
    expect: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types.

        Returns
        -------
        dict
            ``verdict``, ``preset``, ``reasons``, ``expect`` and ``facts``.

        Examples
        --------
        >>> import polars as pl
        >>> list(advise(pl.DataFrame({"ds": range(100), "y": [5.0] * 100})).to_dict())
        ['verdict', 'preset', 'reasons', 'expect', 'facts']
        """
        return {
            "verdict": self.verdict,
            "preset": self.preset,
            "reasons": list(self.reasons),
            "expect": list(self.expect),
            "facts": asdict(self.facts),
        }

    def __str__(self) -> str:
        blocks = [
            _block("verdict", [self.verdict]),
            _block("preset", [self.preset]),
            _block("because", self.reasons),
            _block("expect", self.expect),
            _block("facts", _lines(self.facts)),
        ]
        return "\n".join(blocks)


def advise(
    df: Any,
    horizon: int | None = None,
    *,
    target_col: str | Sequence[str] = "y",
    id_col: str = "unique_id",
    time_col: str = "ds",
    freq: str | int | None = None,
) -> Advice:
    """Look at a frame and say which kind of forecaster suits it; nothing is fitted.

    Of large frames 256 series, evenly spread, and the last 131,072 steps of each are looked at.

    Parameters
    ----------
    df : polars.DataFrame, polars.LazyFrame, pandas.DataFrame or pyarrow.Table
        One row for each series and stamp.
    horizon : int >= 1, optional
        Steps to forecast; without it the history is not judged against the horizon.
    target_col : str or sequence of str, default "y"
        Column of the values, or columns of a wide frame.
    id_col, time_col : str, default "unique_id" and "ds"
        Columns of the series id and the time stamp. Without the id column a frame is one series.
    freq : str or int, optional
        The step, such as "1h" or 1; found by default. "uneven" takes each row as a step, whatever
        its distance in time.

    Returns
    -------
    Advice
        Verdict, preset, reasons and facts.

    Raises
    ------
    HorizonError
        If the horizon is no whole number of at least 1.
    FrameError
        If the frame cannot be used as it is; a `FrequencyError` if its stamps are not on one
        regular grid.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> walk = np.random.default_rng(0).normal(size=1000).cumsum()
    >>> advice = advise(pl.DataFrame({"ds": range(1000), "y": walk}))
    >>> advice.verdict, advice.preset
    ('naive', 'finance')
    >>> advice.reasons[0]
    'The series looks like a random walk: its last value is hard to beat.'
    """
    check_parameters(horizon=horizon)
    panel = read_panel(df, id_col=id_col, time_col=time_col, target_col=target_col, freq=freq)
    facts = examine(panel, choose_season(panel))
    objections = list(_objections(facts, horizon))
    verdict, reason = objections[0] if objections else _by_length_and_season(facts)
    others = [sentence for _, sentence in objections[1:]]
    return Advice(
        facts=facts,
        preset=choose_preset(facts),
        verdict=verdict,
        reasons=(reason, *others, *_remarks(facts, horizon)),
        expect=_expect(verdict, facts),
    )


def choose_preset(facts: Facts) -> str:
    """Return the name of the preset that suits some facts.

    Parameters
    ----------
    facts : Facts
        What is known about the series.

    Returns
    -------
    str
        "finance" for random walks and for series that never change, "short" below 512 steps,
        "energy" for a day of steps of an hour or less on 8,192 steps and more, else "sensor".

    Examples
    --------
    >>> import polars as pl
    >>> panel = read_panel(pl.DataFrame({"ds": range(100), "y": range(100)}))
    >>> choose_preset(examine(panel, season=1))
    'short'
    """
    if _is_flat(facts) or _is_walk(facts):
        return "finance"
    if facts.longest < _LEAST_STEPS:
        return "short"
    step = facts.step_seconds
    daily = step is not None and step <= _HOUR and step * facts.season == _DAY
    if daily and facts.seasonal_strength >= _STRONG_SEASON and facts.length >= _LONG:
        return "energy"
    return "sensor"


def concern(panel: Panel, season: int, horizon: int) -> str | None:
    """Say in one sentence why a simpler model than a Mamba is the better choice.

    Parameters
    ----------
    panel : Panel
        The series.
    season, horizon : int
        Steps.

    Returns
    -------
    str or None
        None where nothing speaks against a Mamba.

    Examples
    --------
    >>> import polars as pl
    >>> concern(read_panel(pl.DataFrame({"ds": range(9), "y": [5] * 9})), season=1, horizon=2)
    'The series never changes: its last value is the forecast.'
    """
    return next((sentence for _, sentence in _objections(examine(panel, season), horizon)), None)


def _is_flat(facts: Facts) -> bool:
    return facts.constant_series > _MANY * facts.n_series


def _is_walk(facts: Facts) -> bool:
    return facts.random_walk > _MANY


def _objections(facts: Facts, horizon: int | None) -> Iterator[tuple[str, str]]:
    """Yield the simpler verdicts that the facts ask for, each with its reason, simplest first."""
    one = facts.n_series == 1
    if _is_flat(facts):
        who = (
            "The series never changes: its"
            if one
            else f"{facts.constant_series:,} of {facts.n_series:,} series never change: their"
        )
        yield "naive", f"{who} last value is the forecast."
    if _is_walk(facts):
        who = (
            "The series looks like a random walk: its"
            if one
            else f"{facts.random_walk:.0%} of the series look like random walks: their"
        )
        yield "naive", f"{who} last value is hard to beat."
    if facts.longest < _LEAST_STEPS:
        yield (
            "linear",
            f"{'The series' if one else 'The longest series'} has {facts.longest:,} steps, and "
            f"below {_LEAST_STEPS} there is nothing for a Mamba to learn.",
        )
    if horizon is not None and horizon * _HORIZONS_OF_A_HISTORY > facts.longest:
        yield (
            "linear",
            f"A horizon of {horizon:,} steps is more than a quarter of the history of "
            f"{facts.longest:,}: too little of it is left to prove a correction on.",
        )


def _by_length_and_season(facts: Facts) -> tuple[str, str]:
    """Return the verdict on series that no simple reason speaks against."""
    long, seasonal = facts.length >= _LONG, facts.seasonal_strength >= _STRONG_SEASON
    season = (
        f"a season of {facts.season} steps that explains {facts.seasonal_strength:.0%} of the "
        "variance around the trend"
    )
    if long and seasonal:
        return "mamba", (
            f"There are {facts.length:,} steps and {season}: long dependencies are what a Mamba is "
            "good at."
        )
    if long:
        return "mamba", (
            f"There are {facts.length:,} steps, so a Mamba can find what repeats over long spans, "
            "though no season stands out; where it does not help, its gate leaves it out."
        )
    if seasonal:
        return "mamba", (
            f"There is {season}; with {facts.length:,} steps, below {_LONG:,}, the gain over the "
            "linear base will be small."
        )
    return "linear", (
        f"There are {facts.length:,} steps, below {_LONG:,}, and no season stands out: a Mamba "
        "seldom adds to the linear base then."
    )


def _remarks(facts: Facts, horizon: int | None) -> Iterator[str]:
    """Yield what is worth knowing whatever the verdict."""
    held = facts.longest // horizon if horizon is not None else _HORIZONS_TO_TRAIN
    if facts.longest >= _LEAST_STEPS and _HORIZONS_OF_A_HISTORY <= held < _HORIZONS_TO_TRAIN:
        yield (
            f"{facts.longest:,} steps hold {held} horizons of {horizon:,}, fewer than "
            f"{_HORIZONS_TO_TRAIN}: mode='full' has no room to prove a corrector and leaves it out."
        )
    if facts.missing_share > _MANY_MISSING:
        yield (
            f"{facts.missing_share:.0%} of the steps are missing; they are filled from earlier "
            "seasons and never count as truth, but much of what a forecast sees is repetition."
        )
    if facts.longest_gap > max(facts.season, _SHORT_GAP):
        yield (
            f"The longest gap is {facts.longest_gap:,} steps, more than a season: forecasts that "
            "start soon after one are unsure."
        )
    if facts.scale_changes > _MANY_SCALE_CHANGES:
        yield (
            "The spread changes more than threefold between neighbouring windows in "
            f"{facts.scale_changes:.0%} of the cases: errors come in bursts."
        )
    if facts.shortest < _LEAST_STEPS <= facts.longest:
        yield (
            f"The shortest series has {facts.shortest:,} steps; it is forecast by what the others "
            "teach."
        )


def _expect(verdict: str, facts: Facts) -> tuple[str, ...]:
    """Return what a user may count on; see docs/presets.md for how times were measured."""
    accuracy = {
        "naive": "Point forecasts hardly better than the last value, with intervals that widen "
        "step by step.",
        "linear": "The linear base to be as good as a corrected forecast.",
        "mamba": "An error up to some percent below that of the linear base, which is strong "
        "itself; report_ tells what was gained.",
    }[verdict]
    effort = "A fit of less than a minute"
    if verdict == "mamba":
        effort += ", with mode='full' of some minutes"
    return accuracy, f"{effort}; {facts.memory_estimate / 1e9:.1f} GB of memory."


def _lines(facts: Facts) -> Iterator[str]:
    """Yield the facts for the eye."""
    span = f"{facts.longest:,}"
    if facts.shortest < facts.longest:
        span = f"{facts.shortest:,} to {facts.longest:,} (median {facts.length:,})"
    yield f"{facts.n_series:,} series of {span} steps of {facts.step}"
    yield (
        f"season of {facts.season} steps, strength {facts.seasonal_strength:.2f}"
        if facts.season > 1
        else "no season"
    )
    yield f"{facts.missing_share:.1%} of the steps missing, at most {facts.longest_gap:,} in a row"
    yield (
        f"{facts.scale_changes:.0%} changes of scale, {facts.random_walk:.0%} random walks, "
        f"{facts.constant_series:,} constant series"
    )


def _block(title: str, lines: Sequence[str] | Iterator[str]) -> str:
    """Return lines below each other, the title in front of the first."""
    wrapped = [
        textwrap.fill(line, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
        for line in lines
    ]
    return title.ljust(len(_INDENT)) + "\n".join(wrapped)[len(_INDENT) :]
