"""The file of a stream: the states of all its series, and which model they belong to."""

from collections import OrderedDict, deque
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tsmamba.anomaly.answers import Answers
from tsmamba.anomaly.calibration import Drift
from tsmamba.anomaly.model import DetectorModel
from tsmamba.anomaly.result import Result, Time
from tsmamba.anomaly.state import StreamState
from tsmamba.errors import ModelFileError
from tsmamba.persistence import load_model, save_model

_KIND = "MambaDetector stream"
_CAUSAL, _WATCH = "causal.", "watch."


def save_stream(
    path: str | Path, model: DetectorModel, series: OrderedDict[str | None, StreamState]
) -> None:
    """Write the states of a stream.

    Parameters
    ----------
    path : str or path
        The file.
    model : DetectorModel
        The states' model.
    series : ordered mapping of key to StreamState
        The states.
    """
    parts = [_arrays(state) for state in series.values()]
    tensors = {
        name: torch.from_numpy(np.stack([part[name] for part in parts]))
        for name in (parts[0] if parts else ())
    }
    settings = {
        "model": model.identity,
        "keys": list(series),
        "times": [[_plain(t) for t in state.answers.times] for state in series.values()],
        "ready": [[_fields(one) for one in state.answers.ready] for state in series.values()],
        "t": [_plain(state.t) for state in series.values()],
    }
    save_model(path, _KIND, settings, tensors)


def load_stream(
    path: str | Path, model: DetectorModel, drift: Drift
) -> OrderedDict[str | None, StreamState]:
    """Read what `save_stream` wrote.

    Parameters
    ----------
    path : str or path
        The file.
    model : DetectorModel
        Must be the one it was written for.
    drift : Drift
        Of the stream.

    Returns
    -------
    ordered mapping of key to StreamState

    Raises
    ------
    ModelFileError
        If the file is damaged, or of another model.
    """
    settings, tensors = load_model(path, _KIND)
    if settings["model"] != model.identity:
        raise ModelFileError(
            f"{str(path)!r} holds streams of another detector; load them with the one that made "
            "them, or start anew"
        )
    arrays = {name: part.numpy() for name, part in tensors.items()}
    out: OrderedDict[str | None, StreamState] = OrderedDict()
    for i, key in enumerate(settings["keys"]):
        state = StreamState.start(model, drift)
        state.causal = model.causal.restored(_under(_CAUSAL, arrays, i))
        state.watch.restore(_under(_WATCH, arrays, i))
        state.absent = arrays["absent"][i].copy()
        if model.joint:
            state.waiting = arrays["waiting"][i].copy()
        state.gone, state.since = (int(n) for n in arrays["counts"][i])
        state.answers = Answers(
            deque(arrays["given"][i].tolist()),
            deque(_time(t) for t in settings["times"][i]),
            deque(_result(fields, key) for fields in settings["ready"][i]),
        )
        state.t, state.late = _time(settings["t"][i]), float(arrays["late"][i, 0])
        out[key] = state
    return out


def _arrays(state: StreamState) -> dict[str, np.ndarray]:
    own = {
        "absent": state.absent,
        "waiting": state.waiting,
        **state.answers.arrays(),
        "counts": np.array([state.gone, state.since]),
        "late": np.array([state.late]),
    }
    for prefix, parts in ((_CAUSAL, state.causal.arrays()), (_WATCH, state.watch.state())):
        own |= {f"{prefix}{name}": part for name, part in parts.items()}
    return own


def _under(prefix: str, arrays: dict[str, np.ndarray], i: int) -> dict[str, np.ndarray]:
    return {
        name.removeprefix(prefix): part[i]
        for name, part in arrays.items()
        if name.startswith(prefix)
    }


def _fields(result: Result) -> dict[str, Any]:
    parts = result.channel_contrib
    return {
        **result._asdict(),
        "channel_contrib": None if parts is None else parts.tolist(),
        "t": _plain(result.t),
    }


def _result(fields: dict[str, Any], key: str | None) -> Result:
    parts = fields["channel_contrib"]
    return Result(
        **{
            **fields,
            "channel_contrib": None if parts is None else np.array(parts),
            "t": _time(fields["t"]),
            "key": key,
        }
    )


def _plain(t: Time | None) -> int | str | None:
    return t.isoformat() if isinstance(t, datetime) else t


def _time(t: int | str | None) -> Time | None:
    return datetime.fromisoformat(t) if isinstance(t, str) else t
