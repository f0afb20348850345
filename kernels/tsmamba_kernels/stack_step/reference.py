"""One step of a causal stack in plain PyTorch: what the compiled kernel is tested against."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from tsmamba_kernels.causal_conv import causal_conv1d_update
from tsmamba_kernels.selective_scan import selective_state_update
from tsmamba_kernels.stack_step.layout import GAIN_LIMIT, LayerWeights, pack_state, unpack_state


def stack_step_reference(
    layers: Sequence[LayerWeights],
    norm_f: Tensor,  # (M,)
    eps: float,
    x: Tensor,  # (B, M)
    state: Tensor,  # (B, layers, groups, W - 1 + N, LINE), updated in place
    delta_scale: Tensor | None,  # (B,)
) -> Tensor:
    """Return the output of the step, shape (B, M)."""
    for i, layer in enumerate(layers):
        inner, width = layer.conv1d.shape
        conv, ssm = unpack_state(state[:, i], width - 1, inner)
        normed = F.rms_norm(x, layer.norm.shape, layer.norm, eps)
        mixed, conv, ssm = _mixer_step(layer, normed, conv, ssm, delta_scale)
        state[:, i] = pack_state(conv, ssm)
        x = x + mixed
    return F.rms_norm(x, norm_f.shape, norm_f, eps)


def _mixer_step(
    layer: LayerWeights,
    x: Tensor,  # (B, M)
    conv: Tensor,  # (B, W - 1, E)
    ssm: Tensor,  # (B, E, N)
    delta_scale: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    u, z = F.linear(x, layer.in_proj, layer.in_proj_bias).chunk(2, dim=-1)
    u, conv = causal_conv1d_update(
        u, conv, layer.conv1d, layer.conv1d_bias, "silu", backend="reference"
    )
    states = ssm.shape[2]
    dt, B, C = F.linear(u, layer.x_proj).split([layer.dt_proj.shape[1], states, states], dim=-1)
    if layer.gain_proj is not None:
        logits = F.linear(u, layer.gain_proj, layer.gain_proj_bias).clamp(-GAIN_LIMIT, GAIN_LIMIT)
        gain_B, gain_C = torch.sigmoid(logits).chunk(2, dim=-1)
        B, C = B * gain_B, C * gain_C
    y, ssm = selective_state_update(
        ssm, u, F.linear(dt, layer.dt_proj), layer.A, B, C, layer.D, z,
        dt_bias=layer.dt_proj_bias, dt_softplus=True, delta_scale=delta_scale, backend="reference",
    )  # fmt: skip
    return F.linear(y, layer.out_proj, layer.out_proj_bias), conv, ssm
