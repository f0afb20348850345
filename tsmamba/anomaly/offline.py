"""Scores that look both ways: for series that are there as a whole."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from tsmamba.anomaly.autoregression import Autoregression
from tsmamba.anomaly.corrector import Corrector
from tsmamba.anomaly.fusion import Standard
from tsmamba.anomaly.gaps import LEAST_PART
from tsmamba.anomaly.memory import PatchMemory, evenly
from tsmamba.anomaly.plan import Block, Plan
from tsmamba.anomaly.windows import windows_of
from tsmamba_kernels import PatchIndex

# Queries per patch width; between them scores are interpolated.
_DENSITY = 8
# Of several channels, one that hardly ever changes would drown all others by the noise of its rows.
_LEAST_DEVIATION = 0.05


@dataclass(frozen=True)
class OfflineScorer:
    """Distances to the memory of a model and to the rest of the same series, centred and smoothed.

    Parameters
    ----------
    plan : Plan
        What is compared.
    memory : PatchMemory or None
        Patches of the rows the model was fitted on; None where the plan compares none.
    autoregression : Autoregression
        Fitted to those rows.
    standard : Standard
        Of the blocks on those rows.
    corrector : Corrector, optional
        Foretells residuals of the autoregression.
    """

    plan: Plan
    memory: PatchMemory | None
    autoregression: Autoregression
    standard: Standard
    corrector: Corrector | None = None

    @classmethod
    def of(
        cls,
        values: np.ndarray,
        plan: Plan,
        memory: PatchMemory | None,
        ar: Autoregression,
        corrector: Corrector | None = None,
    ) -> "OfflineScorer":
        """Fit the standard on the rows that made memory and autoregression.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Without gaps, standardised.
        plan, memory, ar, corrector
            As above.

        Returns
        -------
        OfflineScorer
        """
        empty = Standard(np.zeros((0, values.shape[1])), np.ones((0, values.shape[1])))
        scorer = cls(plan, memory, ar, empty, corrector)
        return replace(scorer, standard=_standard(scorer._blocks(values, len(values))))

    def score(self, values: np.ndarray, n_seen: int) -> np.ndarray:
        """Score every row.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Without gaps, standardised.
        n_seen : int
            Leading rows that are those the model was fitted on. They are not compared with
            themselves.

        Returns
        -------
        ndarray of shape (n_rows, n_channels)
            Fused scores by channel, 0 and more.
        """
        blocks = self._blocks(values, n_seen)
        # Of the same rows, but compared with patches of the whole series.
        standard = _standard(blocks[:n_seen]) if n_seen else self.standard
        return standard.fuse(blocks)

    def sparse(self, absent: np.ndarray, usual: np.ndarray) -> np.ndarray:
        """Tell where less than half of the usual values of a patch around a row are there.

        Parameters
        ----------
        absent : ndarray of shape (n_rows, n_channels), bool
            Which values are missing.
        usual : ndarray of shape (n_channels,)
            Part of the rows that have a value.

        Returns
        -------
        ndarray of the same shape, bool
        """
        return _centred_mean(~absent, self.plan.width) < LEAST_PART * usual

    def _blocks(self, values: np.ndarray, n_seen: int) -> np.ndarray:
        """Return the smoothed scores of all blocks, (n_rows, n_blocks, n_channels)."""
        plan, memory = self.plan, self.memory
        scores = [_distances(values, block, memory, n_seen) for block in plan.offline if memory]
        scores.append(self._residuals(values))
        return np.stack([_centred_mean(score, plan.width) for score in scores], axis=1)

    def _residuals(self, values: np.ndarray) -> np.ndarray:
        """Return the size of the residual of every row; the median where there is no past."""
        order = self.autoregression.order
        if len(values) <= order:
            return np.full(values.shape, np.nan)
        residuals = self.autoregression.residuals(values)
        if self.corrector:
            residuals = self.corrector.remaining(values[order:], residuals)
        sizes = np.abs(residuals)
        start = np.repeat(np.median(sizes, axis=0, keepdims=True), order, axis=0)
        return np.concatenate([start, sizes])


def _standard(blocks: np.ndarray) -> Standard:
    return Standard.of(blocks, _LEAST_DEVIATION) if blocks.shape[-1] > 1 else Standard.of(blocks)


def _distances(values: np.ndarray, block: Block, memory: PatchMemory, n_seen: int) -> np.ndarray:
    """Return the distance around every row, (n_rows, n_channels); NaN where no patch fits."""
    n, width = len(values), block.width
    if n < width:
        return np.full(values.shape, np.nan)
    n_windows = n - width + 1
    known, own = _sources(memory, n_windows, n_seen)
    patches = [memory.newest(width)[:, known], windows_of(values, width)[:, own]]
    elsewhere = np.full(len(known), -width)  # not near any of these rows
    index = PatchIndex(
        torch.from_numpy(np.concatenate(patches, axis=1)),
        block.form,
        torch.from_numpy(np.concatenate([elsewhere, own])),
    )
    step = max(1, width // _DENSITY)
    queries = range((n_windows - 1) % step, n_windows, step)
    series = torch.from_numpy(values)[None]
    distances = index.distances(series, queries, apart=(width + 1) // 2)[0].numpy()
    distances[np.isinf(distances)] = 0.0
    centres = np.array(queries) + (width - 1) / 2
    columns = [np.interp(np.arange(n), centres, column) for column in distances.T]
    return np.stack(columns, axis=1)


def _sources(memory: PatchMemory, n_windows: int, n_seen: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose patches of the memory and windows of the series, together an even sample of both."""
    if n_seen:  # the series holds what the memory was made from
        return np.empty(0, dtype=np.int64), evenly(n_windows, memory.size)
    fitted = int(memory.ends[-1]) + 1
    own = max(1, round(memory.size * n_windows / (fitted + n_windows)))
    return evenly(len(memory), max(1, memory.size - own)), evenly(n_windows, own)


def _centred_mean(scores: np.ndarray, width: int) -> np.ndarray:
    """Average over `width` rows around each; fewer at the ends."""
    n = len(scores)
    total = np.concatenate([np.zeros((1, scores.shape[1])), np.cumsum(scores, axis=0)])
    rows = np.arange(n)
    low = np.maximum(rows - (width - 1) // 2, 0)
    high = np.minimum(rows + width // 2 + 1, n)
    means: np.ndarray = (total[high] - total[low]) / (high - low)[:, None]
    return means
