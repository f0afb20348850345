"""How a fit on events lies in a file."""

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsmamba.forecast.events.blending import Blend
from tsmamba.forecast.events.fitting import Ensemble, Member
from tsmamba.forecast.events.model import EventModel
from tsmamba.forecast.events.network import EventConfig, EventNetwork
from tsmamba.persistence import under
from tsmamba.records.reader import Reader

__all__ = ["event_parts", "restored"]


def event_parts(model: EventModel) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Take a fit apart.

    Parameters
    ----------
    model : EventModel
        The fit.

    Returns
    -------
    settings : dict
        Plain JSON values.
    tensors : dict of str to Tensor
        All else.
    """
    ensemble = model.ensemble
    tensors = {
        "weights": torch.from_numpy(ensemble.blend.weights),
        "errors": torch.from_numpy(ensemble.blend.errors),
        "usual": torch.from_numpy(model.usual),
    }
    for number, member in enumerate(ensemble.members):
        tensors[f"{number}.linear"] = member.linear
        for name, weight in member.network.state_dict().items():
            tensors[f"{number}.network.{name}"] = weight
    config = asdict(ensemble.members[0].network.config)
    return {"reader": model.reader.to_dict(), "network": config}, tensors


def restored(settings: dict[str, Any], tensors: dict[str, Tensor]) -> EventModel:
    """Put together what `event_parts` took apart.

    Parameters
    ----------
    settings : dict
        As they were.
    tensors : dict of str to Tensor
        As they were.

    Returns
    -------
    EventModel
        The fit.
    """
    config = EventConfig(**settings["network"])
    members: list[Member] = []
    while f"{len(members)}.linear" in tensors:
        number = len(members)
        network = EventNetwork(config)
        network.load_state_dict(under(tensors, f"{number}.network."))
        members.append(Member(network.eval(), tensors[f"{number}.linear"]))
    weights, errors, usual = (
        np.array(tensors[name].numpy()) for name in ("weights", "errors", "usual")
    )
    ensemble = Ensemble(tuple(members), Blend(weights, errors))
    return EventModel(Reader.from_dict(settings["reader"]), ensemble, usual)
