"""Sets of the forecasting benchmark as a corrector meets them that has seen none of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.forecast.models.contestant import Forecast
from benchmarks.forecast.problem import Problem, target_col
from benchmarks.forecast.scores import Scores
from benchmarks.forecast.sets import ForecastSet
from tools.pretrain import CONFIG
from tsmamba.data.panel import read_panel
from tsmamba.data.windows import Windows
from tsmamba.forecast.correction import Correction, assemble
from tsmamba.forecast.defaults import plan
from tsmamba.forecast.linear import fit_linear_base
from tsmamba.forecast.network import Corrector
from tsmamba.forecast.source import Source

_MOST_TESTED = 2_000
_BATCH = 256


@dataclass(frozen=True)
class Trial:
    """One set and horizon, with the base and the windows of ``MambaForecaster(mode="fast")``.

    Parameters
    ----------
    problem : Problem
        The set and the horizon.
    correction : Correction
        The base, fitted on the training part.
    judged : Windows
        Windows of the training part that the gate may look at.
    tested : Source
        The whole series, in units of the training part.
    test : Windows
        At most about 2,000 windows of the test part, evenly spread.
    """

    problem: Problem
    correction: Correction
    judged: Windows
    tested: Source
    test: Windows

    @classmethod
    def of(cls, source: ForecastSet, horizon: int) -> "Trial":
        """Fit the base of a set."""
        problem = Problem.of(source, horizon)
        panel = read_panel(problem.train_frame, target_col=target_col(source))
        sizes = plan(
            panel, horizon=horizon, context_length=None, season_length=None, patch_length=None
        )
        training = Source.of(panel, sizes.season, ())
        windows = training.store.windows(sizes.context.recent, horizon)
        base = fit_linear_base(
            training.store, windows, sizes.context, horizon, sizes.season, stride=sizes.stride
        )
        origins = problem.test.thinned(_MOST_TESTED)
        return cls(
            problem,
            Correction(training, sizes.context, base, CONFIG),
            windows,
            Source.of(problem.panel, sizes.season, ()),
            origins.at(torch.arange(len(origins))),
        )

    def evaluate(self, corrector: Corrector) -> dict[str, Any]:
        """Judge a corrector.

        Parameters
        ----------
        corrector : Corrector
            In evaluation mode.

        Returns
        -------
        dict
            Set, horizon, mean ``gate``, number of windows, and "mse" and "mae" of the ``base``, the
            ``corrected`` and the ``gated`` forecast.
        """
        correction = replace(self.correction, config=corrector.config)
        gate, _, _ = correction.gate([corrector], self.judged)
        names = ("base", "corrected", "gated")
        scores = {name: Scores(self.problem.horizon) for name in names}
        for windows in self.test.batches(_BATCH):
            truth, observed = self.tested.store.future(windows, self.problem.horizon)
            for name, point in zip(names, self._points(corrector, gate, windows), strict=True):
                scores[name].add(truth, observed, Forecast(point))
        return {
            "set": self.problem.source.name,
            "horizon": self.problem.horizon,
            "gate": round(float(gate.mean()), 4),
            "n_windows": len(self.test),
            **{name: _rounded(scores[name]) for name in names},
        }

    @torch.no_grad()
    def _points(self, corrector: Corrector, gate: Tensor, windows: Windows) -> Sequence[Tensor]:
        """Return the forecasts with no correction, the whole one, and the gated one."""
        base_of = self.correction.base.whole().forecaster(self.tested.store, windows)
        batch = assemble(self.tested, windows, self.correction.context, corrector.config, base_of)
        added = corrector(*batch.inputs)
        shares = (0.0, 1.0, gate)
        return [batch.level.restore(batch.base + share * added) for share in shares]


def _rounded(scores: Scores) -> dict[str, float]:
    summary = scores.summary()
    return {key: round(summary[key], 6) for key in ("mse", "mae")}
