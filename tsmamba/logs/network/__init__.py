"""Small causal Mamba networks that read sessions and streams of lines: what comes next, and when.

They see further back than the n-gram and can tell how often each template has come so far. PyTorch
is imported here and nowhere else in the log detector: one without networks starts without it.
"""

from tsmamba.logs.network.committee import Committee
from tsmamba.logs.network.follower import Follower
from tsmamba.logs.network.training import Trained, fitted_committee

__all__ = ["Committee", "Follower", "Trained", "fitted_committee"]
