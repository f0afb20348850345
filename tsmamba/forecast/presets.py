"""Settings of the forecaster by kind of data, and when each is the right one."""

import difflib
from dataclasses import dataclass

from tsmamba.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What the forecaster uses for a kind of data where the user says nothing else.

    Parameters
    ----------
    name : str
        What ``preset=`` takes.
    context_length : int, optional
        Most steps of history that a forecast sees, as far as the data suffice for so many.
    patch_length : int, optional
        Steps of a token of the corrector; by the season if None, near 48.
    calendar : bool
        Whether it sees the phase of day, week and year, where stamps are dates.
    season_length : int, optional
        Season in steps; by the data if None.
    mode : {"fast", "full", "base"}
        What is fitted.
    why, when, when_not : str
        Reason for these settings, the data they are for, and the data they are not for.

    Examples
    --------
    >>> get_preset("energy").context_length
    8192
    """

    name: str
    context_length: int | None = None
    patch_length: int | None = None
    calendar: bool = True
    season_length: int | None = None
    mode: str = "fast"
    why: str
    when: str
    when_not: str


AUTO = Preset(
    name="auto",
    why="Context, patch and season follow from length, step and season of the data.",
    when="Whenever no other preset says more about your data.",
    when_not="Data that one of the others describes.",
)

_ALL = (
    Preset(
        name="sensor",
        context_length=4_096,
        why="Machines repeat themselves over hours and days, and single readings are wild: a long "
        "context and absolute error.",
        when="Readings of machines, weather or traffic at a regular step, thousands of them.",
        when_not="Readings that come only when something happens.",
    ),
    Preset(
        name="energy",
        context_length=8_192,
        why="Load follows the hour, the weekday and the time of the year: the longest context, "
        "the calendar, and tokens of whole seasons or halves of one, near 48 steps.",
        when="Loads, heat or traffic by the hour or finer, 8,192 steps and more.",
        when_not="Energy prices, whose peaks lie in no calendar.",
    ),
    Preset(
        name="logs",
        context_length=8_192,
        why="Counts come in bursts that squared errors would chase; absolute errors follow the "
        "middle. 8,192 minutes are five days.",
        when="Lines, requests or errors counted by the minute or the hour, zeros included.",
        when_not="The lines themselves, or counts that are nearly always zero.",
    ),
    Preset(
        name="ehr",
        context_length=168,
        patch_length=12,
        calendar=False,
        why="A stay is short and its dates are shifted: a week of hours, half a day a token, no "
        "calendar. What was not measured anew is carried forward. Events as they come have "
        "networks of their own, trained on all stays at once.",
        when="Vital signs and laboratory values of many patients: events as they come, or series "
        "on a grid of hours.",
        when_not="Few patients, or a label to predict rather than the next values.",
    ),
    Preset(
        name="finance",
        context_length=512,
        calendar=False,
        mode="base",
        why="Prices are near a random walk: the last value is hard to beat, and a network would "
        "learn noise. The linear base alone.",
        when="Prices and rates, for intervals more than for the point forecast.",
        when_not="Volumes and counts of trades: they have seasons, and sensor suits them.",
    ),
    Preset(
        name="short",
        mode="base",
        why="Below 512 steps there is nothing for a Mamba to learn: the linear base alone.",
        when="Series of less than 512 steps, such as twenty years of months.",
        when_not="Longer series, even if they are few.",
    ),
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in _ALL}


def get_preset(name: str) -> Preset:
    """Find a preset by its name.

    Parameters
    ----------
    name : str
        One of `PRESETS`.

    Returns
    -------
    Preset
        Its settings.

    Raises
    ------
    ParameterError
        If there is none of this name; the message lists them.

    Examples
    --------
    >>> get_preset("short").mode
    'base'
    """
    if name in PRESETS:
        return PRESETS[name]
    near = difflib.get_close_matches(str(name), PRESETS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ParameterError(f"preset={name!r}; pass one of {', '.join(map(repr, PRESETS))}{hint}")
