"""Whether alerts, or misses of intervals, come at the rate that was promised."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsmamba.errors import ParameterError
from tsmamba.health.monitor import Check, Monitor

__all__ = ["Bets", "CalibrationDrift"]

_FACTORS = (0.125, 0.25, 0.5, 1.25, 1.5, 2.0, 4.0, 8.0)
_MEMORY = 1_000  # values that the rate in the message is a mean of, roughly


class Bets:
    """Bets on other rates than those that are well, and what each has won.

    Each bet is the likelihood ratio of its rate and of the nearest rate that is well; started anew
    at each value, and summed, as in the test of Shiryaev and Roberts.

    Parameters
    ----------
    low, high : float in (0, 1)
        The rates between which all is well.

    Examples
    --------
    >>> bets = Bets(0.05, 0.15)
    >>> won = bets.start()
    >>> for _ in range(20):
    ...     won = bets.after(won, True)
    >>> bool(bets.evidence(won) > 1e6)
    True
    """

    def __init__(self, low: float, high: float) -> None:
        rates = [low * factor for factor in _FACTORS if factor < 1]
        rates += [min(high * factor, (high + 1) / 2) for factor in _FACTORS if factor > 1]
        rate = np.array(rates)
        null = np.where(rate < low, low, high)
        self._hit = rate / null
        self._miss = (1 - rate) / (1 - null)

    def start(self) -> NDArray[np.float64]:
        """Return the wins before the first value, zeros of shape (bets,)."""
        return np.zeros(self._hit.shape)

    def after(self, won: NDArray[np.float64], event: ArrayLike) -> NDArray[np.float64]:
        """Return the wins after one more value.

        Parameters
        ----------
        won : ndarray of shape (..., bets)
            Wins so far.
        event : bool or bool array of shape (...)
            Whether the value was an alert, or a miss.

        Returns
        -------
        ndarray of shape (..., bets)
        """
        wins: NDArray[np.float64] = (won + 1) * np.where(
            np.asarray(event)[..., None], self._hit, self._miss
        )
        return wins

    @staticmethod
    def evidence(won: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what all bets together have won, the mean of them."""
        evidence: NDArray[np.float64] = won.mean(axis=-1)
        return evidence


class CalibrationDrift(Monitor):
    """Whether p-values, or misses of intervals, still come at their nominal rate.

    A sequential test, which may be looked at after each value: while the rate is between the
    limits, whatever the past, the mean number of values up to a false alarm is at least
    ``run_length``, and the chance of one within n values at most ``n / run_length``. Once it has
    fired it says so until `reset`.

    Parameters
    ----------
    rate : float in (0, 1), default 0.1
        The nominal rate: that of p-values at or below it, or of intervals that miss, 0.1 for a
        level of 90.
    tolerance : float in [0, 1), default 0.2
        Part of the rate by which the true one may differ. Calibration on few data is never exact,
        and a test that runs for long finds every difference.
    run_length : float > 1, default 1,000,000
        Values up to a false alarm.
    every : int >= 1, default 1
        Count each n-th value only. The promise takes alerts that do not come in clusters; those of
        a score that looks back over m rows do, up to m rows long.
    reads : str, default "p_values"
        Keyword of `Health.observe`; "misses" for intervals.
    name : str, default "calibration"
        Name of the monitor.

    References
    ----------
    Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change
    detection", The New England Journal of Statistics in Data Science, 2024,
    doi:10.51387/23-NEJSDS51; the detector is their Shiryaev-Roberts one, with likelihood ratios of
    Bernoulli variables.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> drift = CalibrationDrift()
    >>> drift.observe(rng.uniform(size=5_000)).ok
    True
    >>> drift.observe(rng.uniform(size=500) ** 2).ok
    False
    """

    unit = "rate"
    _parts = ("won", "seen", "counted", "recent_rate", "fired_at")

    def __init__(
        self,
        rate: float = 0.1,
        *,
        tolerance: float = 0.2,
        run_length: float = 1_000_000,
        every: int = 1,
        reads: str = "p_values",
        name: str = "calibration",
    ) -> None:
        super().__init__(name, reads)
        high = rate * (1 + tolerance)
        if not (0 < rate < 1 and 0 <= tolerance < 1 and high < 1):
            raise ParameterError(
                f"{name}: rate={rate!r} and tolerance={tolerance!r}; pass a rate above 0 and a "
                "tolerance from 0, both below 1, with rate * (1 + tolerance) below 1"
            )
        if run_length <= 1 or every < 1:
            raise ParameterError(
                f"{name}: run_length={run_length!r} and every={every!r}; pass a run_length above 1 "
                "and 1 or more for every"
            )
        self.rate = rate
        self.limits = (rate * (1 - tolerance), high)
        self.run_length = run_length
        self.every = every
        self._bets = Bets(*self.limits)
        self.reset()

    def reset(self) -> None:
        """Begin anew, as after a fit or once the cause of an alarm is known."""
        self.won: list[float] = self._bets.start().tolist()
        self.seen = 0
        self.counted = 0
        self.recent_rate: float | None = None
        self.fired_at: int | None = None

    @property
    def evidence(self) -> float:
        """What speaks against the rate; it fires at ``run_length``."""
        return float(self._bets.evidence(np.array(self.won)))

    def observe(self, value: ArrayLike | Sequence[float | None]) -> Check:
        """Take in values in the order of time; chunks give what they give one by one.

        Parameters
        ----------
        value : array-like of p-values or of booleans
            P-values, of which those at or below ``rate`` count; or True where an interval missed.
            NaN and None, where there was no score, are passed over.

        Returns
        -------
        Check

        Raises
        ------
        ParameterError
            If a p-value is not between 0 and 1; nothing is then taken in.
        """
        events = self._events(value)
        first = -self.seen % self.every
        self.seen += len(events)
        self._count(events[first :: self.every])
        return self.check()

    def check(self) -> Check:
        """Return what is said now, without new values."""
        if self.recent_rate is None:
            return Check(self.name, None, self.limits, True, f"{self.reads}: nothing seen yet")
        low, high = self.limits
        message = (
            f"rate {self.recent_rate:.3g} of late, nominal {self.rate:.3g}, well from {low:.3g} to "
            f"{high:.3g}; evidence {self.evidence:.3g} of {self.run_length:.3g}"
        )
        if self.fired_at is not None:
            message += f", fired after {self.fired_at} values; reset() begins anew"
        return Check(self.name, self.recent_rate, self.limits, self.fired_at is None, message)

    def metrics(self) -> dict[str, float]:
        """Return the last check as numbers by name, and the evidence."""
        return super().metrics() | {f"{self.name}_evidence": self.evidence}

    def _events(self, value: Any) -> NDArray[np.bool_]:
        values = np.atleast_1d(np.asarray(value))
        if values.dtype == bool:
            return values
        p_values = values.astype(float)
        p_values = p_values[~np.isnan(p_values)]
        wrong = p_values[(p_values < 0) | (p_values > 1)]
        if wrong.size:
            raise ParameterError(
                f"{self.name}: {wrong[0]:g} is no p-value; pass numbers from 0 to 1, or booleans "
                "that are True where an interval missed"
            )
        events: NDArray[np.bool_] = p_values <= self.rate
        return events

    def _count(self, events: NDArray[np.bool_]) -> None:
        won = np.array(self.won)
        for event in events:
            self.counted += 1
            weight = 1 / min(self.counted, _MEMORY)
            self.recent_rate = (self.recent_rate or 0.0) * (1 - weight) + weight * bool(event)
            if self.fired_at is None:
                won = self._bets.after(won, event)
                if self._bets.evidence(won) >= self.run_length:
                    self.fired_at = self.counted
        self.won = won.tolist()
