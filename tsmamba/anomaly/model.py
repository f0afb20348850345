"""What fitting finds, and the scores that come of it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tsmamba.anomaly.autoregression import Autoregression
from tsmamba.anomaly.calibration import Calibration
from tsmamba.anomaly.calibration.calibrator import Calibrator
from tsmamba.anomaly.causal import CausalScorer
from tsmamba.anomaly.corrector import Corrector
from tsmamba.anomaly.fusion import joined, shared
from tsmamba.anomaly.joint import JointRows
from tsmamba.anomaly.memory import PatchMemory
from tsmamba.anomaly.offline import OfflineScorer
from tsmamba.anomaly.online import OnlineScorer
from tsmamba.anomaly.plan import Plan
from tsmamba.anomaly.scorer import StreamScorer
from tsmamba.anomaly.units import Units

# Of a deviation: rows that never change have no score, and still need a threshold.
_LEAST_SCORE = 1e-3


@dataclass(frozen=True)
class DetectorModel:
    """A fitted detector without its scikit-learn clothes: what streams need of it.

    Parameters
    ----------
    units : Units
        Of the channels.
    causal : StreamScorer
        Looks back.
    causal_calibrator : Calibrator
        Of its scores.
    n_fitted : int
        Rows of the fit.
    fingerprint : str
        Of these rows, by which they are known again.
    joint : JointRows, optional
        Compares rows of several channels as a whole.
    """

    units: Units
    causal: StreamScorer
    causal_calibrator: Calibrator
    n_fitted: int
    fingerprint: str
    joint: JointRows | None = field(default=None, kw_only=True)

    @classmethod
    def online(
        cls,
        values: np.ndarray,
        units: Units,
        calibration: Calibration[Any],
        steps_per_day: float | None,
    ) -> "DetectorModel":
        """Fit statistics that learn from every row.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Raw rows, NaN where missing.
        units : Units
            Of these rows.
        calibration : Calibration
            Turns scores into thresholds.
        steps_per_day : float, optional
            For a calibration by rate.

        Returns
        -------
        DetectorModel
        """
        scorer, surprises = OnlineScorer.of(units.apply(values))
        sparse = scorer.sparse(np.isnan(values), len(values), units.known)
        calibrator = _calibrated(calibration, shared(surprises, sparse), steps_per_day)
        return cls(units, scorer, calibrator, len(values), _fingerprint(values))

    @cached_property
    def identity(self) -> str:
        """Digest by which the states of streams know their model."""
        digest = hashlib.sha256(f"{self.fingerprint} {self.causal.plan}".encode())
        for array in (
            self.units.mean,
            self.units.scale,
            self.units.known,
            *self.causal.arrays(),
            *self.causal_calibrator.state().values(),
            *((self.joint.array(),) if self.joint else ()),
        ):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class PatchModel(DetectorModel):
    """A fitted detector with a memory of patches, which also looks both ways.

    Parameters
    ----------
    units, causal, causal_calibrator, n_fitted, fingerprint, joint
        As above.
    offline : OfflineScorer
        Looks both ways.
    offline_calibrator : Calibrator
        Of its scores.
    """

    causal: CausalScorer
    offline: OfflineScorer
    offline_calibrator: Calibrator

    @classmethod
    def fit(
        cls,
        values: np.ndarray,
        units: Units,
        plan: Plan,
        memory_size: int,
        calibration: Calibration[Any],
        steps_per_day: float | None,
        learn: Callable[[np.ndarray, Autoregression], Corrector | None] | None = None,
    ) -> "PatchModel":
        """Fit to a series.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Raw rows, NaN where missing.
        units : Units
            Of these rows.
        plan : Plan
            What to compare.
        memory_size : int
            Most patches to remember.
        calibration : Calibration
            Turns scores into thresholds.
        steps_per_day : float, optional
            For a calibration by rate.
        learn : callable, optional
            Makes a corrector of the rows, standardised, and their autoregression.

        Returns
        -------
        PatchModel
        """
        standard = units.complete(values, plan.repeat)
        memory = joint = together = None
        if plan.offline:
            memory = PatchMemory.of(standard, plan.patch, memory_size)
        if memory and values.shape[1] > 1:
            scaled = units.apply(values)
            joint = JointRows.of(scaled, memory, plan.width)
            together = joint.excess(scaled, len(scaled))
        regression = Autoregression.of(standard, plan.order)
        parts = plan, memory, regression, learn(standard, regression) if learn else None
        offline = OfflineScorer.of(standard, *parts)
        causal, causal_fused = CausalScorer.of(standard, *parts)
        absent = np.isnan(values)
        causal_parts = shared(causal_fused, causal.sparse(absent, len(causal_fused), units.known))
        offline_parts = shared(
            offline.score(standard, len(standard)), offline.sparse(absent, units.known)
        )
        if together is not None:
            last = len(together) - plan.delay
            causal_parts = joined(causal_parts, together[last - len(causal_parts) : last])
            offline_parts = joined(offline_parts, together)
        return cls(
            units=units,
            causal=causal,
            causal_calibrator=_calibrated(calibration, causal_parts, steps_per_day),
            n_fitted=len(values),
            fingerprint=_fingerprint(values),
            offline=offline,
            offline_calibrator=_calibrated(calibration, offline_parts, steps_per_day),
            joint=joint,
        )

    def offline_contributions(self, values: np.ndarray) -> np.ndarray:
        """Score rows with what lies before and after them.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Raw rows, NaN where missing.

        Returns
        -------
        ndarray of shape (n_rows, n_channels)
            Parts of the raw score of each row; NaN where it has none.
        """
        known = len(values) >= self.n_fitted
        known = known and _fingerprint(values[: self.n_fitted]) == self.fingerprint
        standard = self.units.complete(values, self.offline.plan.repeat)
        n_seen = self.n_fitted if known else 0
        fused = self.offline.score(standard, n_seen)
        parts = shared(fused, self.offline.sparse(np.isnan(values), self.units.known))
        if self.joint is None:
            return parts
        return joined(parts, self.joint.excess(self.units.apply(values), n_seen))


def _calibrated(
    calibration: Calibration[Any], parts: np.ndarray, steps_per_day: float | None
) -> Calibrator:
    scores = np.maximum(parts.sum(axis=1), _LEAST_SCORE)
    calibrator: Calibrator = calibration.fit(scores, steps_per_day=steps_per_day)
    return calibrator


def _fingerprint(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
