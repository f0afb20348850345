"""Selective scan: the recurrence of a Mamba block over a whole sequence, and one step of it."""

from collections.abc import Callable
from math import inf
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
from tsmamba_kernels.errors import ShapeError
from tsmamba_kernels.selective_scan.cpu import selective_scan_native
from tsmamba_kernels.selective_scan.reference import selective_scan_reference

__all__ = ["selective_scan", "selective_state_update"]


@overload
def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = ...,
    z: Tensor | None = ...,
    *,
    delta_bias: Tensor | None = ...,
    delta_softplus: bool = ...,
    dt_limit: tuple[float, float] = ...,
    initial_state: Tensor | None = ...,
    return_final_state: Literal[False] = ...,
    mask: Tensor | None = ...,
    reverse: bool = ...,
    delta_scale: Tensor | None = ...,
    cu_seqlens: Tensor | None = ...,
    backend: str = ...,
) -> Tensor: ...
@overload
def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = ...,
    z: Tensor | None = ...,
    *,
    delta_bias: Tensor | None = ...,
    delta_softplus: bool = ...,
    dt_limit: tuple[float, float] = ...,
    initial_state: Tensor | None = ...,
    return_final_state: Literal[True],
    mask: Tensor | None = ...,
    reverse: bool = ...,
    delta_scale: Tensor | None = ...,
    cu_seqlens: Tensor | None = ...,
    backend: str = ...,
) -> tuple[Tensor, Tensor]: ...
def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    *,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, inf),
    initial_state: Tensor | None = None,
    return_final_state: bool = False,
    mask: Tensor | None = None,
    reverse: bool = False,
    delta_scale: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Run the selective state-space recurrence over a sequence.

    With ``dt = clip(softplus(delta + delta_bias), *dt_limit) * delta_scale`` and ``h`` of N states
    a channel::

        h_t = exp(dt_t A) h_{t-1} + dt_t B_t u_t
        out_t = (C_t . h_t + D u_t) silu(z_t)

    This is the primitive beneath `tsmamba.nn.Mamba`; call it to build a network of your own. Cost
    and memory grow linearly with L; no (B, L, D, N) tensor is made. Gradients flow to every
    floating-point operand and through the final state.

    Parameters
    ----------
    u, delta : Tensor of shape (B, L, D)
        Input and raw step sizes, in float32, float64, bfloat16 or float16. Any strides; fastest
        where channels are contiguous. Short types are computed in float32.
    A : Tensor of shape (D, N) or (D,), <= 0
        Decay rates. One rate a channel stands for its multiples, ``A_n = n A`` for n = 1..N, which
        take one exponential instead of N.
    B, C : Tensor of shape (B, L, N) or (B, L, G, N)
        Input and output maps; channel ``i`` uses group ``i // (D / G)``.
    D : Tensor of shape (D,), optional
        Skip connection.
    z : Tensor of shape (B, L, D), optional
        Gate, applied as ``silu(z)``.
    delta_bias : Tensor of shape (D,), optional
        Added to ``delta``.
    delta_softplus : bool, default False
        Pass the biased ``delta`` through softplus, which makes it positive.
    dt_limit : (float, float), default (0, inf)
        Range to which step sizes are clipped, before ``delta_scale``.
    initial_state : Tensor of shape (B, D, N), optional
        State before the first step; zeros when absent. (S, D, N) with ``cu_seqlens``.
    return_final_state : bool, default False
        Also return the state after the last step.
    mask : bool Tensor of shape (B, L), optional
        False marks a missing step: it leaves the state as it is and its output is zero.
    reverse : bool, default False
        Scan from the last step to the first; equal to flipping inputs and output along time.
    delta_scale : Tensor of shape (B, L) or (B, L, D), >= 0, optional
        Real elapsed time of each step, for uneven sampling.
    cu_seqlens : int Tensor of shape (S + 1,), optional
        Boundaries, from 0 to L, of S series that lie one after the other in a single batch row
        (B = 1). Each starts from a state of its own; a series may be empty.
    backend : {"auto", "native", "reference"}, default "auto"
        Implementation to use; see `backend_report`.

    Returns
    -------
    out : Tensor of shape (B, L, D)
        In the type of ``u``.
    final_state : Tensor of shape (B, D, N)
        Only with ``return_final_state``; float32 (float64 for float64 inputs). (S, D, N) with
        ``cu_seqlens``.

    Raises
    ------
    ShapeError
        If an operand's axes, type or device do not fit, A has a positive entry, or ``cu_seqlens``
        does not rise from 0 to L.
    BackendUnavailableError
        If the backend asked for by name cannot run.

    References
    ----------
    Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023.

    Examples
    --------
    >>> import torch
    >>> u, delta = torch.ones(1, 3, 2), torch.ones(1, 3, 2)
    >>> A, B, C = -torch.ones(2, 1), torch.ones(1, 3, 1), torch.ones(1, 3, 1)
    >>> selective_scan(u, delta, A, B, C)[0, :, 0]
    tensor([1.0000, 1.3679, 1.5032])
    """
    if B.dim() == C.dim() == 3:  # one group
        B, C = B.unsqueeze(2), C.unsqueeze(2)
    sizes = check_axes(
        "selective_scan",
        u=(u, "B L D"), delta=(delta, "B L D"), A=(A, "D N | D"), B=(B, "B L G N"),
        C=(C, "B L G N"), D=(D, "D"), z=(z, "B L D"), delta_bias=(delta_bias, "D"),
        initial_state=(initial_state, "B D N" if cu_seqlens is None else "S D N"),
        mask=(mask, "B L"), delta_scale=(delta_scale, "B L | B L D"),
    )  # fmt: skip
    check_mask("selective_scan", mask)
    check_packing("selective_scan", cu_seqlens, sizes)
    if sizes["G"] == 0 or sizes["D"] % sizes["G"]:
        raise ShapeError(
            f"selective_scan: {sizes['D']} channels cannot be shared by {sizes['G']} groups; "
            "the number of groups must divide the number of channels"
        )
    chosen = choose("selective_scan", u, backend)
    out_dtype, dtype = u.dtype, compute_dtype(u)
    stored = storage_dtype(chosen, u, delta, B, C, z)
    u, delta, B, C = (x.to(stored) for x in (u, delta, B, C))
    z = None if z is None else z.to(stored)
    D, delta_bias, initial_state, delta_scale = (
        None if x is None else x.to(dtype) for x in (D, delta_bias, initial_state, delta_scale)
    )
    A, tied = A.to(dtype), A.dim() == 1
    if tied:
        A = A.unsqueeze(1) * torch.arange(1, sizes["N"] + 1, dtype=dtype, device=A.device)
    if chosen == "reference":
        out, final_state = selective_scan_reference(
            u, delta, A, B, C, D, z, delta_bias=delta_bias, delta_softplus=delta_softplus,
            dt_limit=dt_limit, initial_state=initial_state, mask=mask, reverse=reverse,
            delta_scale=delta_scale, cu_seqlens=cu_seqlens,
        )  # fmt: skip
    else:
        out, final_state = _fused(chosen)(
            u, delta, A, B, C, D, z, delta_bias, initial_state, mask, delta_scale, cu_seqlens,
            flags=(delta_softplus, float(dt_limit[0]), float(dt_limit[1]), reverse, tied),
        )  # fmt: skip
    out = out.to(out_dtype)
    return (out, final_state) if return_final_state else out


def _fused(backend: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return the scan of a backend; Triton is imported only where it runs."""
    if backend == "native":
        return selective_scan_native
    from tsmamba_kernels.selective_scan.gpu import selective_scan_triton

    return selective_scan_triton


def selective_state_update(
    state: Tensor,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    *,
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    delta_scale: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Advance a state by one step: `selective_scan` of length one.

    Call it to score or generate point by point in constant time and memory; a loop of it gives the
    numbers of one `selective_scan`.

    Parameters
    ----------
    state : Tensor of shape (B, D, N)
        State before the step; not modified.
    x, dt : Tensor of shape (B, D)
        Input and raw step size.
    A, D, z, dt_bias, dt_softplus, backend
        As in `selective_scan`, without the time axis.
    B, C : Tensor of shape (B, N) or (B, G, N)
        Input and output maps.
    delta_scale : Tensor of shape (B,) or (B, D), optional
        Real time elapsed since the last step.

    Returns
    -------
    y : Tensor of shape (B, D)
        Output of the step.
    state : Tensor of shape (B, D, N)
        State after it.

    Raises
    ------
    ShapeError, BackendUnavailableError
        As in `selective_scan`.

    Examples
    --------
    >>> import torch
    >>> one = torch.ones(1, 1)
    >>> y, state = selective_state_update(torch.zeros(1, 1, 1), one, one, -one, one, one)
    >>> y.item(), state.item()
    (1.0, 1.0)
    """
    y, state = selective_scan(
        x.unsqueeze(1), dt.unsqueeze(1), A, B.unsqueeze(1), C.unsqueeze(1), D,
        None if z is None else z.unsqueeze(1), delta_bias=dt_bias, delta_softplus=dt_softplus,
        initial_state=state, return_final_state=True,
        delta_scale=None if delta_scale is None else delta_scale.unsqueeze(1), backend=backend,
    )  # fmt: skip
    return y.squeeze(1), state
