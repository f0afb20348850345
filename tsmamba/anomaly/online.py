"""Scores from statistics that learn from every row: ranks of what is new in it."""

import copy
from dataclasses import dataclass
from math import isnan

import numpy as np

from tsmamba.anomaly.fusion import TOP_CHANNELS, contributions
from tsmamba.anomaly.plan import Plan
from tsmamba.anomaly.ranks import Ranks
from tsmamba.anomaly.recursive import RecursiveRegression
from tsmamba.anomaly.trail import Trail
from tsmamba.anomaly.windows import windows_of

Arrays = dict[str, np.ndarray]

# Values that a rank is among, and rows in which the nearest patch is looked for.
_RANKED = 8_000
_TRAIL = 4_000
_PATCH = 8
_ORDER = 24
_LEVEL_ROWS = 60
_STATISTICS = 4
# Large surprises count more than their share, and still several count more than one.
_POWER = 1.5
# Rows in which only a higher score is another alert. What is no record counts half: no surprise is
# above log10(8,001) = 3.9, so none there reaches the least threshold.
_QUIET_ROWS = 150
_QUIET = 0.5
_LEAST_THRESHOLD = 2.0

ONLINE = Plan(period=1, width=1, order=_ORDER)


class OnlineChannel:
    """Statistics of one channel."""

    def __init__(self) -> None:
        self._trail = Trail(_TRAIL, _PATCH)
        self._regression = RecursiveRegression(_ORDER)
        self._ranks = [Ranks(_RANKED) for _ in range(_STATISTICS)]
        self._since = 0  # rows since the start, or since a gap that left nothing of the past
        self._gone = 0  # rows missing before the next

    def step(self, value: float) -> float:
        """Take in a row.

        Parameters
        ----------
        value : float
            Standardised; NaN where missing.

        Returns
        -------
        float
            Surprise: the power mean of -log10 of four p-values; 0 for what is missing.
        """
        if isnan(value):
            self._miss()
            return 0.0
        self._gone = 0
        self._since = min(self._since + 1, _LEVEL_ROWS)
        total = sum(surprise**_POWER for surprise in self._surprises(value))
        return float((total / _STATISTICS) ** (1 / _POWER))

    def _miss(self) -> None:
        """Let time go by as expected, until the gap is as long as any look back."""
        self._gone = min(self._gone + 1, _LEVEL_ROWS)
        if self._gone == _LEVEL_ROWS:
            self._since = 0
        elif len(self._trail):
            self._trail.append(self._expected())
            self._since = min(self._since + 1, _LEVEL_ROWS)

    def _expected(self) -> float:
        """Return the forecast, no farther out than the rows before; the last one without."""
        past = self._trail.newest(_ORDER)
        if self._since < _ORDER:
            return float(past[-1])
        return float(np.clip(self._regression.forecast(past), past.min(), past.max()))

    def _surprises(self, value: float) -> list[float]:
        """Return what the statistics say that have rows enough."""
        levels, residuals, means, novelties = self._ranks
        trail = self._trail
        out = [levels.surprise(value, two_sided=True)]
        if self._since > _ORDER:
            residual = self._regression.residual(trail.newest(_ORDER), value)
            out.append(residuals.surprise(abs(residual)))
        trail.append(value)
        if self._since == _LEVEL_ROWS:
            mean = np.add.reduce(trail.newest(_LEVEL_ROWS)) / _LEVEL_ROWS
            out.append(means.surprise(mean, two_sided=True))
        if self._since >= _PATCH:
            novelty = trail.novelty()
            if novelty is not None:
                out.append(novelties.surprise(novelty))
        return out

    def arrays(self) -> Arrays:
        """Return the state as arrays, whose shapes never change."""
        ranks = np.full((_STATISTICS, _RANKED), np.nan, dtype=np.float32)
        for row, each in zip(ranks, self._ranks, strict=True):
            values = each.values()
            row[: len(values)] = values
        return {
            "trail": self._trail.array(),
            "weights": self._regression.weights,
            "covariance": self._regression.covariance,
            "ranks": ranks,
            "ages": np.array([self._since, self._gone]),
        }

    @classmethod
    def restored(cls, arrays: Arrays) -> "OnlineChannel":
        """Make the channel again that the arrays are of.

        Parameters
        ----------
        arrays : dict of str to ndarray
            What `arrays` gave.

        Returns
        -------
        OnlineChannel
        """
        channel = cls()
        channel._trail = Trail.restored(arrays["trail"], _PATCH)
        channel._regression.weights = arrays["weights"].copy()
        channel._regression.covariance = np.array(arrays["covariance"], order="F")
        channel._ranks = [Ranks(_RANKED, row[~np.isnan(row)]) for row in arrays["ranks"]]
        channel._since, channel._gone = (int(n) for n in arrays["ages"])
        return channel


@dataclass
class OnlineState:
    """What the score of the next row depends on.

    Parameters
    ----------
    channels : list of OnlineChannel
        Their statistics.
    scores : ndarray of shape (n,)
        The last scores, as many as one must be above to be a record.
    """

    channels: list[OnlineChannel]
    scores: np.ndarray

    @classmethod
    def fresh(cls, n_channels: int) -> "OnlineState":
        """Return the state before any row."""
        return cls([OnlineChannel() for _ in range(n_channels)], np.zeros(_QUIET_ROWS - 1))

    def arrays(self) -> Arrays:
        """Return the state as arrays, whose shapes never change."""
        parts = [channel.arrays() for channel in self.channels]
        return {name: np.stack([part[name] for part in parts]) for name in parts[0]} | {
            "scores": self.scores
        }

    @classmethod
    def restored(cls, arrays: Arrays) -> "OnlineState":
        """Make the state again that the arrays are of, bit for bit.

        Parameters
        ----------
        arrays : dict of str to ndarray
            What `arrays` gave.

        Returns
        -------
        OnlineState
        """
        parts = {name: part for name, part in arrays.items() if name != "scores"}
        channels = [
            OnlineChannel.restored({name: part[i] for name, part in parts.items()})
            for i in range(len(parts["ages"]))
        ]
        return cls(channels, arrays["scores"].copy())


class OnlineScorer:
    """How rare the newest row is among all rows before it, and whether anything rarer is near.

    Four statistics of each channel are ranked among thousands of earlier ones: the value, the
    residual of an autoregression, the mean of the last rows, and the distance to the nearest
    earlier patch. All of them learn from every row. Streams go on from the state of the fit.

    Parameters
    ----------
    fitted : OnlineState
        After the rows of the fit.
    """

    plan = ONLINE
    warm_up = 0
    reach = 0
    past = max(_LEVEL_ROWS, _QUIET_ROWS)

    def __init__(self, fitted: OnlineState) -> None:
        self.fitted = fitted

    @classmethod
    def of(cls, rows: np.ndarray) -> tuple["OnlineScorer", np.ndarray]:
        """Learn from a series.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_channels)
            Standardised, NaN where missing.

        Returns
        -------
        scorer : OnlineScorer
        surprises : ndarray of shape (n_rows, n_channels)
            Of these rows, each compared with those before it.
        """
        state = OnlineState.fresh(rows.shape[1])
        surprises = _advance([state], rows[None])[0]
        return cls(state), surprises

    def arrays(self) -> list[np.ndarray]:
        """Return all numbers that scores depend on."""
        return list(self.fitted.arrays().values())

    def start(self) -> OnlineState:
        """Return the state after the fit, for one more stream."""
        return copy.deepcopy(self.fitted)

    def restored(self, arrays: Arrays) -> OnlineState:
        """Make a state again of its arrays."""
        return OnlineState.restored(arrays)

    def advance(self, states: list[OnlineState], rows: np.ndarray) -> np.ndarray:
        """Score as many rows of each of some streams, and move the states past them.

        Parameters
        ----------
        states : list of OnlineState
            One a stream, changed in place.
        rows : ndarray of shape (n_streams, n_rows, n_channels)
            Standardised, NaN where missing.

        Returns
        -------
        ndarray of the same shape
            Surprise by channel.
        """
        return _advance(states, rows)

    def sparse(self, absent: np.ndarray, n: int, usual: np.ndarray) -> np.ndarray:
        """Tell where a channel says nothing: where its value is missing."""
        return absent[..., -n:, :]


def _advance(states: list[OnlineState], rows: np.ndarray) -> np.ndarray:
    n, channels = rows.shape[1:]
    surprises = np.empty(rows.shape)
    for state, columns, out in zip(states, rows.swapaxes(1, 2).tolist(), surprises, strict=True):
        for i, (channel, column) in enumerate(zip(state.channels, columns, strict=True)):
            out[:, i] = [channel.step(value) for value in column]
    before = np.array([state.scores for state in states])
    scores = np.concatenate([before, contributions(surprises).sum(axis=-1)], axis=1)
    for state, last in zip(states, scores[:, n:], strict=True):
        state.scores = last.copy()
    highest = windows_of(scores[..., None], _QUIET_ROWS)[:, 0].max(axis=-1)
    record = scores[:, _QUIET_ROWS - 1 :] >= highest
    quiet = _QUIET / min(channels, TOP_CHANNELS)
    return surprises * np.where(record, 1.0, quiet)[..., None]


def least_threshold(n_channels: int) -> float:
    """Return the lowest threshold of an alert: one channel alone may reach it.

    Parameters
    ----------
    n_channels : int
        Of the series.

    Returns
    -------
    float

    Examples
    --------
    >>> least_threshold(1), least_threshold(2)
    (2.0, 1.0)
    """
    return _LEAST_THRESHOLD / min(n_channels, TOP_CHANNELS)
