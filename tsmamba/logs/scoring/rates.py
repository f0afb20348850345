"""Lines per minute of each template: a burst."""

import math
from typing import Any

__all__ = ["Rates"]

_MINUTE = 60 * 10**9
# Bins of the logarithm of a count, four to a factor of e; the last holds 20,000 a minute and more.
_PER_E = 4.0
_BINS = 40
# Minutes before a count is judged.
_WARMUP = 30
# Minutes are halved here, so that old rates fade.
_CAP = 10_000
# A line that is so many minutes late is out of order; beyond, the clock was set back.
_LATE = 30
# A count beyond all that were seen costs as many nats for each bin in between.
_PER_BIN = 1.0


class _Rate:
    """Counts a minute of one template."""

    __slots__ = ("count", "first", "known", "minute", "next_bin", "seen", "total")

    def __init__(self, minute: int, first: int) -> None:
        self.minute = minute
        self.first = first
        self.count = 0
        self.seen = [0.0] * _BINS
        self.total = 0.0
        # Cost of the present bin, which holds as long as the count stays below the next one.
        self.known = 0.0
        self.next_bin = 0

    def close(self, minute: int) -> None:
        """Put the minute that is over into the histogram."""
        self.seen[_bin(self.count)] += 1.0
        self.total += 1.0
        self.minute = minute
        self.count = 0
        self.next_bin = 0
        if minute - self.first > _CAP:
            self.first = max(self.first + (minute - self.first) // 2, minute - _CAP)
            self.seen = [number / 2.0 for number in self.seen]
            self.total /= 2.0

    def set_back(self, minute: int) -> None:
        """Go on in a minute of the past, as if the clock had always been set so."""
        self.first -= self.minute - minute
        self.minute = minute
        self.count = 0
        self.next_bin = 0

    def cost(self) -> float:
        """Cost of the count of the present minute."""
        if self.count >= self.next_bin:
            index = _bin(self.count)
            self.known = self._cost(index)
            self.next_bin = math.ceil(math.exp((index + 1) / _PER_E))
        return self.known

    def _cost(self, index: int) -> float:
        minutes = self.minute - self.first
        if minutes < _WARMUP:
            return 0.0
        above = sum(self.seen[index:]) if index else self.total
        cost = math.log((minutes + 1.0) / (above + 1.0))
        if above > 0.0:
            return cost
        highest = next((i for i in range(index - 1, -1, -1) if self.seen[i] > 0.0), 0)
        return cost + _PER_BIN * (index - highest - 1)


class Rates:
    """Counts a minute of log time, each template by itself.

    Parameters
    ----------
    max_templates : int
        Templates that are followed; the one not seen for longest gives way.

    Examples
    --------
    >>> rates = Rates()
    >>> for minute in range(100):
    ...     _ = rates.score(5, minute * 60 * 10**9)
    >>> max(rates.score(5, 100 * 60 * 10**9 + i) for i in range(60)) > 15.0
    True
    """

    def __init__(self, max_templates: int = 8_192) -> None:
        self.max_templates = max_templates
        self._rates: dict[int, _Rate] = {}
        self._since: int | None = None

    def score(self, template: int, now: int) -> float:
        """Cost of the lines of a template in the present minute, this one included."""
        minute = now // _MINUTE
        if self._since is None:
            self._since = minute
        rate = self._rates.get(template)
        if rate is None:
            if len(self._rates) >= self.max_templates:
                oldest = min(self._rates, key=lambda name: self._rates[name].minute)
                del self._rates[oldest]
            # The minutes before, in which the log was seen and the template was not, count too.
            first = max(min(self._since, minute), minute - _CAP)
            rate = self._rates[template] = _Rate(minute, first)
        elif minute > rate.minute:
            rate.close(minute)
        elif minute < rate.minute - _LATE:
            rate.set_back(minute)
        rate.count += 1
        return rate.cost()

    def shift(self, by: int) -> None:
        """Move all times by so many nanoseconds, to the minute."""
        minutes = by // _MINUTE
        if self._since is not None:
            self._since += minutes
        for rate in self._rates.values():
            rate.minute += minutes
            rate.first += minutes

    def rename(self, old: int, new: int) -> None:
        """Forget a template that became another."""
        if old != new:
            self._rates.pop(old, None)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "max_templates": self.max_templates,
            "since": self._since,
            "rates": [
                [template, rate.minute, rate.first, rate.count, list(rate.seen)]
                for template, rate in self._rates.items()
            ],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Rates":
        """Build it again from :meth:`to_dict`."""
        new = cls(state["max_templates"])
        new._since = state["since"]
        for template, minute, first, count, seen in state["rates"]:
            rate = new._rates[template] = _Rate(minute, first)
            rate.count = count
            rate.seen, rate.total = list(seen), sum(seen)
        return new


def _bin(count: int) -> int:
    return _BIN_OF[count] if count < len(_BIN_OF) else min(_bin_of(count), _BINS - 1)


def _bin_of(count: int) -> int:
    return int(_PER_E * math.log(count)) if count else 0


# Most counts are small.
_BIN_OF = [_bin_of(count) for count in range(256)]
