"""Tune context and training of a forecaster with Optuna, by cross-validation, within a time budget.

The two weeks before the last score each trial; the last week of this hourly electric load, which no
trial sees, tells whether the best settings are better than the default ones. Needs
`pip install "tsmamba[tune]"`.
"""

# %%
import os

import optuna
import polars as pl

from tsmamba import MambaForecaster, Training
from tsmamba.metrics import mase, naive_scale
from tsmamba_datasets import load_pjm_load

HORIZON, WEEK = 24, 7 * 24
quick = os.environ.get("TSMAMBA_QUICK") == "1"  # a run of seconds, to see that it works
optuna.logging.set_verbosity(optuna.logging.WARNING)

load = load_pjm_load().upsample("ds", every="1h").select(pl.all().forward_fill())
load = load.tail(120 * 24)
train = load.head(load.height - WEEK)
scale = naive_scale(train["y"], WEEK)


# %% A trial is a fit before the scored days, of a few seconds at most.
def score(settings: dict, df: pl.DataFrame, days: int) -> float:
    training = Training(max_time=1 if quick else 3)
    forecaster = MambaForecaster(horizon=HORIZON, mode="full", training=training, random_state=0)
    forecaster.set_params(**settings)
    result = forecaster.cross_validation(df, n_windows=days)
    return mase(result["y"], result["MambaForecaster"], scale)


def objective(trial: optuna.Trial) -> float:
    settings = {
        "context_length": trial.suggest_categorical("context_length", [WEEK, 2 * WEEK, 4 * WEEK]),
        "training__lr": trial.suggest_float("training__lr", 3e-4, 1e-2, log=True),
        "training__max_steps": trial.suggest_int("training__max_steps", 50, 400, log=True),
    }
    return score(settings, train, days=14)


# %% Search. The time ends it after the trial that is under way.
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(objective, n_trials=1 if quick else 12, timeout=20)

best = ", ".join(f"{name}={value:.3g}" for name, value in study.best_params.items())
print(f"{len(study.trials)} trials, best MASE {study.best_value:.3f} with {best}")

# %% Compare on the last week.
for name, settings in {"default": {}, "tuned": study.best_params}.items():
    print(f"MASE of the last week, {name:7}  {score(settings, load, days=7):.3f}")
