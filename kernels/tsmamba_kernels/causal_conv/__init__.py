"""Causal depthwise convolution: the short filter before the scan of a Mamba block."""

from collections.abc import Callable
from typing import Literal, overload

import torch
from torch import Tensor

from tsmamba_kernels._backend import choose
from tsmamba_kernels._shapes import (
    check_axes,
    check_mask,
    check_packing,
    compute_dtype,
    storage_dtype,
)
from tsmamba_kernels.causal_conv.cpu import causal_conv1d_native
from tsmamba_kernels.causal_conv.reference import causal_conv1d_reference
from tsmamba_kernels.errors import ShapeError

__all__ = ["causal_conv1d", "causal_conv1d_update"]

Activation = Literal["silu"] | None


@overload
def causal_conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    activation: Activation = ...,
    *,
    initial_state: Tensor | None = ...,
    return_final_state: Literal[False] = ...,
    mask: Tensor | None = ...,
    reverse: bool = ...,
    cu_seqlens: Tensor | None = ...,
    backend: str = ...,
) -> Tensor: ...
@overload
def causal_conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    activation: Activation = ...,
    *,
    initial_state: Tensor | None = ...,
    return_final_state: Literal[True],
    mask: Tensor | None = ...,
    reverse: bool = ...,
    cu_seqlens: Tensor | None = ...,
    backend: str = ...,
) -> tuple[Tensor, Tensor]: ...
def causal_conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: Activation = None,
    *,
    initial_state: Tensor | None = None,
    return_final_state: bool = False,
    mask: Tensor | None = None,
    reverse: bool = False,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> Tensor | tuple[Tensor, Tensor]:
    """Filter every channel with its own short causal filter.

    ``out_t = activation(bias + sum_j weight_j x_{t - (W-1) + j})``. It gives a Mamba block its view
    of the last W steps; use it wherever a depthwise filter must not look ahead.

    Parameters
    ----------
    x : Tensor of shape (B, L, D)
        In float32, float64, bfloat16 or float16. Any strides; fastest where channels are
        contiguous. Short types are computed in float32.
    weight : Tensor of shape (D, W)
        Filters; the last column meets the present step.
    bias : Tensor of shape (D,), optional
        Added before the activation.
    activation : {"silu"}, optional
        Applied to the result.
    initial_state : Tensor of shape (B, W - 1, D), optional
        The W - 1 inputs before the first step, oldest first; zeros when absent. (S, W - 1, D) with
        ``cu_seqlens``.
    return_final_state : bool, default False
        Also return the last W - 1 inputs.
    mask : bool Tensor of shape (B, L), optional
        False marks a missing step: its input counts as zero and its output is zero.
    reverse : bool, default False
        Filter from the last step to the first; equal to flipping input and output along time.
    cu_seqlens : int Tensor of shape (S + 1,), optional
        Boundaries, from 0 to L, of S series that lie one after the other in a single batch row
        (B = 1). Each starts from a state of its own; a series may be empty.
    backend : {"auto", "triton", "native", "reference"}, default "auto"
        Implementation to use; see `backend_report`.

    Returns
    -------
    out : Tensor of shape (B, L, D)
        In the type of ``x``.
    final_state : Tensor of shape (B, W - 1, D)
        Only with ``return_final_state``; the ``initial_state`` of what follows.

    Raises
    ------
    ShapeError
        If an operand's axes or type do not fit, or the activation is unknown.
    BackendUnavailableError
        If the backend asked for by name cannot run.

    Examples
    --------
    >>> import torch
    >>> causal_conv1d(torch.arange(4.0).reshape(1, 4, 1), torch.ones(1, 2)).flatten()
    tensor([0., 1., 3., 5.])
    """
    sizes = check_axes(
        "causal_conv1d",
        x=(x, "B L D"), weight=(weight, "D W"), bias=(bias, "D"),
        initial_state=(initial_state, "B W-1 D" if cu_seqlens is None else "S W-1 D"),
        mask=(mask, "B L"),
    )  # fmt: skip
    check_mask("causal_conv1d", mask)
    check_packing("causal_conv1d", cu_seqlens, sizes)
    if activation not in (None, "silu"):
        raise ShapeError(f"causal_conv1d: activation {activation!r}; pass 'silu' or None")
    if sizes["W"] == 0:
        raise ShapeError("causal_conv1d: weight has no columns; a filter is at least one step wide")
    dtype = compute_dtype(x)
    reach = sizes["W"] - 1
    series = sizes["B"] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    state = (
        torch.zeros(series, reach, sizes["D"], dtype=dtype, device=x.device)
        if initial_state is None
        else initial_state.to(dtype)
    )
    if state.shape[1] != reach:
        raise ShapeError(
            f"causal_conv1d: initial_state has shape {tuple(state.shape)}, but axes (B, W-1, D) "
            f"want W-1 = {reach}, not {state.shape[1]}"
        )
    chosen = choose("causal_conv1d", x, backend)
    out = _implementation(chosen)(
        x.to(storage_dtype(chosen, x)),
        weight.to(dtype),
        None if bias is None else bias.to(dtype),
        silu=activation == "silu",
        initial_state=state,
        mask=mask,
        reverse=reverse,
        cu_seqlens=cu_seqlens,
    ).to(x.dtype)
    if not return_final_state:
        return out
    return out, _last_inputs(x, state, mask, reverse, cu_seqlens)


def _implementation(backend: str) -> Callable[..., Tensor]:
    if backend == "triton":
        # Not above: importing triton takes a second, and most machines lack it.
        from tsmamba_kernels.causal_conv.gpu import causal_conv1d_triton

        return causal_conv1d_triton
    return causal_conv1d_native if backend == "native" else causal_conv1d_reference


def _last_inputs(
    x: Tensor, state: Tensor, mask: Tensor | None, reverse: bool, cu_seqlens: Tensor | None
) -> Tensor:
    """Return the last W - 1 inputs in scan order, reaching back into ``state`` if L is short."""
    if cu_seqlens is not None:
        return _last_inputs_packed(x, state, mask, reverse, cu_seqlens.long())
    reach = state.shape[1]
    tail = slice(0, reach) if reverse else slice(max(x.shape[1] - reach, 0), None)
    recent = x[:, tail]
    if mask is not None:
        recent = torch.where(mask[:, tail, None], recent, 0.0)
    if reverse:
        recent = recent.flip(1)
    return torch.cat([state[:, recent.shape[1] :], recent], dim=1)


def _last_inputs_packed(
    x: Tensor, state: Tensor, mask: Tensor | None, reverse: bool, cu_seqlens: Tensor
) -> Tensor:
    """Do the same for packed series, without waiting for the device to tell their lengths."""
    reach = state.shape[1]
    if x.shape[1] == 0:
        return state
    start, end = cu_seqlens[:-1, None], cu_seqlens[1:, None]  # (S, 1)
    # Places of the window, counted from the first input; below zero they are the state's.
    place = end - start + torch.arange(-reach, 0, device=x.device)  # (S, W - 1)
    at = (end - 1 - place if reverse else start + place).clamp(0, x.shape[1] - 1)
    recent = x[0, at]  # (S, W - 1, D)
    if mask is not None:
        recent = torch.where(mask[0, at, None], recent, 0.0)
    before = (place + reach).clamp(0, max(reach - 1, 0))[..., None].expand_as(recent)
    return torch.where(place[..., None] < 0, state.gather(1, before), recent)


def causal_conv1d_update(
    x: Tensor,
    state: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: Activation = None,
    *,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Filter one more step: `causal_conv1d` of length one.

    Parameters
    ----------
    x : Tensor of shape (B, D)
        Input of the step.
    state : Tensor of shape (B, W - 1, D)
        The inputs before it, oldest first; not modified.
    weight, bias, activation, backend
        As in `causal_conv1d`.

    Returns
    -------
    out : Tensor of shape (B, D)
        Output of the step.
    state : Tensor of shape (B, W - 1, D)
        The state for the next step.

    Raises
    ------
    ShapeError, BackendUnavailableError
        As in `causal_conv1d`.

    Examples
    --------
    >>> import torch
    >>> out, state = causal_conv1d_update(torch.ones(1, 1), torch.zeros(1, 1, 1), torch.ones(1, 2))
    >>> out.item(), state.item()
    (1.0, 1.0)
    """
    out, state = causal_conv1d(
        x.unsqueeze(1), weight, bias, activation,
        initial_state=state, return_final_state=True, backend=backend,
    )  # fmt: skip
    return out.squeeze(1), state
