"""Anomaly scores of long series: a memory of patches, an autoregression and calibrated alerts."""

from tsmamba.anomaly.estimator import MambaDetector

__all__ = ["MambaDetector"]
