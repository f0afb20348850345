"""Forecasting: a linear base in closed form, a Mamba that corrects it, a gate that judges it."""

from tsmamba.forecast.estimator import MambaForecaster

__all__ = ["MambaForecaster"]
