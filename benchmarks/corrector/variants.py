"""The variants: the corrector as it is, and others that differ from it in one thing each."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmarks.corrector.stacks import LstmStack, MlpMixer, NoInput
from tools.pretrain import CONFIG, Loss, absolute_error
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.nn import MambaStack

PRESENT = "mamba"


@dataclass(frozen=True)
class Variant:
    """A corrector, and the loss it is trained with.

    Parameters
    ----------
    name, what : str
        As it stands in the tables, and in what it differs.
    config : CorrectorConfig
        Its shape.
    change : callable
        Changes a part of a new corrector.
    loss : callable
        What training lowers. The weights that are kept are those of least absolute error on the
        validation windows, whatever the loss.
    """

    name: str
    what: str
    config: CorrectorConfig = CONFIG
    change: Callable[[Corrector], None] = lambda corrector: None
    loss: Loss = absolute_error

    def make(self) -> Corrector:
        """Return a new corrector; its weights are drawn."""
        corrector = Corrector(self.config)
        self.change(corrector)
        return corrector


def squared_error(error: Tensor, weight: Tensor) -> Tensor:
    """Return the mean of the squared weighted error."""
    mean: Tensor = (error * weight).square().sum() / weight.square().sum().clamp(1e-6)
    return mean


def spectral_error(error: Tensor, weight: Tensor) -> Tensor:
    """Return the absolute error of the Fourier transform of the weighted error over the steps."""
    spectrum = torch.fft.rfft(error * weight, norm="ortho")
    mean: Tensor = spectrum.abs().sum() / weight.sum().clamp(1e-6)
    return mean


def _lstm(corrector: Corrector) -> None:
    config = corrector.config
    stack = LstmStack(config.d_model, config.n_layers, config.dropout)
    corrector.set_submodule("stack", stack)


def _mlp_mixer(corrector: Corrector) -> None:
    config = corrector.config
    most = config.history_tokens + config.forecast_tokens(config.horizon)
    stack = MlpMixer(config.d_model, config.n_layers, most, config.dropout)
    corrector.set_submodule("stack", stack)


def _bidirectional(corrector: Corrector) -> None:
    config = corrector.config
    stack = MambaStack(
        config.d_model, config.n_layers, config.d_state, bidirectional=True, dropout=config.dropout
    )
    corrector.set_submodule("stack", stack)


def _without_base(corrector: Corrector) -> None:
    corrector.set_submodule("embed_forecast", NoInput(corrector.config.d_model))


_LISTED = (
    Variant(PRESENT, "the bundled corrector's shape and training"),
    Variant("MLP mixer", "perceptrons across tokens and channels for the Mamba", change=_mlp_mixer),
    Variant("LSTM", "an LSTM for the Mamba", change=_lstm),
    Variant("bidirectional", "a second Mamba a block, from the end", change=_bidirectional),
    Variant("not odd", "no symmetry of up and down", replace(CONFIG, odd=False)),
    Variant("no base", "forecast tokens tell their place alone", change=_without_base),
    Variant("one layer", "one block for two", replace(CONFIG, n_layers=1)),
    Variant("wide", "width 64 for 32", replace(CONFIG, d_model=64)),
    Variant("long history", "960 steps of history for 480", replace(CONFIG, history=960)),
    Variant("squared loss", "squared error for absolute", loss=squared_error),
    Variant("spectral loss", "absolute error of the Fourier transform", loss=spectral_error),
)
VARIANTS = {variant.name: variant for variant in _LISTED}
