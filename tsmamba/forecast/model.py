"""A fitted forecaster on tensors: base, gated corrector, residual quantiles; no frames."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from tsmamba.data.windows import Windows
from tsmamba.forecast.base import Context, Level, features
from tsmamba.forecast.calibration import Residuals
from tsmamba.forecast.correction import assemble
from tsmamba.forecast.effects import Effects
from tsmamba.forecast.local import Local
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.forecast.source import Source

_BATCH = 256
_CORRECTOR, _EFFECTS, _LOCAL = "corrector.", "effects.", "local."


@dataclass(frozen=True)
class Forecast:
    """Forecasts of some windows, in units of the standardised series."""

    point: Tensor  # (n, H)
    scale: Tensor  # (n, 1)
    residuals: Residuals

    def quantile(self, q: float) -> Tensor:
        """Return a quantile of each step, shape (n, H); it never falls with ``q``."""
        return self.point + self.residuals.quantile(q, self.scale)


@dataclass(frozen=True)
class ForecastModel:
    """Everything that a forecast is made of.

    Parameters
    ----------
    context : Context
        What the base sees.
    weights : Tensor of shape (F, H)
        The map of the base that all series share.
    residuals : Residuals
        What intervals are made of.
    corrector : Corrector, optional
        The correction, where it proved its gain.
    gate : Tensor of shape (H,)
        Share of the correction at each step, from 0 to 1.
    cycles : tuple of (float, int)
        Calendar cycles that the corrector sees.
    effects : Effects, optional
        What covariates explain by themselves, where that proved its gain.
    local : Local, optional
        What the base has for each series, where that proved its gain.
    """

    context: Context
    weights: Tensor
    residuals: Residuals
    corrector: Corrector | None
    gate: Tensor
    cycles: tuple[tuple[float, int], ...]
    effects: Effects | None = None
    local: Local | None = None

    @property
    def horizon(self) -> int:
        """Steps of a forecast, H."""
        return self.weights.shape[1]

    @torch.no_grad()
    def forecast(self, source: Source, windows: Windows, *, base_only: bool = False) -> Forecast:
        """Forecast windows.

        Parameters
        ----------
        source : Source
            The series, with the calendar and the effects of this model.
        windows : Windows
            Where.
        base_only : bool, default False
            Leave the corrector out.

        Returns
        -------
        Forecast
            Point forecasts and what their quantiles follow from.
        """
        points, scales = [], []
        for part in windows.batches(_BATCH):
            normalised, level = self._normalised(source, part, base_only)
            points.append(level.restore(normalised) + source.effects_ahead(part, self.horizon))
            scales.append(level.scale)
        return Forecast(torch.cat(points), torch.cat(scales), self.residuals)

    def _normalised(
        self, source: Source, windows: Windows, base_only: bool
    ) -> tuple[Tensor, Level]:
        numbers = source.store.numbers(windows)

        def base_of(inputs: Tensor) -> Tensor:
            shared = inputs @ self.weights
            return shared if self.local is None else self.local(inputs, shared, numbers)

        if base_only or self.corrector is None:
            inputs, level = features(source.store, windows, self.context)
            return base_of(inputs), level
        batch = assemble(source, windows, self.context, self.corrector.config, base_of)
        return batch.base + self.gate * self.corrector(*batch.inputs), batch.level

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return settings and tensors for a model file."""
        tensors = {"weights": self.weights, "residuals": self.residuals.quantiles}
        tensors["gate"] = self.gate
        settings: dict[str, Any] = {
            "context": asdict(self.context),
            "cycles": self.cycles,
            "residual_power": self.residuals.power,
        }
        if self.corrector is not None:
            settings["corrector"] = asdict(self.corrector.config)
            state = self.corrector.state_dict()
            tensors |= {_CORRECTOR + name: x for name, x in state.items()}
        if self.effects is not None:
            tensors |= {_EFFECTS + name: x for name, x in self.effects.tensors().items()}
        if self.local is not None:
            tensors |= {_LOCAL + name: x for name, x in vars(self.local).items()}
        return settings, tensors

    @classmethod
    def from_parts(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> "ForecastModel":
        """Return the model that `to_parts` took apart."""
        corrector = None
        if "corrector" in settings:
            corrector = Corrector(CorrectorConfig(**settings["corrector"])).eval()
            corrector.load_state_dict(_part(tensors, _CORRECTOR))
            corrector.requires_grad_(False)
        effects, local = _part(tensors, _EFFECTS), _part(tensors, _LOCAL)
        return cls(
            context=_context(settings["context"]),
            weights=tensors["weights"],
            residuals=Residuals(tensors["residuals"], settings["residual_power"]),
            corrector=corrector,
            gate=tensors["gate"],
            cycles=tuple((float(period), int(n)) for period, n in settings["cycles"]),
            effects=Effects.from_tensors(effects) if effects else None,
            local=Local(**local) if local else None,
        )


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}


def _context(settings: dict[str, Any]) -> Context:
    """Return a context from JSON, which has lists for tuples."""
    stretches = tuple((int(width), int(count)) for width, count in settings["stretches"])
    return Context(**settings | {"stretches": stretches})
