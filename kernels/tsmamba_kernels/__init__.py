"""Fused kernels for selective state-space models, each with a readable reference beside it.

Axis letters: B batch, L time, D channels, N states, G groups, W filter width. Layout is (B, L, D).
"""

from tsmamba_kernels._backend import backend_report, use_backend
from tsmamba_kernels.causal_conv import causal_conv1d, causal_conv1d_update
from tsmamba_kernels.patch_distance import PatchIndex
from tsmamba_kernels.selective_scan import selective_scan, selective_state_update
from tsmamba_kernels.stack_step import LayerWeights, StackStep

__all__ = [
    "LayerWeights",
    "PatchIndex",
    "StackStep",
    "backend_report",
    "causal_conv1d",
    "causal_conv1d_update",
    "selective_scan",
    "selective_state_update",
    "use_backend",
]
