"""From the parameters of a detector and the rows of a fit to a model."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tsmamba.anomaly.corrector import Corrector
from tsmamba.anomaly.defaults import calibration_for
from tsmamba.anomaly.model import DetectorModel, PatchModel
from tsmamba.anomaly.online import least_threshold
from tsmamba.anomaly.pace import Pace
from tsmamba.anomaly.plan import POINTWISE, plan_for
from tsmamba.anomaly.units import Units

if TYPE_CHECKING:
    from tsmamba.anomaly.estimator import MambaDetector


def fit_model(detector: "MambaDetector", values: np.ndarray, pace: Pace | None) -> DetectorModel:
    """Fit what the parameters of a detector ask for.

    Parameters
    ----------
    detector : MambaDetector
        Its parameters, checked.
    values : ndarray of shape (n_rows, n_channels)
        Raw rows, NaN where missing.
    pace : Pace or None
        Of the rows.

    Returns
    -------
    DetectorModel
    """
    units = Units.of(values)
    steps_per_day = None if pace is None else pace.steps_per_day
    if detector.preset == "alerts":
        least = least_threshold(values.shape[1])
        calibration = calibration_for(detector.calibration, detector.contamination, least)
        return DetectorModel.online(values, units, calibration, steps_per_day)
    plan = POINTWISE
    if detector.preset != "tiny":
        plan = plan_for(units.complete(values), detector.delay, detector.period)
    calibration = calibration_for(detector.calibration, detector.contamination)
    learn = (
        None if detector.corrector is None else partial(Corrector.of, seed=detector.random_state)
    )
    return PatchModel.fit(
        values, units, plan, detector.memory_size, calibration, steps_per_day, learn
    )
