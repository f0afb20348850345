"""Scores that look back only, one row after the other, at constant cost and memory."""

from dataclasses import dataclass

import numpy as np
import torch

from tsmamba.anomaly.autoregression import Autoregression
from tsmamba.anomaly.corrector import Corrector, CorrectorState
from tsmamba.anomaly.fusion import Standard
from tsmamba.anomaly.gaps import sparse
from tsmamba.anomaly.memory import PatchMemory
from tsmamba.anomaly.plan import Block, Plan
from tsmamba.anomaly.rows import filled, repeated
from tsmamba.anomaly.windows import windows_of
from tsmamba_kernels import PatchIndex

_ROWS = 1024
# Rows of fitting that the standard of the blocks is measured on, the last ones.
_STANDARD_ROWS = 20_000


@dataclass
class CausalState:
    """What the score of the next row depends on.

    Parameters
    ----------
    history : ndarray of shape (n_rows, n_channels)
        The last rows, gaps filled, as many as the widest patch, the autoregression or a gap needs.
    recent : ndarray of shape (n_rows, n_blocks, n_channels)
        The last scores of the blocks, as many as are averaged.
    corrector : CorrectorState, optional
        Of the corrector, if there is one.
    """

    history: np.ndarray
    recent: np.ndarray
    corrector: CorrectorState | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state as arrays, whose shapes never change."""
        own = {"history": self.history, "recent": self.recent}
        return own if self.corrector is None else own | self.corrector.arrays()


class CausalScorer:
    """Distances of the newest patches to the memory of a model, and autoregressive residuals.

    The score of a row is known `plan.delay` rows later. The later it is, the more patches around
    the row it is averaged over, which is what makes it better.

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

    def __init__(
        self,
        plan: Plan,
        memory: PatchMemory | None,
        autoregression: Autoregression,
        standard: Standard,
        corrector: Corrector | None = None,
    ) -> None:
        self.plan = plan
        self.memory = memory
        self.autoregression = autoregression
        self.standard = standard
        self.corrector = corrector
        widths = [block.width for block in plan.streaming]
        self._indices = [] if memory is None else [_index(memory, b) for b in plan.streaming]
        spans = [plan.span(width) for width in (*widths, 1)]
        self.past = max(*widths, 1, autoregression.order + 1) - 1
        self._kept = max(self.past, plan.repeat, 1)
        self._ring = max(oldest for oldest, _ in spans)
        # Rows under the patches that are averaged.
        self._stretches = [
            (oldest + width - 1, newest)
            for width, (oldest, newest) in zip(widths, spans, strict=False)
        ]
        self.reach = max([plan.delay, *(oldest for oldest, _ in self._stretches)])
        # Of the last scores of each block, the newest one at the end.
        self._weights = np.zeros((len(spans), self._ring + 1))
        for row, (oldest, newest) in zip(self._weights, spans, strict=True):
            row[self._ring - oldest : self._ring - newest + 1] = 1 / (oldest - newest + 1)

    @classmethod
    def of(
        cls,
        values: np.ndarray,
        plan: Plan,
        memory: PatchMemory | None,
        ar: Autoregression,
        corrector: Corrector | None = None,
    ) -> tuple["CausalScorer", np.ndarray]:
        """Fit the standard on the last rows that made memory and autoregression.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Without gaps, standardised.
        plan, memory, ar, corrector
            As above.

        Returns
        -------
        scorer : CausalScorer
        fused : ndarray of shape (n, n_channels)
            Scores of those rows, each compared with all patches that do not overlap its own.
        """
        channels = values.shape[1]
        empty = Standard(np.zeros((0, channels)), np.ones((0, channels)))
        scorer = cls(plan, memory, ar, empty, corrector)
        blocks = scorer._averaged(scorer._fitted_blocks(values)[None])[0]
        fitted = cls(plan, memory, ar, Standard.of(blocks), corrector)
        return fitted, fitted.standard.fuse(blocks)

    def arrays(self) -> list[np.ndarray]:
        """Return all numbers that scores depend on."""
        regression, standard = self.autoregression, self.standard
        patches = [] if self.memory is None else [self.memory.patches]
        return [
            *patches, regression.coefficients, regression.intercept, standard.mean,
            standard.deviation, *(self.corrector.arrays().values() if self.corrector else ()),
        ]  # fmt: skip

    @property
    def warm_up(self) -> int:
        """Rows before the first score."""
        return self.past + self._ring

    def sparse(self, absent: np.ndarray, n: int, usual: np.ndarray) -> np.ndarray:
        """Tell where less than half of the usual values under some patch are there.

        Parameters
        ----------
        absent : ndarray of shape (..., n_rows, n_channels), bool
            Which values are missing, from `reach` rows before the first score on.
        n : int
            Number of scores, of the last rows.
        usual : ndarray of shape (n_channels,)
            Part of the rows that have a value.

        Returns
        -------
        ndarray of shape (..., n, n_channels), bool
        """
        return sparse(absent, n, self._stretches, usual)

    def start(self) -> CausalState:
        """Return the state before the first row.

        Returns
        -------
        CausalState
        """
        channels = len(self.autoregression.intercept)
        return CausalState(
            np.zeros((self._kept, channels)),
            np.zeros((self._ring, len(self._weights), channels)),
            self.corrector.start() if self.corrector else None,
        )

    def restored(self, arrays: dict[str, np.ndarray]) -> CausalState:
        """Make a state again of its arrays."""
        corrector = CorrectorState.restored(arrays) if self.corrector else None
        return CausalState(arrays["history"].copy(), arrays["recent"].copy(), corrector)

    def advance(self, states: list[CausalState], rows: np.ndarray) -> np.ndarray:
        """Score as many rows of each of some streams, and move the states past them.

        Parameters
        ----------
        states : list of CausalState
            One a stream, changed in place.
        rows : ndarray of shape (n_streams, n_rows, n_channels)
            Standardised, NaN where missing.

        Returns
        -------
        ndarray of the same shape
            Fused scores by channel. The one at row i is that of row ``i - plan.delay``; the first
            `warm_up` of a stream mean nothing.
        """
        out = np.empty(rows.shape)
        step = max(1, _ROWS // len(states))
        for start in range(0, rows.shape[1], step):
            part = rows[:, start : start + step]
            out[:, start : start + step] = self._advance(states, part)
        return out

    def _advance(self, states: list[CausalState], rows: np.ndarray) -> np.ndarray:
        n = rows.shape[1]
        past = _stacked([state.history for state in states])
        values = np.concatenate([past, self._whole(past, rows)], axis=1)
        blocks = self._blocks(values, n)
        if self.corrector:
            there = ~np.isnan(rows).all(axis=-1)
            each = [state.corrector for state in states if state.corrector]
            blocks[:, :, -1] = self.corrector.advance(each, values[:, -n:], blocks[:, :, -1], there)
        np.abs(blocks[:, :, -1], out=blocks[:, :, -1])
        recent = np.concatenate([_stacked([state.recent for state in states]), blocks], axis=1)
        # Copies, as views would keep all streams alive.
        for state, history, ring in zip(states, values[:, n:], recent[:, n:], strict=True):
            state.history, state.recent = history.copy(), ring.copy()
        return self.standard.fuse(self._averaged(recent))

    def _whole(self, past: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Fill gaps from a period before, or with the last value."""
        gaps = np.isnan(rows).any(axis=(1, 2))
        if not gaps.any():
            return rows
        repeat, out = self.plan.repeat, rows.copy()
        for i in np.flatnonzero(gaps):
            if repeat:
                out[i] = repeated(np.concatenate([past[i, -repeat:], rows[i]]), repeat)[repeat:]
            else:
                out[i] = filled(rows[i], past[i, -1])
        return out

    def _blocks(self, values: np.ndarray, n: int) -> np.ndarray:
        """Return the scores of the last `n` rows, (n_streams, n, n_blocks, n_channels).

        The residuals of the autoregression, the last ones, have their sign.
        """
        length = values.shape[1]
        series = torch.from_numpy(values)
        scores = []
        for index in self._indices:
            starts = range(length - n - index.width + 1, length - index.width + 1)
            scores.append(index.distances(series, starts).numpy())
        past = values[:, length - n - self.autoregression.order :]
        scores.append(self.autoregression.residuals(past))
        return np.stack(scores, axis=2)

    def _fitted_blocks(self, values: np.ndarray) -> np.ndarray:
        """Return the scores of the last rows of the fit, (n_rows, n_blocks, n_channels)."""
        n = min(len(values) - self.past, _STANDARD_ROWS)
        first = len(values) - n
        series = torch.from_numpy(values)[None]
        scores = []
        for index in self._indices:
            starts = range(first - index.width + 1, len(values) - index.width + 1)
            distances = index.distances(series, starts, apart=index.width)[0].numpy()
            scores.append(np.where(np.isinf(distances), 0.0, distances))
        past = values[first - self.autoregression.order :]
        residuals = self.autoregression.residuals(past)
        if self.corrector:
            residuals = self.corrector.remaining(values[first:], residuals)
        scores.append(np.abs(residuals))
        return np.stack(scores, axis=1)

    def _averaged(self, blocks: np.ndarray) -> np.ndarray:
        """Average (n_streams, n_rows, n_blocks, n_channels) over the span of each block."""
        streams, n, *shape = blocks.shape
        windows = windows_of(blocks.reshape(streams, n, -1), self._ring + 1)
        windows = windows.reshape(streams, *shape, n - self._ring, self._ring + 1)
        averaged: np.ndarray = np.einsum("sbcnr,br->snbc", windows, self._weights)
        return averaged


def _stacked(parts: list[np.ndarray]) -> np.ndarray:
    # `np.stack` takes longer than a step of a stream where they are many.
    return np.concatenate(parts).reshape(len(parts), *parts[0].shape)


def _index(memory: PatchMemory, block: Block) -> PatchIndex:
    return PatchIndex(
        torch.from_numpy(memory.newest(block.width)),
        block.form,
        torch.from_numpy(memory.ends - (block.width - 1)),
    )
