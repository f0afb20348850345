"""What a saved forecaster holds: parameters, model, and the history of every series."""

import io
import os
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl
import torch

from tsmamba.data.checks import Columns
from tsmamba.data.frequency import Frequency
from tsmamba.data.panel import Panel
from tsmamba.forecast.model import ForecastModel
from tsmamba.persistence import load_model, save_model

_KIND = "MambaForecaster"
_PANEL_ARRAYS = ("values", "offsets", "loc", "scale")


def save_fitted(
    path: str | os.PathLike[str],
    settings: dict[str, Any],
    model: ForecastModel,
    panel: Panel,
) -> None:
    """Write a fitted forecaster.

    Parameters
    ----------
    path
        The file.
    settings : dict
        Parameters and fitted attributes, plain values.
    model : ForecastModel
        The fit.
    panel : Panel
        History that the next forecast starts from.
    """
    model_settings, tensors = model.to_parts()
    series = pl.DataFrame(
        {
            "id": panel.ids,
            "target": panel.targets,
            "first": panel.first,
            "last": panel.last,
        }
    )
    buffer = io.BytesIO()
    series.write_ipc(buffer)
    tensors["panel.series"] = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
    for name in _PANEL_ARRAYS:
        tensors[f"panel.{name}"] = torch.from_numpy(np.ascontiguousarray(getattr(panel, name)))
    whole = {
        **settings,
        "model": model_settings,
        "freq": panel.freq.to_dict(),
        "columns": asdict(panel.columns),
    }
    save_model(path, _KIND, whole, tensors)


def load_fitted(path: str | os.PathLike[str]) -> tuple[dict[str, Any], ForecastModel, Panel]:
    """Read what `save_fitted` wrote.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    settings, model, panel
        As they were given.
    """
    settings, tensors = load_model(path, _KIND)
    series = pl.read_ipc(io.BytesIO(tensors["panel.series"].numpy().tobytes()))
    columns = settings["columns"]
    arrays = {name: tensors[f"panel.{name}"].numpy() for name in _PANEL_ARRAYS}
    panel = Panel(
        **arrays,
        ids=series["id"],
        targets=tuple(series["target"]),
        first=series["first"].alias(columns["time_col"]),
        last=series["last"].alias(columns["time_col"]),
        freq=Frequency.from_dict(settings["freq"]),
        columns=Columns(**columns | {"targets": tuple(columns["targets"])}),
    )
    return settings, ForecastModel.from_parts(settings["model"], tensors), panel
