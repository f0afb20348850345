"""A fitted detector as plain values and arrays, for files."""

from dataclasses import asdict
from typing import Any

import numpy as np

from tsmamba.anomaly.autoregression import Autoregression
from tsmamba.anomaly.calibration import Calibration
from tsmamba.anomaly.causal import CausalScorer
from tsmamba.anomaly.corrector import Corrector
from tsmamba.anomaly.fusion import Standard
from tsmamba.anomaly.joint import JointRows
from tsmamba.anomaly.memory import PatchMemory
from tsmamba.anomaly.model import DetectorModel, PatchModel
from tsmamba.anomaly.offline import OfflineScorer
from tsmamba.anomaly.online import OnlineScorer, OnlineState
from tsmamba.anomaly.plan import Block, Plan
from tsmamba.anomaly.units import Units

Arrays = dict[str, np.ndarray]
_OFFLINE, _CAUSAL, _STATE, _CORRECTOR = "offline.", "causal.", "state.", "corrector."


def to_parts(model: DetectorModel) -> tuple[dict[str, Any], Arrays]:
    """Take a model apart.

    Parameters
    ----------
    model : DetectorModel
        Fitted.

    Returns
    -------
    settings : dict
        Plain values that JSON can hold.
    arrays : dict of str to ndarray
    """
    settings: dict[str, Any] = {"n_fitted": model.n_fitted, "fingerprint": model.fingerprint}
    units = model.units
    arrays = {"mean": units.mean, "scale": units.scale, "known": units.known}
    calibrators = {_CAUSAL: model.causal_calibrator}
    if isinstance(model, PatchModel):
        calibrators[_OFFLINE] = model.offline_calibrator
        offline, causal = model.offline, model.causal
        arrays |= {
            "coefficients": offline.autoregression.coefficients,
            "intercept": offline.autoregression.intercept,
            "offline_mean": offline.standard.mean,
            "offline_deviation": offline.standard.deviation,
            "causal_mean": causal.standard.mean,
            "causal_deviation": causal.standard.deviation,
        }
        if causal.corrector is not None:
            own = causal.corrector.arrays()
            arrays |= {f"{_CORRECTOR}{name}": part for name, part in own.items()}
        if offline.memory is not None:
            arrays |= {"patches": offline.memory.patches, "ends": offline.memory.ends}
        if model.joint is not None:
            arrays["joint"] = model.joint.array()
        settings |= {
            "plan": asdict(offline.plan),
            "memory_size": offline.memory.size if offline.memory else 0,
        }
    else:
        state = model.causal.start().arrays()
        arrays |= {f"{_STATE}{name}": part for name, part in state.items()}
    for prefix, calibrator in calibrators.items():
        arrays |= {f"{prefix}{name}": part for name, part in calibrator.state().items()}
    return settings, arrays


def from_parts(
    settings: dict[str, Any], arrays: Arrays, calibration: Calibration[Any]
) -> DetectorModel:
    """Put it together again.

    Parameters
    ----------
    settings, arrays
        What `to_parts` gave.
    calibration : Calibration
        The settings that the calibrators were fitted with.

    Returns
    -------
    DetectorModel
        The same, bit for bit.
    """
    units = Units(arrays["mean"], arrays["scale"], arrays["known"])
    calibrator = calibration.restored(_under(_CAUSAL, arrays))
    facts = settings["n_fitted"], settings["fingerprint"]
    if "plan" not in settings:
        scorer = OnlineScorer(OnlineState.restored(_under(_STATE, arrays)))
        return DetectorModel(units, scorer, calibrator, *facts)
    saved = settings["plan"]
    blocks = {
        mode: tuple(Block(**block) for block in saved[mode]) for mode in ("offline", "streaming")
    }
    plan = Plan(**{**saved, **blocks})
    memory = None
    if "patches" in arrays:
        memory = PatchMemory(arrays["patches"], arrays["ends"], settings["memory_size"])
    joint = None
    if memory and "joint" in arrays:  # files of several channels were written without it before
        joint = JointRows(memory, plan.width, *arrays["joint"].tolist())
    regression = Autoregression(arrays["coefficients"], arrays["intercept"])
    own = _under(_CORRECTOR, arrays)
    corrector = Corrector.restored(own) if own else None
    standards = {
        mode: Standard(arrays[f"{mode}_mean"], arrays[f"{mode}_deviation"])
        for mode in ("offline", "causal")
    }
    return PatchModel(
        units,
        CausalScorer(plan, memory, regression, standards["causal"], corrector),
        calibrator,
        *facts,
        offline=OfflineScorer(plan, memory, regression, standards["offline"], corrector),
        offline_calibrator=calibration.restored(_under(_OFFLINE, arrays)),
        joint=joint,
    )


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {
        name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)
    }
