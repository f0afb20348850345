"""Training of networks: the knobs and the loop."""

from tsmamba.training.loop import History, train
from tsmamba.training.settings import Training

__all__ = ["History", "Training", "train"]
