"""Outcomes of series of irregular events, such as the risk of a hospital stay."""

from tsmamba.outcomes.classifier import MambaClassifier
from tsmamba.outcomes.regressor import MambaRegressor
from tsmamba.outcomes.stream import Risk, RiskStream

__all__ = ["MambaClassifier", "MambaRegressor", "Risk", "RiskStream"]
