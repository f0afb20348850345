"""`finetune` of a forecaster: its corrector learns from newer rows, or from other series."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from tsmamba.callbacks import observed
from tsmamba.errors import ParameterError
from tsmamba.forecast.calibration import calibrate
from tsmamba.forecast.continuing import ContinuedFits
from tsmamba.forecast.correction import MOST_GATE, split_windows
from tsmamba.forecast.fitting import LEAST_CALIBRATION, Fitting, mean_error
from tsmamba.forecast.model import ForecastModel
from tsmamba.forecast.recipe import Recipe
from tsmamba.forecast.tuning import Method, Progress, Tuning
from tsmamba.training import Training


class FineTuning(ContinuedFits):
    """A forecaster whose corrector can be fine-tuned."""

    training: Training | None

    @observed
    def finetune(
        self,
        df: Any,
        *,
        method: Method = "lora",
        warmup_steps: int = 0,
        rank: int = 8,
        alpha: float = 16.0,
        training: Training | None = None,
    ) -> Self:
        """Train the present corrector on newer rows or on other series, in any mode.

        It is `partial_fit` with three differences. The corrector is trained in ``mode="fast"``,
        too. A method may train a part of its weights only. And the result is taken only where its
        error on validation windows of the rows, whose targets neither base nor corrector was fitted
        to, is below that of the forecaster as it was; otherwise base, corrector and gate stay. The
        intervals are judged anew in both cases.

        Where the fit left the corrector out, the one that comes with the package is tuned. Low-rank
        matrices are merged into the weights they belong to, so a saved file has nothing of them.

        Rows that were learned from before make the forecaster as it was look better than it is.

        Parameters
        ----------
        df : frame
            Rows of fitted series, or of new ones, with all columns of the fit.
        method : {"full", "head", "ssm-frozen", "lora"}, default "lora"
            What is trained of the corrector: all of it; its output heads; all but the decay rates,
            skips, step sizes and selection of its scans; or low-rank matrices beside the weights
            that select B and C, and the output heads.
        warmup_steps : int >= 0, default 0
            Steps before the others in which the decay rates alone are trained, at a learning rate
            of at most 1e-5; only with "full".
        rank : int >= 1, default 8
            Of the low-rank matrices.
        alpha : float > 0, default 16
            The matrices count by ``alpha / rank``.
        training : Training, optional
            Knobs of this training; those of the forecaster by default.

        Returns
        -------
        self
            Itself, with a new ``report_``; its entry ``"finetuning"`` says what was decided.

        Raises
        ------
        NotFittedError
            Before `fit` or `load`.
        ParameterError
            If an argument is out of range, or there is no corrector to tune.
        FrameError
            If the frame cannot be used; nothing is changed by an error.

        Examples
        --------
        >>> import numpy as np
        >>> import polars as pl
        >>> from tsmamba import MambaForecaster, Training
        >>> df = pl.DataFrame({"ds": range(1500), "y": np.sin(np.arange(1500) / 4)})
        >>> forecaster = MambaForecaster(horizon=12, random_state=0).fit(df.head(700))
        >>> tuned = forecaster.finetune(df.tail(800), method="lora", training=Training(max_steps=5))
        >>> tuned.predict()["ds"][0]
        1500
        """
        self._check_of_series("finetune")
        tuning = Tuning(method, warmup_steps, rank, alpha)
        tuning.check()
        settings = training or self.training or Training()
        if not isinstance(settings, Training):
            raise ParameterError(f"training={training!r}; pass a tsmamba.Training or None")
        settings.check()

        def tuned(recipe: Recipe) -> Recipe:
            config, present = recipe.config, recipe.pretrained
            if config is None or present is None:
                raise ParameterError(
                    "mode='base' has no corrector to tune; call partial_fit, which solves the base "
                    "anew, or fit in mode='fast' or 'full'"
                )
            if present.config.shape != config.shape:
                raise ParameterError(
                    "the fit left its corrector out, and the one that comes with the package has "
                    "another shape than network=; call partial_fit, which trains a new one"
                )
            config = replace(config, spread=settings.loss == "student-t")
            return replace(recipe, config=config, training=settings, tuning=tuning)

        return self._continue(df, _Guarded, tuned)


@dataclass(frozen=True)
class _Guarded(Fitting):
    """A fit whose model is taken only where it errs less than the present one."""

    def run(self, on_step: Progress) -> tuple[ForecastModel, dict[str, Any]]:
        """Fit, and judge both models on the windows that the gate was judged on."""
        model, report = super().run(on_step)
        present = self.present
        if present is None:
            return model, report
        error = report.get("validation_error")
        if error is None:
            reason = report["corrector"].partition(": ")[2]
            return present, report | {"finetuning": f"not used: {reason}"}
        store, horizon = self.source.store, self.plan.horizon
        windows = store.windows(self.plan.context.recent, horizon)
        split = split_windows(store, windows, horizon)
        judged = self.judged(windows, split).thinned(MOST_GATE)
        forecast = partial(present.normalised, self.source)
        before = mean_error(store, judged, horizon, forecast)
        decision = "used" if error < before else "not used"
        report["finetuning"] = (
            f"{decision}: validation error {before:.4g} before, {error:.4g} after"
        )
        report["validation_error_before"] = before
        if error < before:
            return model, report
        if len(windows) >= LEAST_CALIBRATION:
            report.pop("intervals", None)
            calibration = calibrate(store, windows, horizon, forecast)
            present = replace(
                present,
                residuals=calibration.plain,
                spread_residuals=calibration.spread if calibration.spread_helps else None,
            )
        return present, report
