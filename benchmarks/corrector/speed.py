"""A training step of the corrector against one of PatchTST of `neuralforecast`, in turns.

That package brings many others, so it gets an environment of its own beside the usual one, which
made the compiled kernels that are read from the checkout. In the root of the repository::

    python3 -m venv .venv-neuralforecast
    .venv-neuralforecast/bin/pip install -c constraints.txt torch
    .venv-neuralforecast/bin/pip install neuralforecast narwhals polars rich safetensors \
        scikit-learn typer
    PYTHONPATH=.:kernels:datasets .venv-neuralforecast/bin/python -m benchmarks.corrector.speed

Both read windows of the same length in patches of the same length and have the same width, depth
and horizon. A step is forward pass, absolute error, backward pass and AdamW. The answer is one JSON
object; the ratio is PatchTST's time over ours, the median over turns.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from statistics import median, quantiles
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.forecast.run import environment
from tsmamba.forecast.network import Corrector, CorrectorConfig

_WARM_UP = 2


@dataclass(frozen=True)
class Sizes:
    """What both networks share.

    Parameters
    ----------
    batch, context, horizon : int
        Windows of a step, and steps of history and of forecast.
    patch, width, n_layers : int
        Steps of a token, width and depth.
    """

    batch: int = 32
    context: int = 8192
    horizon: int = 96
    patch: int = 16
    width: int = 64
    n_layers: int = 2


class OurForecast(nn.Module):
    """The corrector on top of a base forecast of zeros.

    Parameters
    ----------
    sizes : Sizes
        Of the network.

    Examples
    --------
    >>> sizes = Sizes(context=64, horizon=24, width=8)
    >>> OurForecast(sizes)(torch.randn(2, 64)).shape
    torch.Size([2, 24])
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.config = CorrectorConfig(
            history=sizes.context,
            horizon=sizes.horizon,
            patch=sizes.patch,
            d_model=sizes.width,
            n_layers=sizes.n_layers,
            dropout=0.2,
            odd=True,
        )
        self.corrector = Corrector(self.config)

    def forward(self, history: Tensor) -> Tensor:
        """Return a forecast (n, H) of the history (n, L)."""
        horizon = self.config.horizon
        tokens = self.config.history_tokens + self.config.forecast_tokens(horizon)
        observed = torch.ones_like(history, dtype=torch.bool)
        base = history.new_zeros(len(history), horizon)
        context = history.new_empty(len(history), tokens, 0)
        forecast: Tensor = self.corrector(history, base, observed, context)
        return forecast


class PatchTst(nn.Module):
    """The network of `neuralforecast`'s PatchTST.

    Parameters
    ----------
    sizes : Sizes
        Of the network.
    stride, n_heads : int
        From patch to patch, and of attention.
    """

    def __init__(self, sizes: Sizes, stride: int, n_heads: int) -> None:
        from neuralforecast.models import PatchTST

        super().__init__()
        model = PatchTST(
            h=sizes.horizon,
            input_size=sizes.context,
            encoder_layers=sizes.n_layers,
            hidden_size=sizes.width,
            linear_hidden_size=4 * sizes.width,
            n_heads=n_heads,
            patch_len=sizes.patch,
            stride=stride,
        )
        self.model = model.model

    def forward(self, history: Tensor) -> Tensor:
        """Return a forecast (n, H) of the history (n, L)."""
        forecast: Tensor = self.model(history[:, None])[:, 0]
        return forecast


def training_step(network: nn.Module, sizes: Sizes) -> Callable[[], float]:
    """Return what trains a network for one step on windows of noise and gives the loss."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    history = torch.randn(sizes.batch, sizes.context)
    target = torch.randn(sizes.batch, sizes.horizon)

    def step() -> float:
        optimizer.zero_grad()
        loss = (network(history) - target).abs().mean()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def take_turns(
    ours: Callable[[], object], theirs: Callable[[], object], seconds: float
) -> list[tuple[float, float]]:
    """Return the seconds of both in each turn, for as long as told and three turns at least.

    Examples
    --------
    >>> len(take_turns(lambda: None, lambda: None, seconds=0.0))
    3
    """
    for _ in range(_WARM_UP):
        ours()
        theirs()
    turns: list[tuple[float, float]] = []
    began = time.perf_counter()
    while len(turns) < 3 or time.perf_counter() - began < seconds:
        turns.append((_seconds(ours), _seconds(theirs)))
    return turns


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def report(turns: list[tuple[float, float]]) -> dict[str, Any]:
    """Return medians of both in milliseconds, and of their ratio with its quartiles.

    Examples
    --------
    >>> report([(0.1, 0.2), (0.1, 0.4), (0.2, 0.6)])["ratio"]
    3.0
    """
    ratios = [theirs / ours for ours, theirs in turns]
    lower, middle, upper = quantiles(ratios, n=4)
    return {
        "turns": len(turns),
        "ours_ms": round(1e3 * median(ours for ours, _ in turns), 1),
        "patchtst_ms": round(1e3 * median(theirs for _, theirs in turns), 1),
        "ratio": round(middle, 2),
        "ratio_quartiles": [round(lower, 2), round(upper, 2)],
    }


def main() -> None:
    """Read the command line, race and write the result."""
    parser = argparse.ArgumentParser("python -m benchmarks.corrector.speed")
    for name, size in asdict(Sizes()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=size)
    parser.add_argument("--stride", type=int, help="of PatchTST's patches; default: the patch")
    parser.add_argument("--heads", type=int, default=4, help="of PatchTST's attention")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    sizes = Sizes(**{name: getattr(given, name) for name in asdict(Sizes())})
    stride = given.stride or sizes.patch
    networks = OurForecast(sizes), PatchTst(sizes, stride, given.heads)
    ours, theirs = (training_step(network, sizes) for network in networks)
    turns = take_turns(ours, theirs, given.seconds)
    parameters = [sum(p.numel() for p in network.parameters()) for network in networks]
    where = environment()
    where["versions"]["neuralforecast"] = version("neuralforecast")
    line = report(turns) | asdict(sizes) | {"stride": stride, "heads": given.heads}
    line |= {"parameters": dict(zip(("ours", "patchtst"), parameters, strict=True))} | where
    sys.stdout.write(f"{json.dumps(line, indent=1)}\n")


if __name__ == "__main__":
    main()
