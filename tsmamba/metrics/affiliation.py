"""Affiliation: how near alerts and events are to each other, against alerts at random."""

import numpy as np
from numpy.typing import ArrayLike

from tsmamba.metrics.checks import check_marks, check_pair
from tsmamba.metrics.detection import Found
from tsmamba.metrics.ranges import ranges_of

# Probabilities are linear in time between quarters of a step: zones end on halves, the middle
# between two alerts or between an alert and the end of a zone lies on quarters. So their means over
# the middles of all quarters are exact integrals over continuous time.
_CELLS = 4


def affiliation(labels: ArrayLike, alerts: ArrayLike) -> Found:
    """Precision and recall by distance in time, scaled so that a random alert gets a half.

    Time is cut in one zone for each event, half-way between events, and each zone is judged alone.
    Precision of a zone: how likely a point drawn at random in the zone is farther from the event
    than an alerted point is, on average over the alerted points. Recall of a zone: how likely a
    random point is farther from a point of the event than the nearest alert is, on average over
    the event. Inside the event, or under an alert, the likelihood is 1. Zones count alike, however
    long; a zone without alert has no precision and a recall of 0.

    Use it for alerts at a threshold that was fixed before, where alerts near an event are of use:
    it asks for no tolerance to be chosen. Report precision and recall, not F1 alone: alerts on
    every step, or many at random, get a precision of about a half and a recall near 1, so an F1 of
    two thirds, as much as a detector that finds half of the events to the step.

    Parameters
    ----------
    labels : array-like of shape (T,)
        1 inside events and 0 elsewhere; at least one 1.
    alerts : array-like of shape (T,)
        1 where there is an alert.

    Returns
    -------
    Found
        ``precision``, NaN where there was no alert, ``recall`` and ``f1``, from 0 to 1.

    Raises
    ------
    ParameterError
        If arrays do not fit each other, hold anything but 0 and 1, or no step is labelled.

    References
    ----------
    Huet, Navarro and Rossi, "Local evaluation of time series anomaly detection algorithms", 2022.

    Examples
    --------
    >>> labels = np.arange(100) == 50
    >>> near, far = np.arange(100) == 53, np.arange(100) == 90
    >>> round(affiliation(labels, near).precision, 2), round(affiliation(labels, far).precision, 2)
    (0.94, 0.2)
    """
    fired = check_marks(alerts, "alerts")
    marks = check_pair(labels, fired, "alerts")
    if not fired.any():
        return Found(float("nan"), 0.0, 0.0)
    zones, cells = _Zones(marks), np.repeat(fired, _CELLS)
    precision = float(np.nanmean(zones.precisions(cells)))
    recall = float(zones.recalls(cells).mean())
    return Found(precision, recall, 2 * precision * recall / (precision + recall))


class _Zones:
    """One zone of time for each event; all positions are in cells of a quarter of a step."""

    def __init__(self, marks: np.ndarray) -> None:
        events = ranges_of(marks)
        self.starts = events.starts * _CELLS
        self.stops = (events.ends + 1) * _CELLS
        middles = (self.stops[:-1] + self.starts[1:]) // 2
        self.firsts = np.append(0, middles)
        self.lasts = np.append(middles, len(marks) * _CELLS)
        self.marks = np.repeat(marks, _CELLS)

    def _of(self, cells: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.firsts, cells, side="right") - 1

    def _means(self, zone: np.ndarray, chances: np.ndarray) -> np.ndarray:
        """Mean of the cells of each zone, NaN where there is none."""
        counts = np.bincount(zone, minlength=len(self.starts)).astype(float)
        counts[counts == 0] = np.nan
        means: np.ndarray = np.bincount(zone, chances, minlength=len(self.starts)) / counts
        return means

    def precisions(self, fired: np.ndarray) -> np.ndarray:
        """How likely points of a zone are farther from its event than its alerts are."""
        cells = np.flatnonzero(fired)
        zone, t = self._of(cells), cells + 0.5
        start, stop, first, last = (
            bound[zone] for bound in (self.starts, self.stops, self.firsts, self.lasts)
        )
        distance = np.maximum(np.maximum(start - t, t - stop), 0)
        nearer = np.minimum(distance, start - first) + np.minimum(distance, last - stop)
        chances = 1 - (stop - start + nearer) / (last - first)
        return self._means(zone, np.where(distance > 0, chances, 1.0))

    def recalls(self, fired: np.ndarray) -> np.ndarray:
        """How likely points of a zone are farther from points of its event than an alert is."""
        cells = np.flatnonzero(self.marks)
        zone, t = self._of(cells), cells + 0.5
        first, last = self.firsts[zone], self.lasts[zone]
        alerts = np.flatnonzero(fired)
        after = np.searchsorted(alerts, cells)
        following = np.append(alerts, self.lasts[-1])[after]
        preceding = np.append(-1, alerts)[after]
        to_following = np.where(following < last, following - t, np.inf)
        to_preceding = np.where(preceding >= first, t - preceding - 1, np.inf)
        distance = np.minimum(to_following, to_preceding)
        nearer = np.minimum(t + distance, last) - np.maximum(t - distance, first)
        return self._means(zone, np.where(distance > 0, 1 - nearer / (last - first), 1.0))
