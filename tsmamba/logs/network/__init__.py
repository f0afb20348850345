"""Small causal Mamba networks that read whole sessions: which template comes next, and when.

They see further back than the n-gram and can tell how often each template has come so far. PyTorch
is imported here and nowhere else in the log detector: one without networks starts without it.
"""

from tsmamba.logs.network.committee import Committee
from tsmamba.logs.network.training import Trained, fitted_committee

__all__ = ["Committee", "Trained", "fitted_committee"]
