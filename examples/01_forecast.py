"""Forecast four days of hourly electric load from 8,192 hours of context.

Trains on PJM's eastern region up to the last year, forecasts 96 hours from many origins in that
year, compares with seasonal naive forecasts and with the model's own linear base, and writes
`demo-output/forecast.png` and `demo-output/metrics.json`.
"""

# %%
import json
import os
import resource
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from tsmamba import MambaForecaster, Training
from tsmamba.metrics import coverage, mase, naive_scale
from tsmamba.plotting import plot_forecast
from tsmamba_datasets import load_pjm_load

HORIZON, CONTEXT, TEST_HOURS = 96, 8192, 365 * 24
STEP = 25  # hours between origins: coprime to the day, so every hour of it is an origin
quick = os.environ.get("TSMAMBA_QUICK") == "1"  # a run of seconds, to see that it works
output = Path("demo-output")
output.mkdir(exist_ok=True)
console = Console()

# %% Fit on everything but the last year.
load = load_pjm_load().upsample("ds", every="1h").select(pl.all().forward_fill())
train = load.head(load.height - TEST_HOURS)
if quick:
    train = train.tail(12_000)
forecaster = MambaForecaster(
    horizon=HORIZON,
    context_length=CONTEXT,
    mode="full",
    training=Training(max_steps=5) if quick else None,
    random_state=0,
    verbose=1,
).fit(train)
report = forecaster.report_

# %% Forecast from many origins in the last year.
n_windows = (TEST_HOURS - HORIZON) // STEP + 1
settings = {"n_windows": n_windows, "step_size": STEP, "use_fitted": True}
result = forecaster.cross_validation(load, **settings)
base = forecaster.cross_validation(load, **settings, base_only=True)

# %% Compare. The scale of MASE is the seasonal naive error, one day back, in the training part.
scale = naive_scale(train["y"], 24)
truth, y = result["y"].to_numpy(), load["y"].to_numpy()
hour = (result["ds"] - load["ds"][0]).dt.total_hours().to_numpy()
ahead = (result["ds"] - result["cutoff"]).dt.total_hours().to_numpy()
naive = {f"seasonal naive {p}": y[hour - p * -(-ahead // p)] for p in (24, 168)}
forecasts = {
    "MambaForecaster": result["MambaForecaster"],
    "its linear base alone": base["MambaForecaster"],
    **naive,
}
errors = {name: mase(truth, forecast, scale) for name, forecast in forecasts.items()}
metrics = {
    "mase": errors["MambaForecaster"],
    "mase_seasonal_naive": min(errors[name] for name in naive),
    "mase_base": errors["its linear base alone"],
    "coverage_90": coverage(
        truth, result["MambaForecaster-lo-90"], result["MambaForecaster-hi-90"]
    ),
    "fit_seconds": report["seconds"],
    "windows_per_second": report["windows_per_second"],
    "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "context_length": forecaster.context_length_,
    "backend": report["backend"],
    "n_origins": n_windows,
}
table = Table("forecast", "MASE", "MAE in MW", title=f"{HORIZON} hours ahead, {n_windows} origins")
for name, error in sorted(errors.items(), key=lambda item: item[1]):
    table.add_row(name, f"{error:.3f}", f"{error * scale:,.0f}")
console.print(table)
console.print({name: metrics[name] for name in list(metrics)[3:]})

# %% Draw one forecast, from the origin whose error is the median.
per_origin = result.group_by("cutoff").agg(
    (pl.col("y") - pl.col("MambaForecaster")).abs().mean().alias("mae")
)
cutoff = per_origin.sort("mae")["cutoff"][len(per_origin) // 2]
window = result.filter(pl.col("cutoff") == cutoff)
history = load.filter(pl.col("ds") <= cutoff)
forecast = window.drop("cutoff", "y")
plot_forecast(
    history,
    forecast,
    truth=window.select("unique_id", "ds", "y"),
    history_steps=10 * 24,
    path=output / "forecast.png",
)
(output / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
console.print(f"wrote {output / 'forecast.png'} and {output / 'metrics.json'}")
