"""Networks on Mamba blocks.

Axis letters: B batch, L time, D model width, E inner width, N states, W filter width, H horizon.
Layout is (B, L, D).
"""

from tsmamba.nn.mamba import Mamba, MambaState
from tsmamba.nn.stack import MambaBlock, MambaStack

__all__ = ["Mamba", "MambaBlock", "MambaStack", "MambaState"]
