"""A fitted forecaster on tensors: base, gated corrector, residual quantiles; no frames."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsmamba.data.windows import Windows
from tsmamba.forecast.base import Context, features
from tsmamba.forecast.calibration import Residuals
from tsmamba.forecast.correction import Normalised, assemble
from tsmamba.forecast.effects import Effects
from tsmamba.forecast.linear import LinearMap
from tsmamba.forecast.local import Local
from tsmamba.forecast.mixing import Mixing
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.forecast.profile import Profile
from tsmamba.forecast.source import Source

_BATCH = 256
_CORRECTOR, _EFFECTS, _LOCAL, _MIXING = "corrector.", "effects.", "local.", "mixing."
_RESIDUALS, _SPREAD, _PROFILE, _PLAIN = "residuals.", "spread.", "profile", "plain"


@dataclass(frozen=True)
class Forecast:
    """Forecasts of some windows, in units of the standardised series."""

    point: Tensor  # (n, H)
    unit: Tensor  # (n, H) or (n, 1), of the errors
    residuals: Residuals

    def quantile(self, q: float) -> Tensor:
        """Return a quantile of each step, shape (n, H); it never falls with ``q``."""
        return self.point + self.unit * self.residuals.quantile(q)


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
    spread_residuals : Residuals, optional
        What intervals are made of in units of the corrector's spread, where that proved its gain.
    mixing : Mixing, optional
        What the columns of a wide frame tell about each other, where that proved its gain.
    profile : Profile, optional
        What the clock and the calendar explain by themselves, where that proved its gain.
    plain : Tensor of shape (F, H), optional
        With a profile, the map of the base for series that have none.
    """

    context: Context
    weights: Tensor
    residuals: Residuals
    corrector: Corrector | None
    gate: Tensor
    cycles: tuple[tuple[float, int], ...]
    effects: Effects | None = None
    local: Local | None = None
    spread_residuals: Residuals | None = None
    mixing: Mixing | None = None
    profile: Profile | None = None
    plain: Tensor | None = None

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
            The series, with the calendar, effects and profile of this model.
        windows : Windows
            Where.
        base_only : bool, default False
            Leave the corrector out, and with it the spread that it gives.

        Returns
        -------
        Forecast
            Point forecasts and what their quantiles follow from.
        """
        points, scales, spreads = [], [], []
        for part in windows.batches(_BATCH):
            point, level, spread = self.normalised(source, part, base_only=base_only)
            points.append(level.restore(point) + source.taken_off_ahead(part, self.horizon))
            scales.append(level.scale)
            if spread is not None:
                spreads.append(spread)
        point, scale, numbers = torch.cat(points), torch.cat(scales), source.store.numbers(windows)
        by_spread = self.spread_residuals
        if by_spread is not None and spreads:
            unit = torch.cat(spreads) * by_spread.unit(scale, numbers)
            return Forecast(point, unit, by_spread)
        return Forecast(point, self.residuals.unit(scale, numbers), self.residuals)

    def normalised(
        self, source: Source, windows: Windows, *, base_only: bool = False
    ) -> Normalised:
        """Forecast windows in units of their levels, without effects and profile."""
        store = source.store
        base = LinearMap(self.weights, self.local, self.mixing, self.plain)
        base_of = base.forecaster(store, windows)
        if base_only or self.corrector is None:
            inputs, level = features(store, windows, self.context)
            return Normalised(base_of(inputs), level)
        batch = assemble(source, windows, self.context, self.corrector.config, base_of)
        return Normalised.of(batch, self.corrector, self.gate)

    def renumbered(self, numbers: np.ndarray) -> "ForecastModel":
        """Return the same for series in another order, -1 for new ones."""
        order = torch.from_numpy(numbers)
        local, by_spread, profile = self.local, self.spread_residuals, self.profile
        return replace(
            self,
            local=None if local is None else local.renumbered(order),
            residuals=self.residuals.renumbered(order),
            spread_residuals=None if by_spread is None else by_spread.renumbered(order),
            profile=None if profile is None else profile.renumbered(order),
        )

    def with_history(self, history: int) -> "ForecastModel":
        """Return the model with a corrector that reads more or less history than it was trained on.

        The weights are the same: history has no positions, and the state of the scan does not grow
        with it. What the base sees stays as it is.

        Parameters
        ----------
        history : int >= 1
            Steps, rounded down to whole patches, of which there is one at least.

        Returns
        -------
        ForecastModel
            Itself if it has no corrector.
        """
        if self.corrector is None:
            return self
        config = self.corrector.config
        tokens = max(1, history // config.patch)
        corrector = Corrector(replace(config, history=tokens * config.patch)).eval()
        corrector.load_state_dict(self.corrector.state_dict())
        return replace(self, corrector=corrector.requires_grad_(False))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return settings and tensors for a model file."""
        tensors = {"weights": self.weights, **self.residuals.tensors(_RESIDUALS)}
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
        if self.spread_residuals is not None:
            tensors |= self.spread_residuals.tensors(_SPREAD)
            settings["spread_power"] = self.spread_residuals.power
        if self.effects is not None:
            tensors |= {_EFFECTS + name: x for name, x in self.effects.tensors().items()}
        if self.mixing is not None:
            settings["mixing"] = asdict(self.mixing.context)
            tensors |= {_MIXING + name: x for name, x in self.mixing.tensors().items()}
        if self.local is not None:
            tensors |= {_LOCAL + name: x for name, x in vars(self.local).items()}
        if self.profile is not None:
            tensors[_PROFILE] = self.profile.tables
        if self.plain is not None:
            tensors[_PLAIN] = self.plain
        return settings, tensors

    @classmethod
    def from_parts(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> "ForecastModel":
        """Return the model that `to_parts` took apart."""
        corrector = None
        if "corrector" in settings:
            corrector = Corrector(CorrectorConfig(**settings["corrector"])).eval()
            corrector.load_state_dict(_part(tensors, _CORRECTOR))
            corrector.requires_grad_(False)
        by_spread = None
        if "spread_power" in settings:
            by_spread = Residuals(power=settings["spread_power"], **_part(tensors, _SPREAD))
        effects, local = _part(tensors, _EFFECTS), _part(tensors, _LOCAL)
        mixing = None
        if "mixing" in settings:
            mixing = Mixing(_context(settings["mixing"]), **_part(tensors, _MIXING))
        return cls(
            context=_context(settings["context"]),
            weights=tensors["weights"],
            residuals=Residuals(power=settings["residual_power"], **_part(tensors, _RESIDUALS)),
            corrector=corrector,
            gate=tensors["gate"],
            cycles=tuple((float(period), int(n)) for period, n in settings["cycles"]),
            effects=Effects.from_tensors(effects) if effects else None,
            local=Local(**local) if local else None,
            spread_residuals=by_spread,
            mixing=mixing,
            profile=Profile(tensors[_PROFILE]) if _PROFILE in tensors else None,
            plain=tensors.get(_PLAIN),
        )


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}


def _context(settings: dict[str, Any]) -> Context:
    """Return a context from JSON, which has lists for tuples."""
    stretches = tuple((int(width), int(count)) for width, count in settings["stretches"])
    return Context(**settings | {"stretches": stretches})
