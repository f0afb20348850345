"""Watches the training of every fit."""

import math
import warnings

from torch import nn

from tsmamba.callbacks import Callback, Fit
from tsmamba.errors import HealthWarning, ParameterError
from tsmamba.health.container import Health
from tsmamba.health.finite import Finite
from tsmamba.health.gpu import Gpu

__all__ = ["HealthCallback"]


class HealthCallback(Callback):
    """Looks at loss, gradients and weights every so many steps of a fit, and warns once in each.

    Parameters
    ----------
    every : int >= 1, default 100
        Steps from one look to the next; the first step is looked at.
    stop : bool, default False
        Whether to end a training that is not finite, as Ctrl-C does: with the best weights so far.
    gpu : Gpu, optional
        Waited for where it asks for a pause.

    Attributes
    ----------
    health : Health
        Monitors "finite_loss", "finite_gradients" and "finite_weights" of the latest fit.

    Examples
    --------
    >>> from tsmamba import MambaForecaster, Network, Training
    >>> from tsmamba.callbacks import register
    >>> from tsmamba_datasets import make_seasonal
    >>> forecaster = MambaForecaster(
    ...     horizon=24, context_length=120, mode="full",
    ...     network=Network(patch_length=24, d_model=8, n_layers=1),
    ...     training=Training(max_steps=3),
    ... )
    >>> watch = HealthCallback(every=1)
    >>> with register(watch):
    ...     forecaster = forecaster.fit(make_seasonal(length=1_000))
    >>> watch.health.ok, watch.health.metrics()["finite_weights_norm"] > 0
    (True, True)
    """

    def __init__(self, every: int = 100, *, stop: bool = False, gpu: Gpu | None = None) -> None:
        if every < 1:
            raise ParameterError(f"every={every!r}; pass 1 or more, such as 100")
        self.every = every
        self.stop = stop
        self.gpu = gpu
        self._warned: Fit | None = None
        self.health = self._new_health()

    def on_fit_start(self, fit: Fit) -> None:
        """Begin anew."""
        self.health = self._new_health()
        self._warned = None

    def on_step(self, fit: Fit, step: int, loss: float, network: nn.Module) -> None:
        """Look at a step, if it is time to.

        Parameters
        ----------
        fit : Fit
            The fit.
        step : int >= 1
            Steps of the fit so far.
        loss : float
            Of the step.
        network : Module
            After the step, with its gradients.
        """
        if self.gpu is not None:
            self.gpu.wait()
        # A loss costs nothing to look at, and is the first to go.
        if math.isfinite(loss) and (step - 1) % self.every:
            return
        gradients = {name: each.grad for name, each in network.named_parameters()}
        self.health.observe(loss=loss, gradients=gradients, weights=network)
        broken = [check.message for check in self.health.report() if not check.ok]
        if not broken:
            return
        if self._warned is not fit:
            self._warned = fit
            warnings.warn(f"step {step}: {'; '.join(broken)}", HealthWarning, stacklevel=2)
        if self.stop:
            raise KeyboardInterrupt

    @staticmethod
    def _new_health() -> Health:
        return Health(Finite(reads, every=1) for reads in ("loss", "gradients", "weights"))
