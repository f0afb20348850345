"""A task of pure memory: a cue thousands of steps back decides the level to come.

    python -m benchmarks.memory.cue

trains correctors on made-up windows and prints a table. A window is noise with one pulse, up or
down; the next steps lie at +1 or -1, as the pulse pointed. In training the pulse stands anywhere up
to 6,000 steps back, near or far alike; what is judged are pulses 6,000 steps back.
"""

import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.corrector.stacks import LstmStack, MlpMixer
from benchmarks.forecast.run import environment
from tsmamba import Training
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.training import train

LENGTH = 8_192
DISTANCE = 6_000
HORIZON = 96
PATCH = 32
STEPS = 600
SEEDS = (0, 1, 2)
_PULSE, _HEIGHT = 16, 4.0
_NEAREST = 16
_BATCH = 32
_JUDGED = 400


class Outcome(NamedTuple):
    """Error of the level that was forecast, and the share of windows that point the right way."""

    mae: float
    right: float


def windows(count: int, generator: torch.Generator, *, far: bool) -> tuple[Tensor, Tensor]:
    """Draw windows.

    Parameters
    ----------
    count : int
        How many.
    generator : torch.Generator
        Of what is drawn.
    far : bool
        Whether pulses are 6,000 steps back or a little more; otherwise their distances are even on
        a logarithmic scale up to that.

    Returns
    -------
    history : Tensor of shape (n, 8192)
        Noise of standard deviation 1, and a pulse.
    level : Tensor of shape (n,)
        -1 or 1.
    """
    history = torch.randn(count, LENGTH, generator=generator)
    level = torch.randint(2, (count,), generator=generator) * 2.0 - 1.0
    place = torch.rand(count, generator=generator)
    back = DISTANCE + 64 * place
    if not far:
        back = _NEAREST * (place * math.log(DISTANCE / _NEAREST)).exp()
    steps = LENGTH - back.long()[:, None] + torch.arange(_PULSE)
    history.scatter_add_(1, steps, _HEIGHT * level[:, None].expand(-1, _PULSE))
    return history, level


def forecasts(corrector: Corrector, history: Tensor) -> Tensor:
    """Return what a corrector adds to a base forecast of zeros, (n, H)."""
    n, length = history.shape
    tokens = (length + HORIZON) // PATCH
    seen = torch.ones(n, length, dtype=torch.bool)
    corrected: Tensor = corrector(history, torch.zeros(n, HORIZON), seen, torch.zeros(n, tokens, 0))
    return corrected


def solve(corrector: Corrector, seed: int, steps: int = STEPS) -> Outcome:
    """Train a corrector, then judge it on windows that it has not seen.

    Parameters
    ----------
    corrector : Corrector
        New; it reads the last steps of a window, as many as its configuration says.
    seed : int
        Of the windows.
    steps : int
        Gradient steps.

    Returns
    -------
    Outcome
        On pulses 6,000 steps back.
    """
    context = corrector.config.history
    drawn = torch.Generator().manual_seed(seed)
    watched = windows(_JUDGED // 4, torch.Generator().manual_seed(seed + 1_000), far=False)
    judged = windows(_JUDGED, torch.Generator().manual_seed(seed + 2_000), far=True)

    def error(network: Corrector, given: tuple[Tensor, Tensor]) -> Tensor:
        history, level = given
        return (forecasts(network, history[:, -context:]) - level[:, None]).abs().mean()

    @torch.no_grad()
    def watch(network: Corrector) -> float:
        return float(error(network, watched))

    training = Training(max_steps=steps, lr=5e-3, eval_every=max(1, steps // 4))
    train(corrector, training, lambda net: error(net, windows(_BATCH, drawn, far=False)), watch)
    with torch.no_grad():
        said = forecasts(corrector.eval(), judged[0][:, -context:])
    right = (said.mean(1) > 0) == (judged[1] > 0)
    return Outcome(float((said - judged[1][:, None]).abs().mean()), float(right.float().mean()))


def make(context: int = LENGTH, n_layers: int = 2, d_state: int = 16) -> Corrector:
    """Return a new corrector."""
    config = CorrectorConfig(context, HORIZON, PATCH, n_layers=n_layers, d_state=d_state)
    return Corrector(config)


def lstm() -> Corrector:
    """Return a corrector with an LSTM in the place of its Mamba."""
    corrector = make()
    config = corrector.config
    corrector.set_submodule("stack", LstmStack(config.d_model, config.n_layers, config.dropout))
    return corrector


def mlp_mixer() -> Corrector:
    """Return a corrector with a perceptron over tokens and channels in the place of its Mamba."""
    corrector = make()
    config = corrector.config
    tokens = config.history_tokens + config.forecast_tokens(HORIZON)
    stack = MlpMixer(config.d_model, config.n_layers, tokens, config.dropout)
    corrector.set_submodule("stack", stack)
    return corrector


CONTESTANTS: dict[str, Callable[[], Corrector]] = {
    "Mamba, context 8,192": make,
    "Mamba, context 4,096": lambda: make(4_096),
    "one layer instead of two": lambda: make(n_layers=1),
    "one state instead of sixteen": lambda: make(d_state=1),
    "LSTM of the same size": lstm,
    "MLP mixer of the same size": mlp_mixer,
}


def lines() -> Iterator[str]:
    """Train all with every seed: the lines of a table as they come, and where it was made."""
    header = ["", *(f"seed {seed}" for seed in SEEDS), "right way"]
    yield f"| {' | '.join(header)} |"
    yield "| --- " * len(header) + "|"
    for name, contestant in CONTESTANTS.items():
        found = []
        for seed in SEEDS:
            torch.manual_seed(seed)
            found.append(solve(contestant(), seed))
        right = sum(outcome.right for outcome in found) / len(found)
        errors = " | ".join(f"{outcome.mae:.3f}" for outcome in found)
        yield f"| {name} | {errors} | {100 * right:.0f} % |"
    yield str(environment())


if __name__ == "__main__":
    torch.set_num_threads(1)
    for line in lines():
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
