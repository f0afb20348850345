"""Log a forecaster to MLflow, register it, load it by its alias and ask it as a service would.

Everything lies in a temporary folder: a store on SQLite, and the artifacts. With a server, give its
address to `mlflow.set_tracking_uri` instead. Needs `tsmamba[mlflow]`.
"""

# %%
import os
import tempfile
from pathlib import Path

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

import mlflow
import polars as pl

import tsmamba.mlflow
from tsmamba import MambaForecaster
from tsmamba_datasets import load_pjm_load

HORIZON = 24

# %% Fit on half a year of hourly load, and keep a week to judge by.
load = load_pjm_load().tail(180 * 24)
train, test = load.head(-7 * 24), load.tail(7 * 24)
forecaster = MambaForecaster(HORIZON, random_state=0).fit(train)
mase = -forecaster.score(test)

with tempfile.TemporaryDirectory() as folder:
    store = Path(folder)
    mlflow.set_tracking_uri(f"sqlite:///{store / 'mlflow.db'}")
    mlflow.create_experiment("load", artifact_location=(store / "artifacts").as_uri())
    mlflow.set_experiment("load")

    # %% Log parameters, the score and the model, and make it a version of the registered "load".
    with mlflow.start_run() as run:
        mlflow.log_params({"horizon": HORIZON, "context_length": forecaster.context_length_})
        mlflow.log_metric("mase", mase)
        info = tsmamba.mlflow.log_model(forecaster, name="model", registered_model_name="load")
    version = str(info.registered_model_version)
    mlflow.MlflowClient().set_registered_model_alias("load", "champion", version)
    print(f"logged version {version} with MASE {mase:.3f}")

    # %% What was logged: no pickle, and an example that is made up.
    files = sorted(path for path in (store / "artifacts").rglob("*") if path.is_file())
    print("files", ", ".join(path.name for path in files))

    # %% The estimator itself, by alias: the same numbers, and all that it can do.
    champion = tsmamba.mlflow.load_model("models:/load@champion")
    same = champion.predict(test).equals(forecaster.predict(test))
    print("the same forecast", same)

    # %% As a service would ask it: plain JSON rows, times as text with a zone, and parameters.
    rows = test.with_columns(pl.col("ds").dt.to_string("%Y-%m-%dT%H:%M:%SZ")).to_pandas()
    service = mlflow.pyfunc.load_model("models:/load@champion")
    answer = service.predict(rows, params={"horizon": 3, "quantiles": [0.1, 0.9]})
    print(answer.to_string(index=False, float_format="%.0f"))

    # %% A mistake gets an answer that says how to mend it.
    try:
        service.predict(rows.assign(ds=1_711_886_400_000))
    except mlflow.MlflowException as error:
        print(error.error_code, str(error)[:90], "...")
