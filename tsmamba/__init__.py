"""Forecasts for long series on Mamba networks, behind a scikit-learn interface."""

from tsmamba.forecast import MambaForecaster
from tsmamba.training import Training

__all__ = ["MambaForecaster", "Training"]
__version__ = "0.1.0"
