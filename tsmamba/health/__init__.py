"""Monitors for silent degradation: a model that still answers, and no longer as it did.

Each `Monitor` watches one thing, remembers little, and says one `Check` of it. `Health` holds
several, hands each what it reads, and tells Prometheus and MLflow. `HealthCallback` watches fits.
"""

from tsmamba.health.calibration import CalibrationDrift
from tsmamba.health.callback import HealthCallback
from tsmamba.health.container import Health
from tsmamba.health.finite import Finite
from tsmamba.health.gpu import Gpu, GpuReading, NvmlReader
from tsmamba.health.monitor import Check, Monitor
from tsmamba.health.states import StateNorm, StateSpread

__all__ = [
    "CalibrationDrift",
    "Check",
    "Finite",
    "Gpu",
    "GpuReading",
    "Health",
    "HealthCallback",
    "Monitor",
    "NvmlReader",
    "StateNorm",
    "StateSpread",
]
