"""The contestants, cheap ones first."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.forecast.models.contestant import Contestant
from benchmarks.forecast.models.cyclenet import cyclenet
from benchmarks.forecast.models.itransformer import itransformer
from benchmarks.forecast.models.linear import linear
from benchmarks.forecast.models.lstm import lstm
from benchmarks.forecast.models.patchtst import patchtst
from benchmarks.forecast.models.rlinear import rlinear
from benchmarks.forecast.models.seasonal_naive import SeasonalNaive
from benchmarks.forecast.models.tsmamba import Tsmamba


@dataclass(frozen=True)
class Entry:
    """A contestant by name.

    Parameters
    ----------
    make : callable
        Gives an unfitted one.
    random : bool, default True
        Whether seeds matter; one that is not random runs with the first seed only.
    """

    make: Callable[[], Contestant]
    random: bool = True


CONTESTANTS = {
    "seasonal naive": Entry(SeasonalNaive, random=False),
    "Linear": Entry(linear, random=False),
    "RLinear": Entry(rlinear, random=False),
    "tsmamba (base)": Entry(partial(Tsmamba, "base"), random=False),
    "tsmamba (fast)": Entry(partial(Tsmamba, "fast"), random=False),
    "CycleNet": Entry(cyclenet),
    "iTransformer": Entry(itransformer),
    "LSTM": Entry(lstm),
    "tsmamba (full)": Entry(partial(Tsmamba, "full")),
    "PatchTST": Entry(patchtst),
}
