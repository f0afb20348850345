"""Networks on Mamba blocks.

Axis letters: B batch, L time, D model width, E inner width, N states, W filter width, H horizon.
Layout is (B, L, D).
"""

from tsmamba.nn.attention import AttentionBlock, SelfAttention
from tsmamba.nn.export import ExportableStep
from tsmamba.nn.fused import FusedStack
from tsmamba.nn.lm import MambaLM
from tsmamba.nn.lora import add_lora, merge_lora
from tsmamba.nn.mamba import Mamba, MambaState
from tsmamba.nn.stack import MambaBlock, MambaStack

__all__ = [
    "AttentionBlock",
    "ExportableStep",
    "FusedStack",
    "Mamba",
    "MambaBlock",
    "MambaLM",
    "MambaStack",
    "MambaState",
    "SelfAttention",
    "add_lora",
    "merge_lora",
]
