"""A series, the present blocks of its detector, and VUS-PR with others beside them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.anomaly.problem import Problem, filled
from benchmarks.anomaly.published import read_published
from benchmarks.anomaly.sets import find_set
from tsmamba import MambaDetector
from tsmamba.anomaly.fusion import Standard
from tsmamba.anomaly.offline import OfflineScorer, _centred_mean
from tsmamba.metrics import vus, window_of
from tsmamba_datasets._catalog import CATALOG

_EVERY = 5  # of the series of UCR
_TSB_AD, _UCR, _NAB = "TSB-AD", "UCR", "NAB"
Key = tuple[str, str]  # set and series


@dataclass(frozen=True)
class Judged:
    """A series of one channel and what the detector of today makes of it.

    Parameters
    ----------
    problem : Problem
        The series with its labels.
    values : ndarray of shape (T,)
        In the unit of the fit, without gaps.
    scorer : OfflineScorer
        Fitted on the training part.
    blocks : ndarray of shape (T, n_blocks)
        Its smoothed scores; the last one is that of the autoregression.
    memory_size : int
        Most patches in memory.
    """

    problem: Problem
    values: np.ndarray
    scorer: OfflineScorer
    blocks: np.ndarray
    memory_size: int

    @classmethod
    def of(cls, problem: Problem) -> "Judged":
        """Fit the detector on the training part and score the series.

        Parameters
        ----------
        problem : Problem
            One channel.
        """
        detector = MambaDetector()
        model: Any = detector.fit(problem.train)._model
        scorer = model.offline
        values = model.units.complete(problem.values, scorer.plan.repeat)
        blocks = scorer._blocks(values, problem.n_train)[..., 0]
        return cls(problem, values[:, 0], scorer, blocks, detector.memory_size)

    @property
    def train(self) -> np.ndarray:
        """The training part of the values."""
        return self.values[: self.problem.n_train]

    def vus_pr(
        self, added: Sequence[np.ndarray] = (), residuals: np.ndarray | None = None
    ) -> float:
        """Fuse the blocks with others and judge the scores, as the detector is judged.

        Parameters
        ----------
        added : sequence of ndarray of shape (T,)
            Scores of more blocks, not smoothed.
        residuals : ndarray of shape (T,), optional
            In place of those of the autoregression, not smoothed.

        Returns
        -------
        float
        """
        own = self.blocks if residuals is None else self.blocks[:, :-1]
        more = list(added) if residuals is None else [residuals, *added]
        width, problem = self.scorer.plan.width, self.problem
        smooth = [_centred_mean(scores[:, None], width) for scores in more]
        blocks = np.concatenate([own, *smooth], axis=1)[..., None]
        fused = Standard.of(blocks[: problem.n_train]).fuse(blocks)[:, 0]
        counted = slice(problem.scored_from, None)
        window = window_of(filled(problem.values[:, :1]))
        return float(vus(problem.labels[counted], fused[counted], window).pr)


def judged_names() -> list[Key]:
    """Return set and name of the series: those of TSB-AD, and every fifth other one of UCR."""
    ucr = [name for name in find_set(_UCR).names()[::_EVERY] if name not in _taken()]
    tsb_ad = find_set(_TSB_AD).names()
    return [*((_TSB_AD, name) for name in tsb_ad), *((_UCR, name) for name in ucr)]


def fresh_names() -> list[Key]:
    """Return the others of UCR and NAB with an anomaly, but for the pool, and kin of chosen."""
    keys = [(source, name) for source in (_UCR, _NAB) for name in find_set(source).names()]
    keys = [key for key in keys if key[1] not in _taken() and side_of(*key) == "fresh"]
    return [key for key in keys if _has_anomaly(*key)]


def _has_anomaly(source: str, name: str) -> bool:
    if source == _UCR:
        return True
    problem = find_set(source).read(name)
    return bool(problem.labels[problem.scored_from :].any())


def family_of(source: str, name: str) -> str:
    """Return what series of UCR share that were cut from one recording, or distorted copies of it.

    Parameters
    ----------
    source, name : str
        Set and series.

    Returns
    -------
    str
    """
    if source == _TSB_AD:
        row = next(row for row in read_published() if row.file == name)
        source, name = row.source, row.series
    title = re.sub(r"^(DISTORTED|NOISE)|\d+$", "", _titles()[name]) if source == _UCR else name
    return f"{source} {title}"


def side_of(source: str, name: str) -> str:
    """Tell what a series is for; of the families that are judged every second is for choosing.

    Parameters
    ----------
    source, name : str
        Set and series.

    Returns
    -------
    {"chosen", "other", "fresh", "pool"}
        Settings were chosen on it or its kin, or not; or it is none of `judged_names`; or a series
        of UCR that is no kin of those, which the pool is made of.
    """
    families = _families()
    family = family_of(source, name)
    if family in families and families.index(family) % 2 == 0:
        return "chosen"
    if source == _UCR and family not in families:
        return "pool"
    return "other" if (source, name) in judged_names() else "fresh"


@cache
def _families() -> list[str]:
    return sorted({family_of(*key) for key in judged_names()})


@cache
def _taken() -> set[str]:
    """Return the series that TSB-AD has files of."""
    return {row.series for row in read_published() if row.source}


@cache
def _titles() -> dict[str, str]:
    """Return the name of each series of UCR by its number."""
    stems = [file.path.rsplit("/", 1)[-1] for file in CATALOG["ucr_anomaly"].files]
    parts = [stem.split("_UCR_Anomaly_") for stem in stems if "_UCR_Anomaly_" in stem]
    return {number: rest.rsplit("_", 3)[0] for number, rest in parts}
