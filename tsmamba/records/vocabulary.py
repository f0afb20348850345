"""Which codes a model reads, and the scale of each."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from tsmamba.records.events import Events

__all__ = ["Scale", "Static", "Vocabulary"]

_CLIP = 0.001
# A code that is rarer than in one of a hundred stays teaches nothing.
_LEAST_SHARE = 0.01
_STATIC_SHARE = 0.99
_MOST_CATEGORIES = 10
# Of a skewed quantity the logarithm is taken where that leaves less than half of the skew.
_SKEWED = 0.5


@dataclass(frozen=True)
class Scale:
    """How the values of a code become numbers around zero.

    Parameters
    ----------
    low, high : float
        What lies beyond is clipped: the .1 and 99.9 % quantiles.
    log : bool
        Whether ``log1p`` follows, as for skewed quantities.
    mean, sd : float
        Of the result, for its standardisation.
    """

    low: float
    high: float
    log: bool
    mean: float
    sd: float

    @classmethod
    def of(cls, values: np.ndarray) -> "Scale":
        """Measure the scale of some values, shape (n,), n >= 1."""
        low, high = np.quantile(values, [_CLIP, 1 - _CLIP])
        clipped = np.clip(values, low, high)
        log = False
        if low >= 0:
            log = bool(abs(_skew(np.log1p(clipped))) < _SKEWED * abs(_skew(clipped)))
        scaled = np.log1p(clipped) if log else clipped
        sd = float(scaled.std())
        return cls(float(low), float(high), log, float(scaled.mean()), sd if sd > 0 else 1.0)

    @property
    def usual(self) -> float:
        """The value that becomes zero."""
        return float(np.expm1(self.mean)) if self.log else self.mean

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Standardise values."""
        clipped = np.clip(values, self.low, self.high)
        scaled: np.ndarray = ((np.log1p(clipped) if self.log else clipped) - self.mean) / self.sd
        return scaled

    def undo(self, scaled: np.ndarray) -> np.ndarray:
        """Return values from standardised ones, within what was seen."""
        values = scaled * self.sd + self.mean
        if self.log:
            # Where the exponential would overflow, the bound holds anyway.
            values = np.expm1(np.minimum(values, np.log1p(self.high)))
        kept: np.ndarray = np.clip(values, self.low, self.high)
        return kept


@dataclass(frozen=True)
class Static:
    """A code that stands once, at the start of a stay: age, sex, ward.

    Parameters
    ----------
    scale : Scale
        Of its values.
    categories : tuple of float
        The values themselves where they are a few whole numbers; each has a place of its own.
    """

    scale: Scale
    categories: tuple[float, ...]

    @property
    def width(self) -> int:
        """Features it makes: one for each category, or value and whether it is there."""
        return len(self.categories) or 2

    def features(self, values: np.ndarray) -> np.ndarray:
        """Return the features, (n, width), of the values of stays, (n,), NaN where missing."""
        if self.categories:
            same: np.ndarray = values[:, None] == np.array(self.categories)
            return same.astype(np.float32)
        missing = np.isnan(values)
        scaled = np.where(missing, 0.0, self.scale(values))
        features: np.ndarray = np.stack([scaled, missing], 1)
        return features.astype(np.float32)


@dataclass(frozen=True)
class Vocabulary:
    """The codes a model reads.

    Parameters
    ----------
    codes : dict of str to Scale
        Measured again and again.
    statics : dict of str to Static
        Known at the start.
    """

    codes: dict[str, Scale]
    statics: dict[str, Static]

    @classmethod
    def learn(cls, events: Events, max_codes: int) -> "Vocabulary":
        """Find the codes in training stays.

        Parameters
        ----------
        events : Events
            Cleaned.
        max_codes : int
            So many codes are kept, those of most stays.

        Returns
        -------
        Vocabulary
            Codes by name.
        """
        about = (
            events.rows.group_by("stay", "code")
            .agg(pl.len() == 1, first=pl.col("time").min() == 0.0)
            .group_by("code")
            .agg(pl.len().alias("stays"), once=(pl.col("len") & pl.col("first")).mean())
            .filter(pl.col("stays") >= _LEAST_SHARE * len(events.ids))
            .sort(["stays", "code"], descending=[True, False])
            .head(max_codes)
            .sort("code")
        )
        values = {
            str(code): part["value"].to_numpy()
            for (code,), part in events.rows.group_by("code")
            if code in set(about["code"])
        }
        once = set(about.filter(pl.col("once") >= _STATIC_SHARE)["code"])
        names = about["code"].to_list()
        return cls(
            {code: Scale.of(values[code]) for code in names if code not in once},
            {code: _static(values[code]) for code in names if code in once},
        )

    @property
    def static_width(self) -> int:
        """Number of features of what is static."""
        return sum(static.width for static in self.statics.values())

    def static_features(self, events: Events) -> np.ndarray:
        """Return the features of each stay, shape (n, static_width), float32."""
        parts = [np.zeros((len(events.ids), 0), np.float32)]
        for code, static in self.statics.items():
            # What comes later would change tokens that a stream has already answered on.
            here = (pl.col("code") == code) & (pl.col("time") == 0.0)
            rows = events.rows.filter(here).unique("stay", keep="first", maintain_order=True)
            values = np.full(len(events.ids), np.nan)
            values[rows["stay"].to_numpy()] = rows["value"].to_numpy()
            parts.append(static.features(values))
        return np.concatenate(parts, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Vocabulary":
        """Undo `to_dict`."""
        return cls(
            {code: Scale(**scale) for code, scale in state["codes"].items()},
            {
                code: Static(Scale(**static["scale"]), tuple(static["categories"]))
                for code, static in state["statics"].items()
            },
        )


def _static(values: np.ndarray) -> Static:
    kinds = np.unique(values)
    whole = len(kinds) <= _MOST_CATEGORIES and bool((kinds == np.round(kinds)).all())
    return Static(Scale.of(values), tuple(map(float, kinds)) if whole else ())


def _skew(values: np.ndarray) -> float:
    away = values - values.mean()
    sd = away.std()
    return float((away**3).mean() / sd**3) if sd > 0 else 0.0
