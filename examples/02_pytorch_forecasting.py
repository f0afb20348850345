"""Train a Mamba network on a panel with pytorch-forecasting and lightning, and forecast quantiles.

Three hourly series share one small network; the hour of the day is known ahead. The error of the
last day stands beside that of repeating the day before, and `demo-output/panel.png` shows it.
Needs `pip install "tsmamba[pytorch-forecasting]"`; the picture needs `tsmamba[plot]`.
"""

# %%
import importlib.util
import logging
import os
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import torch
from lightning.pytorch import Trainer, seed_everything
from pytorch_forecasting import EncoderNormalizer, QuantileLoss, TimeSeriesDataSet

from tsmamba.interop.pytorch_forecasting import MambaForecastNet
from tsmamba.plotting import plot_forecast
from tsmamba_datasets import make_seasonal

HORIZON, WINDOW, QUANTILES = 24, 168, [0.05, 0.5, 0.95]
quick = os.environ.get("TSMAMBA_QUICK") == "1"  # a run of seconds, to see that it works
# Both libraries speak of devices, checkpoints and workers, which do not matter here.
warnings.filterwarnings("ignore", module="lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
seed_everything(0, verbose=False)
quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False}

# %% The data set wants a pandas frame with whole steps; the last day is kept from it.
panel = make_seasonal(n_series=3, length=24 * 60)
frame = (
    panel.with_columns(
        step=pl.int_range(pl.len()).over("unique_id"),
        hour=pl.col("ds").dt.hour().cast(pl.String),
        y=pl.col("y").cast(pl.Float32),
    )
    .drop("ds")
    .to_pandas()
)
last_day = frame["step"] >= frame["step"].max() + 1 - HORIZON
train = TimeSeriesDataSet(
    frame[~last_day],
    time_idx="step",
    target="y",
    group_ids=["unique_id"],
    max_encoder_length=WINDOW,
    max_prediction_length=HORIZON,
    time_varying_known_categoricals=["hour"],
    time_varying_unknown_reals=["y"],
    target_normalizer=EncoderNormalizer(),
)

# %% Train, silently and without files.
model = MambaForecastNet.from_dataset(train, loss=QuantileLoss(QUANTILES), learning_rate=1e-2)
trainer = Trainer(
    max_steps=5 if quick else 100,
    gradient_clip_val=1.0,
    enable_checkpointing=False,
    enable_model_summary=False,
    **quiet,
)
trainer.fit(model, train.to_dataloader(batch_size=32))

# %% Forecast the last day of each series and compare.
quantiles = model.predict(frame, mode="quantiles", trainer_kwargs=quiet)  # (series, steps, q)
series = torch.as_tensor(frame["y"].to_numpy(copy=True)).view(3, -1)
truth, day_before = series[:, -HORIZON:], series[:, -2 * HORIZON : -HORIZON]
inside = (quantiles[..., 0] <= truth) & (truth <= quantiles[..., 2])
print(f"MAE of the median forecast  {(quantiles[..., 1] - truth).abs().mean():6.2f}")
print(f"MAE of the day before       {(day_before - truth).abs().mean():6.2f}")
print(f"inside the 90 % interval    {inside.float().mean():6.0%}")

# %% Draw all three, if matplotlib is there.
if importlib.util.find_spec("matplotlib"):
    ahead = panel.group_by("unique_id", maintain_order=True).tail(HORIZON)
    columns = dict(zip(QUANTILES, np.moveaxis(quantiles.numpy(), -1, 0), strict=True))
    forecast = ahead.select("unique_id", "ds").with_columns(
        pl.Series(f"MambaForecastNet_ql{q}", values.ravel()) for q, values in columns.items()
    )
    picture = Path("demo-output") / "panel.png"
    picture.parent.mkdir(exist_ok=True)
    plot_forecast(panel, forecast, truth=ahead, path=picture)
    print(f"wrote {picture}")
