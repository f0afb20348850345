"""Fitting: from a panel to a `ForecastModel`, and a report of what happened on the way."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tsmamba.data.clock import Clock
from tsmamba.data.windows import Windows, WindowStore
from tsmamba.errors import SeriesTooShortError
from tsmamba.forecast.base import BaseFit, Level, blocks_of, features, fit_base
from tsmamba.forecast.calibration import Forecaster, calibrate
from tsmamba.forecast.correction import Correction, Split, assemble, split_windows
from tsmamba.forecast.defaults import Plan
from tsmamba.forecast.model import ForecastModel
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.training import Training
from tsmamba_kernels import backend_report

# Below these a corrector has nothing to learn from, or nothing to prove itself on.
_LEAST_STEPS = 512
_LEAST_TRAINING = 256
_LEAST_VALIDATION = 32

Progress = Callable[[int, float], None]


@dataclass(frozen=True)
class Fitting:
    """One fit: the data, the sizes and the knobs.

    Parameters
    ----------
    store, clock
        Values and calendar of the training panel.
    plan : Plan
        Sizes.
    config : CorrectorConfig, optional
        Shape of the corrector; without one only the base is fitted.
    training : Training
        Knobs of its training.
    val_size : int
        Steps at the end of each series to validate on; 0 for parts of every block of time.
    seed : int, optional
        Of weights, batches and dropout; drawn at random by default.
    """

    store: WindowStore
    clock: Clock
    plan: Plan
    config: CorrectorConfig | None
    training: Training
    val_size: int = 0
    seed: int | None = None

    def run(self, on_step: Progress) -> tuple[ForecastModel, dict[str, Any]]:
        """Fit base, corrector, gate and residual quantiles.

        Parameters
        ----------
        on_step : callable
            Told the number and the loss of each training step.

        Returns
        -------
        model : ForecastModel
            The fit.
        report : dict
            What was used, what it gained and how long it took.

        Raises
        ------
        SeriesTooShortError
            If validation leaves nothing to train on.
        """
        started = time.perf_counter()
        plan = self.plan
        windows = self.store.windows(plan.context.recent, plan.horizon)
        split = split_windows(self.store, windows, plan.horizon, self.val_size)
        fitted_on = split.training if self.val_size else windows
        if not len(fitted_on):
            raise SeriesTooShortError(
                f"val_size={self.val_size} leaves no window of {plan.context.recent} steps of "
                f"history and {plan.horizon} steps of horizon to train on; the longest series has "
                f"{int(self.store.offsets.diff().max())} steps: pass a smaller val_size"
            )
        strided = fitted_on.select(torch.arange(0, len(fitted_on), plan.stride))
        base = fit_base(self.store, strided, plan.context, plan.horizon)
        report: dict[str, Any] = {
            "training_windows": len(fitted_on),
            "base_seconds": time.perf_counter() - started,
            "penalty": float(base.penalties.median()),
        }
        corrector, gate = None, torch.zeros(plan.horizon)
        reason = self._reason_against_corrector(split)
        if reason is None and self.config is not None:
            corrector, gate, gained = self._correct(base, self.config, split, on_step)
            report |= gained
            if not gate.any():
                corrector, reason = None, "it did not lower the validation error of the base"
        report["corrector"] = "used" if reason is None else f"not used: {reason}"
        report["backend"] = backend_report().get("selective_scan", "none")
        # A corrector has seen its training windows; the folds of the base have seen none of theirs.
        unseen = fitted_on if corrector is None else split.validation
        forecast = self._out_of_sample(base, corrector, gate)
        residuals = calibrate(self.store, unseen, plan.horizon, forecast)
        report["seconds"] = time.perf_counter() - started
        cycles = self.clock.cycles
        return ForecastModel(plan.context, base.weights, residuals, corrector, gate, cycles), report

    def _reason_against_corrector(self, split: Split) -> str | None:
        longest = int(self.store.offsets.diff().max())
        if self.config is None:
            return "mode='base'"
        if longest < _LEAST_STEPS:
            return f"the longest series has {longest} steps, fewer than {_LEAST_STEPS}"
        if len(split.training) < _LEAST_TRAINING or len(split.validation) < _LEAST_VALIDATION:
            return (
                f"{len(split.training)} windows to train on and {len(split.validation)} to "
                f"validate on; it needs {_LEAST_TRAINING} and {_LEAST_VALIDATION}"
            )
        return None

    def _correct(
        self, base: BaseFit, config: CorrectorConfig, split: Split, on_step: Progress
    ) -> tuple[Corrector, Tensor, dict[str, Any]]:
        """Train a corrector and its gate; the global random state is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.seed() if self.seed is None else torch.manual_seed(self.seed)
            corrector = Corrector(config)
            correction = Correction(self.store, self.clock, self.plan.context, base, config)
            history = correction.train(corrector, split, self.training, on_step)
        gate, base_error, error = correction.gate(corrector, split.validation)
        return (
            corrector,
            gate,
            {
                "n_parameters": sum(p.numel() for p in corrector.parameters()),
                "steps": history.steps,
                "interrupted": history.interrupted,
                "windows_per_second": history.windows / max(history.seconds, 1e-9),
                "validation_error_base": base_error,
                "validation_error": error,
                "gate": float(gate.mean()),
            },
        )

    def _out_of_sample(
        self, base: BaseFit, corrector: Corrector | None, gate: Tensor
    ) -> Forecaster:
        def forecast(windows: Windows) -> tuple[Tensor, Level]:
            base_of = base.out_of_fold(blocks_of(self.store, windows, self.plan.horizon))
            if corrector is None or self.config is None:
                inputs, level = features(self.store, windows, self.plan.context)
                return base_of(inputs), level
            batch = assemble(
                self.store, self.clock, windows, self.plan.context, self.config, base_of
            )
            return batch.base + gate * corrector(*batch.inputs), batch.level

        return forecast
