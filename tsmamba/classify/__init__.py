"""Classes of series of irregular events, such as the risk of a hospital stay."""

from tsmamba.classify.estimator import MambaClassifier
from tsmamba.classify.stream import Risk, RiskStream

__all__ = ["MambaClassifier", "Risk", "RiskStream"]
