"""The sets: where the series come from and where training, validation and test part.

The test part is the end of a series, the validation part lies before it, and the rest is for
training. Sizes are those of the literature, which every published table uses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import polars as pl

import tsmamba_datasets as datasets


class Naive2(NamedTuple):
    """Published errors of the seasonally adjusted naive forecast, the unit of OWA."""

    smape: float
    mase: float


@dataclass(frozen=True)
class ForecastSet:
    """One set of series and the protocol it is used with.

    Parameters
    ----------
    name : str
        As it stands in the tables.
    read : callable
        Gives the frame: columns "ds" and `targets`, and "unique_id" where there are several series.
    season : int
        Steps of the seasonal naive forecast and of CycleNet's cycle.
    validation_steps, test_steps : int
        Length of these parts in every series.
    targets : tuple of str, default ("y",)
        Columns to forecast; together they are the channels of one multivariate series.
    horizons : tuple of int
        Steps to forecast.
    lookbacks : tuple of int
        Steps of history that the baselines may see; networks use the last one, the exact linear
        models the one with the least error on the validation part.
    naive2 : Naive2, optional
        Where it is given, the errors of the M4 competition are computed, too.
    """

    name: str
    read: Callable[[], pl.DataFrame]
    season: int
    validation_steps: int
    test_steps: int
    targets: tuple[str, ...] = ("y",)
    horizons: tuple[int, ...] = (96, 192, 336, 720)
    lookbacks: tuple[int, ...] = (336, 512)
    naive2: Naive2 | None = None

    def n_windows(self, horizon: int, n_ids: int) -> int:
        """Return the number of test windows of a channel: all of them, one step apart.

        Examples
        --------
        >>> find_set("ETTh1").n_windows(96, n_ids=1)
        2785
        """
        return n_ids * (self.test_steps - horizon + 1)


_ETT = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
_EXCHANGE = (
    "australia",
    "britain",
    "canada",
    "switzerland",
    "china",
    "japan",
    "singapore",
    "new_zealand",
)
_ILLNESS = (
    "weighted_ili",
    "unweighted_ili",
    "age_0_4",
    "age_5_24",
    "ili_total",
    "num_providers",
    "OT",
)
_YEAR = 8_760  # hours


def _ett(name: str, rows: int) -> pl.DataFrame:
    """Twenty months of thirty days; the literature leaves the rest of the file unused."""
    return datasets.fetch_ett(name).head(rows)


def _m4() -> pl.DataFrame:
    train, test = datasets.fetch_m4_hourly()
    joined = pl.concat([train, test])
    return joined.sort(pl.col("unique_id").str.slice(1).cast(pl.Int64), "ds")


# Small sets first: a run goes through them in this order.
SETS = (
    ForecastSet(
        "ILI",
        datasets.fetch_national_illness,
        season=52,
        validation_steps=97,
        test_steps=193,
        targets=_ILLNESS,
        horizons=(24, 36, 48, 60),
        lookbacks=(104,),
    ),
    ForecastSet(
        "M4",
        _m4,
        season=24,
        validation_steps=96,
        test_steps=48,
        horizons=(48,),
        naive2=Naive2(smape=18.383, mase=2.395),
    ),
    ForecastSet(
        "Exchange",
        datasets.fetch_exchange_rate,
        season=1,
        validation_steps=760,
        test_steps=1_517,
        targets=_EXCHANGE,
    ),
    ForecastSet(
        "PM2.5",
        datasets.fetch_beijing_pm25,
        season=24,
        validation_steps=4_384,
        test_steps=8_764,
        targets=("pm2.5",),
    ),
    ForecastSet(
        "Victoria",
        datasets.fetch_vic_electricity,
        season=336,
        validation_steps=5_262,
        test_steps=10_521,
        targets=("Demand",),
    ),
    ForecastSet(
        "ETTh1",
        partial(_ett, "ETTh1", 14_400),
        season=24,
        validation_steps=2_880,
        test_steps=2_880,
        targets=_ETT,
    ),
    ForecastSet(
        "ETTh2",
        partial(_ett, "ETTh2", 14_400),
        season=24,
        validation_steps=2_880,
        test_steps=2_880,
        targets=_ETT,
    ),
    ForecastSet(
        "ETTm1",
        partial(_ett, "ETTm1", 57_600),
        season=96,
        validation_steps=11_520,
        test_steps=11_520,
        targets=_ETT,
    ),
    ForecastSet(
        "PJM",
        datasets.fetch_pjm_load,
        season=168,
        validation_steps=_YEAR,
        test_steps=_YEAR,
    ),
)


def find_set(name: str) -> ForecastSet:
    """Return the set of a name.

    Examples
    --------
    >>> find_set("ILI").horizons
    (24, 36, 48, 60)
    """
    return next(s for s in SETS if s.name == name)
