"""Fitting: from series to a `ForecastModel`, and a report of what happened on the way."""

import time
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor

from tsmamba._memory import peak_memory_mb
from tsmamba.data.windows import Windows, WindowStore
from tsmamba.errors import SeriesTooShortError
from tsmamba.forecast.base import N_BLOCKS, SIMPLE, blocks_of, features
from tsmamba.forecast.calibration import Forecaster, Residuals, calibrate
from tsmamba.forecast.correction import Correction, Normalised, Split, assemble, split_windows
from tsmamba.forecast.crossfit import CorrectorFit, cross_fit, out_of_fold
from tsmamba.forecast.defaults import Plan
from tsmamba.forecast.effects import fit_effects
from tsmamba.forecast.linear import LinearBase, fit_linear_base
from tsmamba.forecast.local import LEAST_WINDOWS, Local
from tsmamba.forecast.mixing import MixingFit, fit_mixing
from tsmamba.forecast.model import ForecastModel
from tsmamba.forecast.network import Corrector
from tsmamba.forecast.profile import fit_profile
from tsmamba.forecast.recipe import Recipe
from tsmamba.forecast.source import Source
from tsmamba.forecast.tuning import Progress
from tsmamba.training import History, Training
from tsmamba_kernels import backend_report

# Below these a corrector has nothing to learn from, or nothing to prove itself on.
_LEAST_STEPS = 512
_LEAST_TRAINING = 256
_LEAST_VALIDATION = 32
# Tails of errors take more: with fewer windows the intervals of a present model are better.
LEAST_CALIBRATION = 400
_MOST_JUDGED = 4096
_BATCH = 1024


@dataclass(frozen=True)
class Fitting:
    """One fit: the data, the sizes and the knobs.

    Parameters
    ----------
    source : Source
        The training series.
    plan : Plan
        Sizes.
    recipe : Recipe
        Where the corrector comes from.
    val_size : int
        Steps at the end of each series to validate on; 0 for parts of every block of time.
    seed : int, optional
        Of weights, batches and dropout; drawn at random by default.
    present : ForecastModel, optional
        A model to go on from, whose parts stay where the windows are too few to judge new ones.
    multivariate : bool, default False
        Whether the columns of a wide frame may tell about each other.
    """

    source: Source
    plan: Plan
    recipe: Recipe
    val_size: int = 0
    seed: int | None = None
    present: ForecastModel | None = None
    multivariate: bool = False

    @property
    def steps(self) -> int:
        """Gradient steps to do."""
        return self.recipe.steps(self._n_trainings)

    @property
    def _n_trainings(self) -> int:
        """A tail to validate on is new to a corrector; without one, blocks are left out in turn."""
        return 1 if self.val_size else N_BLOCKS

    def run(self, on_step: Progress) -> tuple[ForecastModel, dict[str, Any]]:
        """Fit effects, base, corrector, gate and residual quantiles.

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
        plan, present = self.plan, self.present
        windows = self.source.store.windows(plan.context.recent, plan.horizon)
        split = split_windows(self.source.store, windows, plan.horizon, self.val_size)
        fitted_on = split.training if self.val_size else windows
        if not len(fitted_on):
            if present is not None:
                kept = f"as before: the rows hold no window of {plan.horizon} steps"
                return present, {"training_windows": 0, "corrector": kept, "intervals": kept}
            raise SeriesTooShortError(
                f"val_size={self.val_size} leaves no window of {plan.context.recent} steps of "
                f"history and {plan.horizon} steps of horizon to train on; the longest series has "
                f"{self.source.store.longest} steps: pass a smaller val_size"
            )
        untrained = self._too_few_to_train(split)
        if untrained and present is None and self.recipe.pretrained is not None:
            other = replace(self, recipe=self.recipe.as_it_came())
            model, said = other.run(on_step)
            return model, said | {"training": f"none: {untrained}"}
        source, base, effects = self._fit_base(fitted_on)
        base, mixed = self._mixed(source, base, fitted_on)
        report: dict[str, Any] = {
            "training_windows": len(fitted_on),
            "base_seconds": time.perf_counter() - started,
            **self._about(base),
            **(effects | mixed),
        }
        judged = self.judged(fitted_on, split)
        correctors, gate, outcome = None, torch.zeros(plan.horizon), "not used"
        if present is not None and self.recipe.config is not None:
            gate = present.gate
            if present.corrector is not None:
                correctors, outcome = CorrectorFit.unseeing(present.corrector), "as before"
        reason = self._reason_against_corrector(split, judged)
        if reason is None and self.recipe.config is not None:
            correction = Correction(source, plan.context, base, self.recipe.config)
            correctors, trained = self._corrector(correction, split, on_step)
            correctors, gate, judgement = self._judged(correction, correctors, judged)
            report |= trained | judgement
            if not gate.any():
                reason = "it did not lower the validation error of the base"
                outcome = "not used"
        if reason is not None:
            report["corrector"] = f"{outcome}: {reason}"
        report["backend"] = backend_report().get("selective_scan", "none")
        plain, spread, corrector, said = self._calibrate(
            source, base, correctors, gate, fitted_on, judged
        )
        report |= said | _cost(started)
        return self._model(source, base, plain, spread, corrector, gate), report

    def judged(self, windows: Windows, split: Split) -> Windows:
        """Return the windows that the corrector is judged on.

        A pretrained corrector has seen none of the windows that the base was fitted on, and the
        folds of the base have seen none of their targets. Trained ones each know all blocks but
        one, so windows that straddle two are left out.
        """
        if self.val_size:
            return split.validation
        if self.recipe.training is None:
            return windows
        return windows.select(blocks_of(self.source.store, windows, self.plan.horizon) >= 0)

    def _model(
        self,
        source: Source,
        base: LinearBase,
        residuals: Residuals,
        spread: Residuals | None,
        corrector: Corrector | None,
        gate: Tensor,
    ) -> ForecastModel:
        whole = base.whole()
        return ForecastModel(
            context=self.plan.context,
            weights=whole.weights,
            residuals=residuals,
            corrector=corrector,
            gate=gate,
            cycles=source.clock.cycles,
            effects=source.effects,
            local=whole.local,
            spread_residuals=spread,
            mixing=whole.mixing,
            profile=source.profile,
            plain=whole.plain,
        )

    def _fit_base(self, windows: Windows) -> tuple[Source, LinearBase, dict[str, str]]:
        """Fit the base, on series without effects of covariates and profile if these help it.

        Those that a present model takes off are taken off already, and stay.
        """
        source, present = self.source, self.present
        if present is not None:
            base = self._base_of(source, windows)
            if present.local is not None:
                base = self._with_own_maps(base, present.local.repeated(), windows)
            return source, base._replace(plain=present.plain), {}
        source, with_effects, said = self._with_effects(windows)
        rest = source.panel if source.effect is None else source.effect.removed(source.panel)
        plan = self.plan
        profile, told = fit_profile(
            rest, windows, plan.context, plan.horizon, plan.season, self.val_size
        )
        said["profile"] = told
        base = with_effects or self._base_of(source, windows)
        if profile is None:
            return source, base, said
        source = source.without(source.effects, profile)
        return source, self._base_of(source, windows)._replace(plain=base.shared.weights), said

    def _base_of(self, source: Source, windows: Windows) -> LinearBase:
        plan, present = self.plan, self.present
        return fit_linear_base(
            source.store,
            windows,
            plan.context,
            plan.horizon,
            plan.season,
            None if present is None else present.weights,
            plan.stride,
        )

    def _with_effects(self, windows: Windows) -> tuple[Source, LinearBase | None, dict[str, str]]:
        """Take effects of covariates off if that helps the base; return it where it was fitted."""
        plan, plain = self.plan, self.source
        if plain.covariates is None or not plain.covariates.n_future:
            return plain, None, {}
        effects = fit_effects(plain.panel, plain.covariates, plan.season)
        if effects is None:
            return plain, None, {"effects": "not used: they explain nothing on blocks left out"}
        base, reduced = self._base_of(plain, windows), plain.without(effects)
        other = self._base_of(reduced, windows)
        judged = windows.thinned(_MOST_JUDGED)
        error = _base_error(plain, plan, base, judged)
        with_effects = _base_error(reduced, plan, other, judged)
        gain = f"error of the base {error:.4g} without, {with_effects:.4g} with them"
        if with_effects < error:
            return reduced, other, {"effects": f"used: {gain}"}
        return plain, base, {"effects": f"not used: {gain}"}

    def _with_own_maps(self, base: LinearBase, present: Local, windows: Windows) -> LinearBase:
        """Return the base with new or present own maps, whichever err less.

        Present ones stay in any case if some series have too few windows for new ones.
        """
        kept = base._replace(local=present)
        counts = torch.bincount(windows.series, minlength=len(self.source.panel))
        if counts.min() < LEAST_WINDOWS:
            return kept
        return self._best(self.source, [base, kept], windows)

    def _best(self, source: Source, bases: list[LinearBase], windows: Windows) -> LinearBase:
        """Return the base of least error out of fold, the first of those that are equal."""
        judged = windows.thinned(_MOST_JUDGED)
        return min(bases, key=lambda base: _base_error(source, self.plan, base, judged))

    def _mixed(
        self, source: Source, base: LinearBase, windows: Windows
    ) -> tuple[LinearBase, dict[str, str]]:
        """Fit what columns tell about each other, if it was asked for."""
        if not self.multivariate:
            return base, {}
        names, present = source.panel.columns.targets, self.present
        mixing, said = fit_mixing(source.store, windows, base, self.plan.context, names)
        mixed = base._replace(mixing=mixing)
        if present is not None and present.mixing is not None:
            kept = base._replace(mixing=MixingFit.repeated(present.mixing))
            if mixing is None and len(windows) < LEAST_CALIBRATION:
                return kept, {"mixing": f"as before: {said}"}
            best = self._best(source, [mixed, kept], windows)
            said = f"as before: {said}" if best is kept else said
            mixed = best
        return mixed, {"mixing": said}

    def _about(self, base: LinearBase) -> dict[str, Any]:
        drawn_to = SIMPLE[int(base.shared.simple.mode().values)]
        return {
            "penalty": float(base.shared.penalties.median()),
            "drawn_to": drawn_to if self.present is None else "present weights",
            "shares": base.local.summary() if base.local else None,
        }

    def _reason_against_corrector(self, split: Split, judged: Windows) -> str | None:
        longest = self.source.store.longest
        if self.recipe.config is None:
            return "mode='base'"
        if longest < _LEAST_STEPS:
            return f"the longest series has {longest} steps, fewer than {_LEAST_STEPS}"
        if len(judged) < _LEAST_VALIDATION:
            return f"{len(judged)} windows to validate on; it needs {_LEAST_VALIDATION}"
        return self._too_few_to_train(split)

    def _too_few_to_train(self, split: Split) -> str | None:
        """Say why nothing can be trained, if training is wanted and cannot be had."""
        enough = len(split.training) >= _LEAST_TRAINING
        if self.recipe.training is None or (enough and len(split.validation) >= _LEAST_VALIDATION):
            return None
        return (
            f"{len(split.training)} windows to train on and {len(split.validation)} to "
            f"validate on; it needs {_LEAST_TRAINING} and {_LEAST_VALIDATION}"
        )

    def _corrector(
        self, correction: Correction, split: Split, on_step: Progress
    ) -> tuple[CorrectorFit, dict[str, Any]]:
        """Return the corrector to judge; the global random state is left as it was."""
        pretrained, training = self.recipe.pretrained, self.recipe.training
        if training is None and pretrained is not None:
            return CorrectorFit.unseeing(pretrained), {"steps": 0}
        settings = self.recipe.settings(self._n_trainings)
        with torch.random.fork_rng(devices=[]):
            torch.seed() if self.seed is None else torch.manual_seed(self.seed)
            corrector = Corrector(correction.config)
            if pretrained is not None and pretrained.config.shape == corrector.config.shape:
                corrector.start_from(pretrained)

            steps = count(1)

            def told(step: int, loss: float) -> None:
                on_step(next(steps), loss)

            def train(corrector: Corrector, part: Split) -> History:
                def some(network: Corrector, settings: Training, told: Progress) -> History:
                    return correction.train(network, part, settings, told)

                history = self.recipe.tuning.train(corrector, settings, some, told)
                corrector.requires_grad_(False)
                return history

            if self.val_size:
                history, fit = train(corrector, split), CorrectorFit.unseeing(corrector)
            else:
                fit, history = cross_fit(
                    corrector, split, correction.store, correction.horizon, train
                )
        return fit, {
            "steps": history.steps,
            "interrupted": history.interrupted,
            "windows_per_second": history.windows / max(history.seconds, 1e-9),
        }

    def _judged(
        self, correction: Correction, fit: CorrectorFit, windows: Windows
    ) -> tuple[CorrectorFit, Tensor, dict[str, Any]]:
        """Return the better of a trained corrector and the pretrained one, with its gate."""
        gate, base_error, error = correction.gate(fit.folds, windows)
        used, pretrained = "used", self.recipe.pretrained
        if (
            pretrained is not None
            and pretrained is not fit.corrector
            and pretrained.config.spread == fit.corrector.config.spread
        ):
            as_it_came = CorrectorFit.unseeing(pretrained)
            other_gate, _, other = replace(correction, config=pretrained.config).gate(
                as_it_came.folds, windows
            )
            if other < error:
                fit, gate, error = as_it_came, other_gate, other
                used = "used: the pretrained one, which training did not better"
        return (
            fit,
            gate,
            {
                "n_parameters": sum(x.numel() for x in fit.corrector.parameters()),
                "validation_error_base": base_error,
                "validation_error": error,
                "gate": float(gate.mean()),
                "corrector": used,
            },
        )

    def _calibrate(
        self,
        source: Source,
        base: LinearBase,
        fit: CorrectorFit | None,
        gate: Tensor,
        fitted_on: Windows,
        judged: Windows,
    ) -> tuple[Residuals, Residuals | None, Corrector | None, dict[str, str]]:
        """Return what intervals are made of, without and with a spread, and what the report says.

        The corrector is kept only if its gated correction or its spread is used.
        """
        store, horizon, present = source.store, self.plan.horizon, self.present
        if fit is not None and not gate.any() and not fit.corrector.config.spread:
            fit = None
        corrector = None if fit is None else fit.corrector
        # More windows are new to the base, or to a corrector trained on others.
        new_to_all = corrector is None or corrector is self.recipe.pretrained
        unseen = fitted_on if new_to_all else judged
        if present is not None and len(unseen) < LEAST_CALIBRATION:
            kept = f"as before: {len(unseen)} windows of {LEAST_CALIBRATION} needed"
            return present.residuals, present.spread_residuals, corrector, {"intervals": kept}
        correctors = (None,) if fit is None else fit.folds
        forecast = out_of_fold(
            [_out_of_sample(source, self.plan, base, fold, gate) for fold in correctors],
            store,
            horizon,
        )
        calibration = calibrate(store, unseen, horizon, forecast)
        if calibration.spread is None:
            return calibration.plain, None, corrector, {}
        helps = calibration.spread_helps
        said = (
            f"{'used' if helps else 'not used'}: quantile loss {calibration.plain_loss:.4g} "
            f"without, {calibration.spread_loss:.4g} with it"
        )
        spread = calibration.spread if helps else None
        if gate.any() or helps:
            return calibration.plain, spread, corrector, {"spread": said}
        forecast = _out_of_sample(source, self.plan, base, None, gate)
        plain = calibrate(store, fitted_on, horizon, forecast).plain
        return plain, None, None, {"spread": said}


def _cost(started: float) -> dict[str, float]:
    return {"seconds": time.perf_counter() - started, "peak_memory_mb": peak_memory_mb()}


def _out_of_sample(
    source: Source, plan: Plan, base: LinearBase, corrector: Corrector | None, gate: Tensor
) -> Forecaster:
    """Return what forecasts windows by folds of the base that never saw their targets."""

    def forecast(windows: Windows) -> Normalised:
        base_of = base.out_of_fold(source.store, windows)
        if corrector is None:
            inputs, level = features(source.store, windows, plan.context)
            return Normalised(base_of(inputs), level)
        batch = assemble(source, windows, plan.context, corrector.config, base_of)
        return Normalised.of(batch, corrector, gate)

    return forecast


def _base_error(source: Source, plan: Plan, base: LinearBase, windows: Windows) -> float:
    """Return the mean absolute error of the base out of fold."""
    forecast = _out_of_sample(source, plan, base, None, torch.zeros(plan.horizon))
    return mean_error(source.store, windows, plan.horizon, forecast)


def mean_error(store: WindowStore, windows: Windows, horizon: int, forecast: Forecaster) -> float:
    """Return the mean absolute error of what a forecaster says of some windows.

    Parameters
    ----------
    store, windows, horizon
        Values, where, and how many steps.
    forecast : callable
        Forecasts windows.

    Returns
    -------
    float
        In standard deviations of a series, by the weights of the targets.
    """
    total, count = 0.0, 0.0
    for part in windows.batches(_BATCH):
        point, level, _ = forecast(part)
        values, _ = store.future(part, horizon)
        counted = store.target_weights(part, horizon)
        total += float(((level.restore(point) - values).abs() * counted).sum())
        count += float(counted.sum())
    return total / max(count, torch.finfo().tiny)
