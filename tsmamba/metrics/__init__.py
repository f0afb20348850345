"""Errors of forecasts, and how well anomalies were found, on plain arrays.

Frames of forecasts are evaluated by ``utilsforecast.evaluation.evaluate``. For anomalies,
``labels`` is 1 inside events and 0 elsewhere, ``scores`` are higher where it is worse, and
``alerts`` is 1 where a threshold that was fixed before was passed.
"""

from tsmamba.metrics.affiliation import affiliation
from tsmamba.metrics.detection import (
    Found,
    PointAdjusted,
    average_precision,
    detection_delay,
    event_f1,
    point_adjusted_f1,
    ucr_hit,
)
from tsmamba.metrics.forecast import coverage, least_scale, mase, naive_scale
from tsmamba.metrics.nab import NabFile, NabScore, best_nab_threshold, nab_score
from tsmamba.metrics.vus import VolumeUnderSurface, vus, vus_pr, vus_roc, window_of

__all__ = [
    "Found",
    "NabFile",
    "NabScore",
    "PointAdjusted",
    "VolumeUnderSurface",
    "affiliation",
    "average_precision",
    "best_nab_threshold",
    "coverage",
    "detection_delay",
    "event_f1",
    "least_scale",
    "mase",
    "nab_score",
    "naive_scale",
    "point_adjusted_f1",
    "ucr_hit",
    "vus",
    "vus_pr",
    "vus_roc",
    "window_of",
]
