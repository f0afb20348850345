"""Forecast electric load that hangs on temperature and holidays, with and without knowing them.

Heating, cooling and holidays drive this hourly load, as in the state of Victoria. Both fits see one
year of it, and the eight weeks after that judge them. Temperatures ahead are the true ones here:
with those of a weather forecast the gain is less. Draws the last day into
`demo-output/covariates.png`; the picture needs `tsmamba[plot]`.
"""

# %%
import datetime as dt
import importlib.util
import os
from pathlib import Path

import numpy as np
import polars as pl

from tsmamba import MambaForecaster
from tsmamba.plotting import plot_forecast

HORIZON, TEST_DAYS, COVARIATES = 24, 8 * 7, ["temperature", "holiday"]
quick = os.environ.get("TSMAMBA_QUICK") == "1"  # a run of seconds, to see that it works


# %% Warm and cold spells last for days, so that yesterday's weather tells only half of today's.
def make_load(days: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    hours = np.arange(24 * days)
    spell = np.zeros(days)
    for day in range(1, days):
        spell[day] = 0.6 * spell[day - 1] + rng.normal(0, 3.5)
    holiday = np.repeat(rng.random(days) < 0.04, 24)
    day, year = 2 * np.pi * hours / 24, 2 * np.pi * hours / (365.25 * 24)
    weather = np.interp(hours / 24, np.arange(days) + 0.5, spell)
    temperature = 17 + 6 * np.cos(year) - 5 * np.cos(day - 1) + weather
    weekend = (hours // 24) % 7 >= 5
    load = 4.6 - 0.6 * np.cos(day - 0.8) - 0.3 * np.cos(2 * day) - 0.5 * (weekend | holiday)
    load += 0.06 * np.maximum(15 - temperature, 0) + 0.12 * np.maximum(temperature - 24, 0)
    first = dt.datetime(2024, 1, 1)
    last = first + dt.timedelta(hours=hours.size - 1)
    return pl.DataFrame(
        {
            "ds": pl.datetime_range(first, last, "1h", eager=True),
            "y": load + 0.05 * rng.normal(size=hours.size),
            "temperature": temperature,
            "holiday": holiday,
        }
    )


load = make_load(days=(120 if quick else 366) + TEST_DAYS)
train, test = load.head(-TEST_DAYS * 24), load.tail(TEST_DAYS * 24)

# %% Fit twice and score day by day, always 24 hours ahead; nothing is fitted to the last weeks.
forecasters = {
    "without covariates": MambaForecaster(HORIZON),
    "with covariates": MambaForecaster(HORIZON, future_covariates=COVARIATES),
}
for name, forecaster in forecasters.items():
    print(f"MASE {name:18}  {-forecaster.fit(train).score(test):.3f}")
known = forecasters["with covariates"]
print(f"effects {known.report_['effects']}")

# %% Forecast the last day as at midnight: take in what came, then add what is known ahead.
known.update(test.head(-HORIZON))
future = known.make_future_frame().join(load.select("ds", *COVARIATES), on="ds")
forecast = known.predict(future=future)

# %% Draw it, if matplotlib is there.
if importlib.util.find_spec("matplotlib"):
    picture = Path("demo-output") / "covariates.png"
    picture.parent.mkdir(exist_ok=True)
    plot_forecast(
        load.head(-HORIZON), forecast, truth=load.tail(HORIZON), history_steps=168, path=picture
    )
    print(f"wrote {picture}")
