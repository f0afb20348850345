"""Shared inputs, tolerances and the parity check, for the tests and the benchmark of the kernels.

The truth is the reference in float64 on the very numbers that the backend under test got. An error
is a ratio of root mean squares: that of the difference over that of the truth.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf, isnan
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "CONV_OPTIONS",
    "LAYOUTS",
    "SCAN_OPTIONS",
    "TOLERANCES",
    "Inputs",
    "ParityError",
    "Tolerance",
    "boundaries",
    "check_parity",
    "conv_inputs",
    "masks",
    "pack",
    "relative_error",
    "run_with_gradients",
    "scan_inputs",
    "with_layout",
]

# Keyword arguments of one call of an operation.
Inputs = dict[str, Any]

SCAN_OPTIONS = ("D", "z", "delta_bias", "initial_state", "mask", "delta_scale")
CONV_OPTIONS = ("bias", "initial_state", "mask")
LAYOUTS = ("contiguous", "transposed", "sliced", "every_second", "expanded")


@dataclass(frozen=True)
class Tolerance:
    """Largest relative error of outputs and of gradients."""

    output: float
    gradient: float


TOLERANCES: Mapping[torch.dtype, Tolerance] = {
    torch.float64: Tolerance(output=1e-13, gradient=1e-12),
    torch.float32: Tolerance(output=1e-5, gradient=1e-4),
    torch.bfloat16: Tolerance(output=5e-3, gradient=1e-2),
    torch.float16: Tolerance(output=5e-3, gradient=1e-2),
}


class ParityError(AssertionError):
    """A backend differs from the reference by more than the tolerance."""


def _compute_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def scan_inputs(
    batch: int = 2,
    length: int = 65,
    channels: int = 24,
    states: int = 5,
    *,
    groups: int = 1,
    options: Collection[str] = SCAN_OPTIONS,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Inputs:
    """Draw arguments for `selective_scan` with step sizes and decays like a trained network's.

    Parameters
    ----------
    batch, length, channels, states, groups : int
        Sizes of the axes B, L, D, N and G. One group gives B and C of shape (B, L, N).
    options : collection of str
        Which of `SCAN_OPTIONS` to pass. About a quarter of the mask is False.
    dtype : torch.dtype
        Type of the (B, L, ...) operands; what belongs to channels and states is at least float32.
    seed : int
        Of the random numbers, which are the same for every type up to rounding.

    Returns
    -------
    dict
        Keyword arguments, ``delta_softplus=True`` and ``return_final_state=True`` among them.
    """
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=draw, dtype=torch.float64)

    rows, maps = (batch, length, channels), (batch, length, groups, states)
    tensors = {
        "u": normal(*rows),
        "delta": normal(*rows) - 2.0,
        "A": -0.2 - 4.0 * uniform(channels, states),
        "B": normal(*maps),
        "C": normal(*maps),
        "D": normal(channels),
        "z": normal(*rows),
        "delta_bias": normal(channels),
        "initial_state": normal(batch, channels, states),
        "mask": uniform(batch, length) < 0.75,
        "delta_scale": 0.1 + 2.0 * uniform(batch, length),
    }
    if groups == 1:
        tensors |= {name: tensors[name].squeeze(2) for name in ("B", "C")}
    wide = {"A", "D", "delta_bias", "initial_state"}
    inputs: Inputs = {}
    for name, x in tensors.items():
        if name in SCAN_OPTIONS and name not in options:
            continue
        kept = x.dtype == torch.bool
        inputs[name] = x if kept else x.to(_compute_dtype(dtype) if name in wide else dtype)
    return inputs | {"delta_softplus": True, "return_final_state": True}


def conv_inputs(
    batch: int = 2,
    length: int = 65,
    channels: int = 24,
    width: int = 4,
    *,
    options: Collection[str] = CONV_OPTIONS,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Inputs:
    """Draw arguments for `causal_conv1d`.

    Parameters
    ----------
    batch, length, channels, width : int
        Sizes of the axes B, L, D and W.
    options : collection of str
        Which of `CONV_OPTIONS` to pass. About a quarter of the mask is False.
    dtype : torch.dtype
        Type of the input; the rest is at least float32.
    seed : int
        Of the random numbers, which are the same for every type up to rounding.

    Returns
    -------
    dict
        Keyword arguments, ``activation="silu"`` and ``return_final_state=True`` among them.
    """
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    wide = _compute_dtype(dtype)
    inputs: Inputs = {
        "x": normal(batch, length, channels).to(dtype),
        "weight": normal(channels, width).to(wide),
        "bias": normal(channels).to(wide),
        "initial_state": normal(batch, width - 1, channels).to(wide),
        "mask": torch.rand(batch, length, generator=draw) < 0.75,
    }
    inputs = {k: v for k, v in inputs.items() if k not in CONV_OPTIONS or k in options}
    return inputs | {"activation": "silu", "return_final_state": True}


def masks(batch: int, length: int) -> dict[str, Tensor]:
    """Return masks of shape (B, L) by the name of their pattern."""
    time = torch.arange(length).expand(batch, length)
    pad = torch.arange(1, batch + 1).unsqueeze(1) * (length // (batch + 1))
    return {
        "all_seen": time >= 0,
        "none_seen": time < 0,
        "left_padding": time >= pad,
        "right_padding": time < length - pad,
        "interior_gap": (time < pad) | (time >= pad + length // 4),
        "alternating": time % 2 == 0,
    }


def boundaries(length: int) -> dict[str, list[int]]:
    """Return boundaries of series packed into ``length`` steps by the name of their pattern."""
    third = length // 3
    return {
        "one": [0, length],
        "some_empty": [0, 0, third, third, length, length],
        "many_short": [*range(max(1, length // 2)), length],
    }


def pack(inputs: Inputs, bounds: list[int]) -> Inputs:
    """Return the inputs of one batch row as those of packed series, with a state for each."""
    packed = inputs | {"cu_seqlens": torch.tensor(bounds)}
    state = inputs.get("initial_state")
    if state is not None:
        shape, draw = (len(bounds) - 1, *state.shape[1:]), torch.Generator().manual_seed(0)
        packed["initial_state"] = torch.randn(shape, generator=draw, dtype=state.dtype)
    return packed


def with_layout(x: Tensor, layout: str) -> Tensor:
    """Return a (B, L, ...) tensor of one of `LAYOUTS`, with other memory around or under it.

    All but ``expanded``, which repeats the first batch row with a stride of zero, keep the numbers.
    """
    if layout == "transposed":
        return x.transpose(1, -1).contiguous().transpose(1, -1)
    if layout == "sliced":
        wider = x.new_full((*x.shape[:-1], x.shape[-1] + 5), torch.nan)
        wider[..., 2:-3] = x
        return wider[..., 2:-3]
    if layout == "every_second":
        sparse = x.new_full((x.shape[0], 2 * x.shape[1], *x.shape[2:]), torch.nan)
        sparse[:, ::2] = x
        return sparse[:, ::2]
    if layout == "expanded":
        return x[:1].expand(x.shape)
    return x.contiguous()


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Return the root mean square of the difference over that of ``expected``.

    Where all of ``expected`` is zero it is the root mean square of ``actual``; where a number is
    not finite it is infinite; of nothing it is zero.
    """
    if actual.shape != expected.shape:
        raise ParityError(f"shape {tuple(actual.shape)} instead of {tuple(expected.shape)}")
    if expected.numel() == 0:
        return 0.0
    expected = expected.detach().double()
    error = (actual.detach().double() - expected).square().mean().sqrt().item()
    scale = expected.square().mean().sqrt().item()
    ratio = error / scale if scale > 0 else error
    return inf if isnan(ratio) else ratio


def run_with_gradients(
    op: Callable[..., Any], inputs: Inputs, *, seed: int = 1, **extra: Any
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Call ``op`` and pull random numbers back through all of its outputs.

    Parameters
    ----------
    op : callable
        An operation that returns a tensor or a tuple of tensors.
    inputs : dict
        Its keyword arguments. Strides are kept, and nothing is copied.
    seed : int
        Of the numbers pulled back; they are rounded to bfloat16's precision, so that runs in
        different types pull the same ones.
    **extra
        More keyword arguments.

    Returns
    -------
    outputs : list of Tensor
    gradients : dict of str to Tensor
        One for each floating-point operand.
    """
    leaves = {
        name: x.detach().requires_grad_()
        for name, x in inputs.items()
        if isinstance(x, Tensor) and x.is_floating_point()
    }
    result = op(**(inputs | leaves | extra))
    outputs = list(result) if isinstance(result, tuple) else [result]
    draw = torch.Generator().manual_seed(seed)
    pulled = [
        torch.randn(y.shape, generator=draw, dtype=torch.float64).bfloat16().to(y.dtype)
        for y in outputs
    ]
    linked = [(y, pull) for y, pull in zip(outputs, pulled, strict=True) if y.requires_grad]
    gradients = torch.autograd.grad(
        [y for y, _ in linked], list(leaves.values()), [pull for _, pull in linked],
        allow_unused=True, materialize_grads=True,
    )  # fmt: skip
    return [y.detach() for y in outputs], dict(zip(leaves, gradients, strict=True))


def check_parity(
    op: Callable[..., Any],
    inputs: Inputs,
    *,
    backend: str = "native",
    tolerance: Tolerance | None = None,
) -> dict[str, float]:
    """Hold a backend against the reference in float64: outputs and all gradients.

    Parameters
    ----------
    op : callable
        `selective_scan`, `causal_conv1d`, or one that takes ``backend`` as they do.
    inputs : dict
        Its keyword arguments, of `scan_inputs` or `conv_inputs`.
    backend : str
        The backend under test.
    tolerance : Tolerance, optional
        Instead of the one that `TOLERANCES` has for the type of the first operand.

    Returns
    -------
    dict of str to float
        Relative errors by name.

    Raises
    ------
    ParityError
        If an error is above its tolerance.
    """
    first = next(x for x in inputs.values() if isinstance(x, Tensor))
    allowed = TOLERANCES[first.dtype] if tolerance is None else tolerance
    exact = {
        name: x.double() if isinstance(x, Tensor) and x.is_floating_point() else x
        for name, x in inputs.items()
    }
    outputs, gradients = run_with_gradients(op, inputs, backend=backend)
    true_outputs, true_gradients = run_with_gradients(op, exact, backend="reference")
    errors = {
        f"output {i}": relative_error(y, true)
        for i, (y, true) in enumerate(zip(outputs, true_outputs, strict=True))
    }
    limits = dict.fromkeys(errors, allowed.output)
    for name, true in true_gradients.items():
        errors[f"gradient of {name}"] = relative_error(gradients[name], true)
        limits[f"gradient of {name}"] = allowed.gradient
    broken = [f"{k}: {errors[k]:.1e} > {limits[k]:.0e}" for k in errors if errors[k] > limits[k]]
    if broken:
        sizes = {name: tuple(x.shape) for name, x in inputs.items() if isinstance(x, Tensor)}
        raise ParityError(f"{backend} differs from the reference\n{broken}\nat {sizes}")
    return errors
