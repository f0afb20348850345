"""Anomaly scores of long series: a memory of patches, an autoregression and calibrated alerts."""

from tsmamba.anomaly.adapters import PyodDetector, PysadModel, RiverDetector
from tsmamba.anomaly.calibration import Conformal, Drift, DriftSpot, Quantile, Rate, Spot
from tsmamba.anomaly.episodes import (
    Episode,
    EpisodeRule,
    EpisodeTracker,
    episode_frame,
    episodes_of,
)
from tsmamba.anomaly.estimator import MambaDetector
from tsmamba.anomaly.result import Result
from tsmamba.anomaly.stream import Stream

__all__ = [
    "Conformal",
    "Drift",
    "DriftSpot",
    "Episode",
    "EpisodeRule",
    "EpisodeTracker",
    "MambaDetector",
    "PyodDetector",
    "PysadModel",
    "Quantile",
    "Rate",
    "Result",
    "RiverDetector",
    "Spot",
    "Stream",
    "episode_frame",
    "episodes_of",
]
