"""Training of networks: the knobs and the loop."""

from tsmamba.training.distributed import Ranks, joined, process_rank
from tsmamba.training.loop import History, train
from tsmamba.training.settings import Training

__all__ = ["History", "Ranks", "Training", "joined", "process_rank", "train"]
