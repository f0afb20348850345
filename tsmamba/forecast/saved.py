"""What a fitted forecaster keeps, and how it lies in a file."""

import io
import os
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import torch
from torch import Tensor

from tsmamba.data.encoding import Encoding
from tsmamba.data.frame import FrameKind
from tsmamba.data.panel import Scaling
from tsmamba.forecast.events.model import EventModel
from tsmamba.forecast.events.saved import event_parts, restored
from tsmamba.forecast.model import ForecastModel
from tsmamba.persistence import load_model, save_model

_KIND = "MambaForecaster"


@dataclass(frozen=True)
class Fitted:
    """A model, and what is known of the series it was fitted on.

    Parameters
    ----------
    model : ForecastModel
        The model.
    scaling : Scaling
        Mean and scale of each series.
    naive_scale : polars.DataFrame
        Columns id, target, scale: what errors of each series are scaled by.
    history : polars.DataFrame
        The last rows of each series, as many as the next forecast needs.
    encoding : Encoding, optional
        How covariates become numbers.
    kind : FrameKind
        Kind of frame that forecasts come back in.
    """

    model: ForecastModel
    scaling: Scaling
    naive_scale: pl.DataFrame
    history: pl.DataFrame
    encoding: Encoding | None
    kind: FrameKind

    def continued(self, history: pl.DataFrame) -> "Fitted":
        """Return the same with other last rows."""
        return replace(self, history=history)


def save_fitted(
    path: str | os.PathLike[str], settings: dict[str, Any], fitted: Fitted | EventModel
) -> None:
    """Write a fitted forecaster.

    Parameters
    ----------
    path
        The file.
    settings : dict
        Parameters and fitted attributes, plain values.
    fitted : Fitted or EventModel
        What it keeps.
    """
    if isinstance(fitted, EventModel):
        events, tensors = event_parts(fitted)
        save_model(path, _KIND, {**settings, "events": events}, tensors)
        return
    model, tensors = fitted.model.to_parts()
    scaling = fitted.scaling
    series = pl.DataFrame(
        {
            "id": scaling.ids,
            "target": scaling.targets,
            "loc": scaling.loc,
            "scale": scaling.scale,
        }
    ).join(
        fitted.naive_scale.rename({"scale": "naive_scale"}),
        on=["id", "target"],
        how="left",
        maintain_order="left",
    )
    tensors["series"] = _bytes(series)
    tensors["history"] = _bytes(fitted.history)
    whole = {
        **settings,
        "model": model,
        "encoding": None if fitted.encoding is None else fitted.encoding.to_dict(),
        "library": fitted.kind.library,
    }
    save_model(path, _KIND, whole, tensors)


def load_fitted(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Fitted | EventModel]:
    """Read what `save_fitted` wrote.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    settings, fitted
        As they were given.
    """
    settings, tensors = load_model(path, _KIND)
    if "events" in settings:
        return settings, restored(settings["events"], tensors)
    series = _frame(tensors["series"])
    encoding = settings["encoding"]
    fitted = Fitted(
        model=ForecastModel.from_parts(settings["model"], tensors),
        scaling=Scaling(
            ids=series["id"],
            targets=tuple(series["target"]),
            loc=series["loc"].to_numpy(),
            scale=series["scale"].to_numpy(),
        ),
        naive_scale=series.select("id", "target", scale="naive_scale"),
        history=_frame(tensors["history"]),
        encoding=None if encoding is None else Encoding.from_dict(encoding),
        kind=FrameKind(settings["library"]),
    )
    return settings, fitted


def _bytes(frame: pl.DataFrame) -> Tensor:
    buffer = io.BytesIO()
    frame.write_ipc(buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def _frame(data: Tensor) -> pl.DataFrame:
    return pl.read_ipc(io.BytesIO(data.numpy().tobytes()))
