"""Calibration: from raw scores to thresholds of alerts and p-values."""

from tsmamba.anomaly.calibration.calibrator import Calibration, Calibrator
from tsmamba.anomaly.calibration.conformal import Conformal
from tsmamba.anomaly.calibration.drift import Drift, Watch, Watched, judged
from tsmamba.anomaly.calibration.quantile import Quantile
from tsmamba.anomaly.calibration.rate import Rate
from tsmamba.anomaly.calibration.spot import DriftSpot, Spot

__all__ = [
    "Calibration",
    "Calibrator",
    "Conformal",
    "Drift",
    "DriftSpot",
    "Quantile",
    "Rate",
    "Spot",
    "Watch",
    "Watched",
    "judged",
]
