"""A network that runs, and what is known of its states."""

import numpy as np
import pytest
import torch
from torch import nn

from tsmamba.nn import FusedStack, MambaStack

STEPS_APART = 10  # steps between two looks at the state
WARM = 2_000  # steps that the slowest part of the state takes to fill
STREAMS = 16


class Model:
    """An embedding and a stack, over streams of one channel with a season."""

    def __init__(self, A_init="log-uniform", season=24):
        torch.manual_seed(0)
        self.stack = MambaStack(16, n_layers=2, A_init=A_init).eval()
        self.embed = nn.Linear(1, 16)
        self.season = season

    def data(self, length, seed, streams=STREAMS):
        rng = np.random.default_rng(seed)
        phase = np.arange(length) / self.season + rng.random((streams, 1))
        values = np.sin(2 * np.pi * phase) + 0.3 * rng.normal(size=(streams, length))
        return torch.tensor(values, dtype=torch.float32).unsqueeze(-1)

    @torch.no_grad()
    def states(self, x):
        """Yield the state after each few steps, without those in which it still fills."""
        fused = FusedStack(self.stack)
        packed = fused.init_state(len(x))
        for number, token in enumerate(self.embed(x).unbind(1), start=1):
            fused.step(token.contiguous(), packed)
            if number > WARM and number % STEPS_APART == 0:
                yield fused.unpack(packed)


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def slow_model():
    return Model("s4d-real", season=288)


@pytest.fixture(scope="session")
def calm():
    """States of a run that is well, 200 of them."""
    model = Model()
    return list(model.states(model.data(WARM + 2_000, seed=0)))
