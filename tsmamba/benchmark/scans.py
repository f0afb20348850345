"""The scan, and what one would otherwise use."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsmamba._optional import require
from tsmamba.nn import Mamba
from tsmamba_kernels import selective_scan

Scan = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def our_scan(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """Return the selective scan, by the kernel that runs here."""
    out: Tensor = selective_scan(u, delta, A, B, C, delta_softplus=True)
    return out


def loop_scan(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """Return the same by an eager loop over time, as fast as plain PyTorch allows.

    It unbinds once and reads out once: indexing in the loop would make its backward pass quadratic.
    """
    decay, entering = _discretised(u, delta, A, B)
    h, states = torch.zeros_like(entering[:, 0]), []
    for a, b in zip(decay.unbind(1), entering.unbind(1), strict=True):
        h = torch.addcmul(b, a, h)
        states.append(h)
    return _read_out(torch.stack(states, dim=1), C)


def mambapy_scan() -> Scan:
    """Return the parallel scan of mambapy as a scan.

    Raises
    ------
    MissingExtraError
        If mambapy is not installed.
    """
    pscan = require("mambapy.pscan", "bench").pscan

    def scan(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
        return _read_out(pscan(*_discretised(u, delta, A, B)), C)

    return scan


def transformers_block(block: Mamba) -> nn.Module:
    """Return the Mamba block of transformers, in plain PyTorch, with the weights of ours.

    Raises
    ------
    MissingExtraError
        If transformers is not installed.
    """
    transformers = require("transformers", "bench")
    modeling = require("transformers.models.mamba.modeling_mamba", "bench")
    transformers.logging.set_verbosity_error()  # it warns that it is slow, which is known here
    inner, _, width = block.conv1d.weight.shape
    d_model = block.in_proj.in_features
    config = transformers.MambaConfig(
        hidden_size=d_model,
        state_size=block.d_state,
        expand=inner // d_model,
        conv_kernel=width,
        time_step_rank=block.dt_rank,
        num_hidden_layers=1,
    )
    mixer: nn.Module = modeling.MambaMixer(config, layer_idx=0)
    mixer.load_state_dict(block.state_dict())
    return mixer


def _discretised(u: Tensor, delta: Tensor, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    dt = F.softplus(delta)
    decay = torch.exp(dt.unsqueeze(-1) * A)  # (B, L, D, N)
    return decay, (dt * u).unsqueeze(-1) * B.unsqueeze(2)


def _read_out(states: Tensor, C: Tensor) -> Tensor:
    return (states @ C.unsqueeze(-1)).squeeze(-1)
