"""Training of the corrector on out-of-fold errors of the base, and the gate that judges it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import StudentT

from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast.base import N_BLOCKS, Context, Level, blocks_of, features, fold_of
from tsmamba.forecast.gate import SHARES, Errors, choose_shares
from tsmamba.forecast.linear import LinearBase
from tsmamba.forecast.network import Corrector, CorrectorConfig, random_signs
from tsmamba.forecast.source import Source
from tsmamba.training import History, Ranks, Training, joined, train

# The part at the end of every slice of time that is kept for validation. Slices are as many as let
# that part hold a few horizons, so that no season of the year is left out.
_VALIDATION_PART = 1 / 8
_HORIZONS_IN_PART = 3
_MOST_VALIDATION = 512
MOST_GATE = 2048
_BATCH = 256
LOSS_SCALE_LIMIT = 3.0


@dataclass(frozen=True)
class Split:
    """Windows to train on and windows to validate on; no target is in both."""

    training: Windows
    validation: Windows


def split_windows(store: WindowStore, windows: Windows, horizon: int, val_size: int = 0) -> Split:
    """Set aside validation windows.

    Parameters
    ----------
    store : WindowStore
        The series.
    windows : Windows
        All windows.
    horizon : int
        Steps of a target.
    val_size : int, default 0
        Steps at the end of each series to validate on; with 0, the last eighth of each of many
        slices of time, so that every season has a say.

    Returns
    -------
    Split
        Windows whose targets lie wholly on one side.
    """
    last = Windows(windows.origin + horizon - 1, windows.series)
    if val_size:
        tail = store.offsets[windows.series + 1] - val_size
        before, after = last.origin < tail, windows.origin >= tail
    else:
        part = store.longest / N_BLOCKS * _VALIDATION_PART
        slices = N_BLOCKS * max(1, int(part / (_HORIZONS_IN_PART * horizon)))
        begin, end = store.progress(windows) * slices, store.progress(last) * slices
        same = (begin.floor() == end.floor()) & (blocks_of(store, windows, horizon) >= 0)
        border = 1 - _VALIDATION_PART
        before = same & (end.frac() < border)
        after = same & (begin.frac() >= border)
    return Split(windows.select(before), windows.select(after))


@dataclass(frozen=True)
class Batch:
    """Everything about some windows, in units of their levels."""

    level: Level
    base: Tensor  # (n, H)
    history: Tensor  # (n, L)
    observed: Tensor  # (n, L)
    context: Tensor  # (n, tokens, features)
    gaps: Tensor | None  # (n, tokens), in uneven time

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """The arguments of a `Corrector`."""
        return self.history, self.base, self.observed, self.context, self.gaps


class Normalised(NamedTuple):
    """Forecasts of some windows, in units of their levels."""

    point: Tensor  # (n, H)
    level: Level
    spread: Tensor | None = None  # (n, H), scale of the errors, where the corrector gives one

    @classmethod
    def of(cls, batch: Batch, corrector: Corrector, gate: Tensor) -> "Normalised":
        """Return the base with the gated correction, (H,), of a corrector."""
        correction, spread = corrector.outputs(*batch.inputs)
        return cls(batch.base + gate * correction, batch.level, spread)


def assemble(
    source: Source,
    windows: Windows,
    context: Context,
    config: CorrectorConfig,
    base_of: Callable[[Tensor], Tensor],
) -> Batch:
    """Gather what base and corrector need of some windows.

    Parameters
    ----------
    source, windows, context
        The series, where, and what the base sees.
    config : CorrectorConfig
        What the corrector sees.
    base_of : callable
        Maps the inputs of the base, (n, F), to its forecast, (n, H).

    Returns
    -------
    Batch
        Inputs and base forecast.
    """
    store = source.store
    inputs, level = features(store, windows, context)
    base = base_of(inputs)
    ahead = config.forecast_tokens(base.shape[1])
    beside = torch.empty(len(windows), config.history_tokens + ahead, 0)
    if config.n_context:
        beside = source.context(windows, config.history_tokens, ahead, config.patch)
    return Batch(
        level,
        base,
        level.normalise(store.history(windows, config.history)),
        store.history_observed(windows, config.history),
        beside,
        source.gaps(windows, config.history_tokens, ahead, config.patch),
    )


@dataclass(frozen=True)
class Correction:
    """Trains one corrector and judges it, always against base forecasts made out of fold."""

    source: Source
    context: Context
    base: LinearBase
    config: CorrectorConfig

    @property
    def store(self) -> WindowStore:
        """The values."""
        return self.source.store

    @property
    def horizon(self) -> int:
        """Steps to forecast."""
        return self.base.horizon

    def batch(self, windows: Windows) -> Batch:
        """Assemble windows with the base of the fold that never saw their targets."""
        base_of = self.base.out_of_fold(self.store, windows)
        return assemble(self.source, windows, self.context, self.config, base_of)

    def train(
        self,
        corrector: Corrector,
        split: Split,
        settings: Training,
        on_step: Callable[[int, float], None],
    ) -> History:
        """Train in the units of the data, so that large windows count more.

        Under ``torchrun`` the processes share the windows of each batch and of validation.
        """
        with joined() as ranks:
            ranks.check_alike(
                {
                    "the number of training windows": len(split.training),
                    "the size of the values": float(self.store.values.double().abs().sum()),
                    "the number of parameters": sum(p.numel() for p in corrector.parameters()),
                    "max_steps": settings.steps,
                    "batch_size": settings.batch_size,
                    "eval_every": settings.eval_every,
                }
            )
            batch_loss = self._batch_loss(split.training, settings, ranks)
            validation_error = self._validation_error(split.validation, settings, ranks)
            return train(corrector, settings, batch_loss, validation_error, on_step, ranks)

    def _batch_loss(
        self, training: Windows, settings: Training, ranks: Ranks
    ) -> Callable[[Corrector], Tensor]:
        """Return what draws a batch and gives the loss of this rank's part of it."""
        size = settings.batch_size

        def batch_loss(network: Corrector) -> Tensor:
            # The same on all ranks, signs included, so that their number changes no batch.
            windows = training.select(torch.randint(len(training), (size,)))
            signs = random_signs(size) if network.config.odd else None
            count = self.store.target_weights(windows, self.horizon).sum()
            own = ranks.share(size)
            part, turned = windows.select(own), None if signs is None else signs[own]
            with ranks.own_draws():
                loss, _ = self.loss(network, part, settings.loss, LOSS_SCALE_LIMIT, turned)
            return loss / count.clamp(min=torch.finfo().tiny)

        return batch_loss

    def _validation_error(
        self, validation: Windows, settings: Training, ranks: Ranks
    ) -> Callable[[Corrector], float]:
        """Return what gives the error on the validation windows, each rank looking at a part."""
        watched = validation.thinned(_MOST_VALIDATION)
        own = watched.select(ranks.share(len(watched)))

        @torch.no_grad()
        def validation_error(network: Corrector) -> float:
            parts = [self.loss(network, part, settings.loss) for part in own.batches(_BATCH)]
            sums = torch.stack([torch.stack(pair) for pair in parts]).sum(0)
            loss, count = ranks.summed(sums)
            return float(loss / count.clamp(min=1))

        return validation_error

    def loss(
        self,
        corrector: Corrector,
        windows: Windows,
        kind: str,
        most_scale: float = torch.inf,
        signs: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of some windows, summed by the weights of targets, and their sum.

        Parameters
        ----------
        corrector : Corrector
            With a spread for "student-t", and only for that.
        windows : Windows
            Where.
        kind : {"absolute", "squared", "student-t"}
            As in `Training`; the likelihood counts by the scale of its window, as errors do.
        most_scale : float, default infinity
            Windows of a larger scale count as if they had this one.
        signs : Tensor of shape (n, 1), optional
            As in `Corrector.outputs`.

        Returns
        -------
        loss, count : scalar Tensors
            Both sums.
        """
        if not len(windows):
            return torch.zeros(()), torch.zeros(())
        batch = self.batch(windows)
        values, _ = self.store.future(windows, self.horizon)
        target = batch.level.normalise(values)
        counted = self.store.target_weights(windows, self.horizon)
        scale = batch.level.scale.clamp(max=most_scale)
        correction, spread = corrector.outputs(*batch.inputs, signs=signs)
        error = batch.base + correction - target
        if spread is not None:
            likelihood = StudentT(corrector.freedom, scale=spread, validate_args=False)
            loss = -likelihood.log_prob(error)
        else:
            loss = error.square() * scale if kind == "squared" else error.abs()
        return (loss * (scale * counted)).sum(), counted.sum()

    @torch.no_grad()
    def errors(self, corrector: nn.Module, windows: Windows, gates: tuple[float, ...]) -> Errors:
        """Return the errors on some windows for each share of the correction."""
        shape = len(gates), N_BLOCKS, self.horizon
        errors = Errors(torch.zeros(shape), torch.zeros(shape), torch.zeros(shape[1:]))
        for part in windows.batches(_BATCH):
            batch = self.batch(part)
            correction = corrector(*batch.inputs)
            values, _ = self.store.future(part, self.horizon)
            counted = self.store.target_weights(part, self.horizon)
            block = blocks_of(self.store, part, self.horizon).clamp(min=0)
            errors.counts.index_add_(0, block, counted)
            for number, gate in enumerate(gates):
                away = batch.level.restore(batch.base + gate * correction) - values
                errors.absolute[number].index_add_(0, block, away.abs() * counted)
                errors.squared[number].index_add_(0, block, away.square() * counted)
        return errors

    def gate(self, folds: Sequence[nn.Module], windows: Windows) -> tuple[Tensor, float, float]:
        """Choose how much of the correction to apply at each step, on windows it never saw.

        Parameters
        ----------
        folds : sequence of Module
            What corrects, as in `fold_of`.
        windows : Windows
            The windows.

        Returns
        -------
        gate : Tensor of shape (H,)
            From 0 to 1.
        base_error, error : float
            Mean absolute validation error without and with the gated correction.
        """
        judged = windows.thinned(MOST_GATE)
        fold = fold_of(self.store, judged, self.horizon, len(folds))
        parts = [
            self.errors(corrector, judged.select(fold == number), SHARES)
            for number, corrector in enumerate(folds)
            if bool((fold == number).any())
        ]
        errors = Errors(*(torch.stack(sums).sum(0) for sums in zip(*parts, strict=True)))
        gate = choose_shares(errors)
        absolute = errors.absolute.sum(1)  # (shares, H)
        index = torch.searchsorted(torch.tensor(SHARES), gate)
        total = errors.counts.sum().clamp(min=1)
        gated = absolute.gather(0, index[None]).sum()
        return gate, float(absolute[0].sum() / total), float(gated / total)
