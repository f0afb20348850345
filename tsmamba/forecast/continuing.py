"""`partial_fit` of a forecaster: it learns from newer rows, from the present weights on."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import polars as pl

from tsmamba.callbacks import observed
from tsmamba.data.panel import Panel, Scaling
from tsmamba.data.place import place_rows
from tsmamba.forecast.backtest import naive_scales
from tsmamba.forecast.defaults import Plan, choose_season, complete_plan
from tsmamba.forecast.fitting import Fitting
from tsmamba.forecast.model import ForecastModel
from tsmamba.forecast.presets import Preset
from tsmamba.forecast.progress import progress_bar
from tsmamba.forecast.recipe import Recipe
from tsmamba.forecast.rolling import RollingOrigins
from tsmamba.forecast.settings import Network
from tsmamba.forecast.source import Source
from tsmamba.training import process_rank


class ContinuedFits(RollingOrigins):
    """A forecaster that can go on from an earlier fit."""

    network: Network | None
    multivariate: bool
    random_state: int | None
    verbose: int
    report_: dict[str, Any]

    def fit(self, df: Any, y: None = None, *, val_size: int = 0) -> Self:
        """Fit from scratch."""
        raise NotImplementedError

    def _recipe(self, sizes: Plan, source: Source, preset: Preset) -> Recipe:
        raise NotImplementedError

    @observed
    def partial_fit(self, df: Any, y: None = None) -> Self:
        """Learn from newer rows, from the present fit on; without one it is `fit`.

        The rows given are what is learned from: windows whose steps to forecast begin at the first
        of them or later. The rows that the model keeps, as many as a forecast needs, are the
        history of these windows. So few rows change little, and fewer than ``horizon_`` change no
        weights: then it is `update`.

        The base is solved anew on these windows, drawn to its present map as strongly as left-out
        blocks of them show to be best. The corrector is trained on in ``mode="full"`` and stays as
        it is otherwise; its gate and the intervals are judged anew where the windows suffice.
        Sizes, scales, the encoding of covariates and their effects stay. The next forecast starts
        after the rows, as after `update`.

        Rows that were learned from before make gate and intervals look better than they are.

        Parameters
        ----------
        df : frame
            Rows of fitted series, or of new ones, with all columns of the fit. Rows that are known
            already are learned from, too: after `update` give the same rows to learn from them.
        y : None
            Ignored; here for scikit-learn's interface.

        Returns
        -------
        self
            Itself, with a new ``report_``.

        Raises
        ------
        ParameterError
            If a parameter is out of range.
        FrameError
            If the frame cannot be used; nothing is changed then.

        Examples
        --------
        >>> from tsmamba import MambaForecaster
        >>> df = pl.DataFrame({"ds": range(600), "y": np.sin(np.arange(600) / 4)})
        >>> forecaster = MambaForecaster(horizon=12, mode="base").fit(df.head(400))
        >>> forecaster.partial_fit(df.tail(200)).predict()["ds"][0]
        600
        >>> forecaster.report_["training_windows"], forecaster.report_["drawn_to"]
        (189, 'present weights')
        """
        if self._events is not None:
            self._check_of_series("partial_fit")
        if not hasattr(self, "_fitted"):
            return self.fit(df)
        return self._continue(df, Fitting)

    def _continue(
        self, df: Any, kind: type[Fitting], changed: Callable[[Recipe], Recipe] = lambda same: same
    ) -> Self:
        """Learn from newer rows by one kind of fit, with a changed recipe."""
        preset = self._check_parameters()
        fitted, season = self._fitted, self.season_length_
        joined = self._joined(df)
        panel, covariates = self._known(joined)
        model = fitted.model
        if not np.array_equal(panel.numbers, np.arange(len(fitted.scaling.ids))):
            profile = model.profile and model.profile.completed(panel)
            model = replace(model.renumbered(panel.numbers), profile=profile)
        panel = replace(self._inputs().weighted(df, panel), numbers=np.arange(len(panel)))
        begin = _first_given(df, panel)
        source = Source.of(panel, season, model.cycles, covariates, model.effects, model.profile)
        source = replace(source, store=source.store.starting(begin))
        patch = (self.network or Network()).patch_length or preset.patch_length
        steps = panel.lengths - np.maximum(begin, model.context.recent)
        sizes = complete_plan(season, model.horizon, model.context, patch, steps)
        recipe = self._recipe(sizes, source, preset).starting_from(model.corrector)
        fitting = kind(
            source,
            sizes,
            changed(recipe),
            seed=self.random_state,
            present=model,
            multivariate=self.multivariate,
        )
        model, report = self._run(fitting)
        self._fitted = replace(
            fitted,
            model=model,
            scaling=Scaling.of(panel),
            naive_scale=_completed(fitted.naive_scale, panel),
            history=self._kept(joined, panel, model, season),
        )
        self.report_ = report
        return self

    def _run(self, fitting: Fitting) -> tuple[ForecastModel, dict[str, Any]]:
        """Run a fit behind a progress bar, if one is wanted."""
        show = self.verbose > 0 and process_rank() == 0
        with progress_bar(fitting.steps, show=show) as on_step:
            return fitting.run(on_step)


def _first_given(rows: Any, panel: Panel) -> np.ndarray:
    """Return the step of the first of some rows in each series, its length where it has none."""
    placed = place_rows(rows, panel, [], np.zeros_like(panel.lengths), panel.lengths)
    width = len(panel.columns.targets)
    first = panel.lengths[::width].copy()
    np.minimum.at(first, placed.numbers, placed.steps)
    return np.repeat(first, width)


def _completed(scales: pl.DataFrame, panel: Panel) -> pl.DataFrame:
    """Return what errors are scaled by, with that of series that were not there before."""
    every = naive_scales(panel, choose_season(panel))
    return pl.concat([scales, every.join(scales, on=["id", "target"], how="anti")])
