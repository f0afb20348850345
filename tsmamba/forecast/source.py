"""The series of a panel with all that a forecast may know of them, read by windows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tsmamba.data.clock import Clock
from tsmamba.data.covariates import Covariates
from tsmamba.data.panel import Panel
from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast.effects import Effect, Effects
from tsmamba.forecast.profile import Profile


@dataclass(frozen=True)
class Source:
    """Values, calendar and covariates of a panel.

    Parameters
    ----------
    panel : Panel
        The series as they are.
    store : WindowStore
        Their values without ``effects`` and ``profile``, gaps filled.
    clock : Clock
        Their calendar.
    season : int
        Their season in steps.
    covariates : Covariates, optional
        Columns beside the values.
    effects : Effects, optional
        What covariates that are known ahead explain by themselves.
    effect : Effect, optional
        The same, step by step.
    profile : Profile, optional
        What the clock and the calendar explain of the rest.
    """

    panel: Panel
    store: WindowStore
    clock: Clock
    season: int
    covariates: Covariates | None = None
    effects: Effects | None = None
    effect: Effect | None = None
    profile: Profile | None = None

    @classmethod
    def of(
        cls,
        panel: Panel,
        season: int,
        cycles: tuple[tuple[float, int], ...] | None = None,
        covariates: Covariates | None = None,
        effects: Effects | None = None,
        profile: Profile | None = None,
    ) -> "Source":
        """Prepare a panel.

        Parameters
        ----------
        panel, season
            The series, and their season in steps.
        cycles : tuple of (float, int), optional
            Calendar cycles; chosen from the panel by default.
        covariates, effects, profile
            As in the class; without covariates there are no effects to take off.

        Returns
        -------
        Source
            One for all series.
        """
        values, effect = panel, None
        if effects is not None and covariates is not None:
            effect = effects.of(panel, covariates)
            values = effect.removed(panel)
        if profile is not None:
            values = profile.removed(values)
        store, clock = WindowStore(values, season), Clock.of(panel, cycles)
        return cls(panel, store, clock, season, covariates, effects, effect, profile)

    def without(self, effects: Effects | None, profile: Profile | None = None) -> "Source":
        """Return the same series with other effects and another profile taken off."""
        cycles, covariates = self.clock.cycles, self.covariates
        return self.of(self.panel, self.season, cycles, covariates, effects, profile)

    @property
    def n_context(self) -> int:
        """Number of context features of a token."""
        covariates = self.covariates
        if covariates is None:
            return self.clock.width
        return self.clock.width + len(covariates.values[0]) + len(covariates.static[0])

    def context(self, windows: Windows, history: int, ahead: int, patch: int) -> Tensor:
        """Return what each token may know beside the values.

        Parameters
        ----------
        windows : Windows
            Where, n of them.
        history, ahead : int
            Number of tokens before and after the origin.
        patch : int
            Steps of a token.

        Returns
        -------
        Tensor of shape (n, history + ahead, n_context)
            Phases of the calendar at the first step; means of covariates over the steps, those
            that are not known ahead zero after the origin; static covariates.
        """
        elapsed = self.store.elapsed(windows)
        times = self.store.times(windows, torch.arange(-history, ahead) * patch)
        parts = [self.clock.features(windows.series, times)]
        if self.covariates is not None:
            tokens = history + ahead
            rows = self.covariates.window(elapsed, windows.series, -history * patch, tokens * patch)
            means = rows.view(len(windows), tokens, patch, -1).mean(2)
            means[:, history:, self.covariates.n_future :] = 0.0
            static = torch.from_numpy(self.covariates.static)[windows.series]
            parts += [means, static[:, None].expand(-1, tokens, -1)]
        return torch.cat(parts, dim=-1)

    def gaps(self, windows: Windows, history: int, ahead: int, patch: int) -> Tensor | None:
        """Return the mean time that passes with each step of a token, in usual gaps.

        Parameters
        ----------
        windows, history, ahead, patch
            As in `context`.

        Returns
        -------
        Tensor of shape (n, history + ahead), or None
            One from the origin on, and None on a regular grid.
        """
        if self.panel.stamps is None:
            return None
        ends = torch.arange(-history, ahead + 1) * patch - 1
        return (self.store.times(windows, ends).diff(dim=1) / patch).float()

    def taken_off_ahead(self, windows: Windows, horizon: int) -> Tensor | float:
        """Return what effects and profile add to a forecast, (n, H), or zero without them."""
        ahead: Tensor | float = 0.0
        elapsed = self.store.elapsed(windows)
        if self.effect is not None:
            ahead = self.effect.ahead(elapsed, windows.series, horizon)
        if self.profile is not None:
            steps = elapsed[:, None] + torch.arange(horizon)
            ahead = ahead + self.profile.at(self.panel, windows.series, steps)
        return ahead
