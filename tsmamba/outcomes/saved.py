"""The file of an estimator of outcomes."""

import os
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from tsmamba.outcomes.boosting import Trees
from tsmamba.outcomes.fitting import Ensemble, Member
from tsmamba.outcomes.network import RecordConfig, RecordNetwork
from tsmamba.persistence import load_model, save_model, under

__all__ = ["load_outcomes", "save_outcomes"]


def save_outcomes(
    path: str | os.PathLike[str], kind: str, settings: dict[str, Any], ensemble: Ensemble
) -> None:
    """Write a fitted estimator.

    Parameters
    ----------
    path : str or path
        The file.
    kind : str
        Name of its class.
    settings : dict
        What else there is to know, as JSON values.
    ensemble : Ensemble
        What the fit trained.
    """
    tensors = {
        "shares": torch.from_numpy(ensemble.shares),
        "slope": torch.from_numpy(ensemble.slope),
        "offset": torch.from_numpy(ensemble.offset),
    }
    for number, member in enumerate(ensemble.members):
        for name, weight in member.network.state_dict().items():
            tensors[f"{number}.network.{name}"] = weight
        if member.trees is not None:
            tensors[f"{number}.start"] = torch.from_numpy(member.trees.start)
            for name, part in member.trees.nodes.items():
                tensors[f"{number}.trees.{name}"] = torch.from_numpy(part)
    config = asdict(ensemble.members[0].network.config)
    save_model(path, kind, {**settings, "network": config}, tensors)


def load_outcomes(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], Ensemble]:
    """Read what `save_outcomes` wrote.

    Parameters
    ----------
    path : str or path
        The file.
    kind : str
        Name of the class that wrote it.

    Returns
    -------
    settings : dict
        As they were.
    ensemble : Ensemble
        The model.
    """
    settings, tensors = load_model(path, kind)
    config = RecordConfig(**settings.pop("network"))
    members: list[Member] = []
    while f"{len(members)}.network.head.bias" in tensors:
        number = len(members)
        network = RecordNetwork(config)
        network.load_state_dict(under(tensors, f"{number}.network."))
        nodes = {name: part.numpy() for name, part in under(tensors, f"{number}.trees.").items()}
        trees = Trees(nodes, tensors[f"{number}.start"].numpy()) if nodes else None
        members.append(Member(network.eval(), trees))
    names = "shares", "slope", "offset"
    shares, slope, offset = (np.array(tensors[name].numpy()) for name in names)
    return settings, Ensemble(tuple(members), shares, slope, offset)
