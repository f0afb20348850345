"""The corrector: a small causal Mamba that reads history and base forecast, and corrects."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tsmamba.nn import MambaStack

# Of the spread of errors, in units of the window's scale: where training starts, and the logarithm
# of the factor by which it can become larger or smaller.
_FIRST_SPREAD = 0.5
_MOST_LOG_FACTOR = 3.0
_FIRST_FREEDOM = 5.0
# The scan weighs what comes in by the time that passes, without end: of the bundled corrector, a
# token whose steps take 8 usual gaps about doubles the correction.
_LONGEST_GAP = 8.0


@dataclass(frozen=True)
class CorrectorConfig:
    """Shape of a `Corrector`.

    Parameters
    ----------
    history : int
        Steps of history, a multiple of ``patch``.
    horizon : int
        Steps to forecast. Longer forecasts are possible; their tokens share the last position.
    patch : int
        Steps of a token.
    n_context : int
        Further features of a token, such as its place in the calendar; 0 for none.
    d_model, n_layers, d_state : int
        Width, depth and states of the Mamba stack.
    dropout : float
        Rate of dropout in it.
    odd : bool
        Whether the correction changes sign with its inputs: up and down are alike. Drawn signs
        teach it that in training; evaluation takes the mean over both.
    spread : bool
        Whether it also says how wide errors spread at each step.
    """

    history: int
    horizon: int
    patch: int
    n_context: int = 0
    d_model: int = 32
    n_layers: int = 2
    d_state: int = 16
    dropout: float = 0.1
    odd: bool = False
    spread: bool = False

    @property
    def history_tokens(self) -> int:
        """Number of tokens of history."""
        return self.history // self.patch

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """What two correctors must share for one to start from the other."""
        return self.patch, self.d_model, self.n_layers, self.d_state

    def forecast_tokens(self, horizon: int) -> int:
        """Return the number of tokens of a base forecast; the last may be padded."""
        return -(-horizon // self.patch)


class Outputs(NamedTuple):
    """What a `Corrector` says of some windows, in units of their levels."""

    correction: Tensor  # (n, H), to be added to the base forecast
    spread: Tensor | None  # (n, H), scale of the errors that remain, where it was asked for


class Corrector(nn.Module):
    """Residual of a base forecast, from patches of history and of the forecast itself.

    Tokens run through time: history patch by patch, then the base forecast patch by patch; each
    forecast token emits the correction of its own steps. The head starts at zero, so an untrained
    corrector changes nothing. It sees no level and no scale. The network is causal, so a long
    forecast begins like a short one, but for the padding of the last token. With ``config.spread``
    a second head gives the scale of Student's t around the corrected forecast, whose degrees of
    freedom are one learned number.

    Parameters
    ----------
    config : CorrectorConfig
        Its shape.

    Examples
    --------
    >>> import torch
    >>> config = CorrectorConfig(history=96, horizon=30, patch=24, n_context=0)
    >>> corrector = Corrector(config)
    >>> history, base = torch.randn(2, 96), torch.randn(2, 30)
    >>> observed = torch.ones(2, 96, dtype=torch.bool)
    >>> corrector(history, base, observed, torch.zeros(2, 6, 0)).abs().max().item()
    0.0
    """

    def __init__(self, config: CorrectorConfig) -> None:
        super().__init__()
        self.config = config
        width = config.d_model
        self.embed_history = nn.Linear(config.patch, width)
        self.embed_forecast = nn.Linear(config.patch, width)
        self.embed_context = nn.Linear(config.n_context, width) if config.n_context else None
        # History needs no positions: the scan counts by itself.
        positions = config.forecast_tokens(config.horizon)
        self.position = nn.Parameter(0.02 * torch.randn(positions, width))
        self.stack = MambaStack(width, config.n_layers, config.d_state, dropout=config.dropout)
        self.head = nn.Linear(width, config.patch)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.spread_head = nn.Linear(width, config.patch) if config.spread else None
        if self.spread_head is not None:
            nn.init.zeros_(self.spread_head.weight)
            nn.init.zeros_(self.spread_head.bias)
            self.raw_freedom = nn.Parameter(torch.tensor(math.log(math.expm1(_FIRST_FREEDOM - 2))))

    @property
    def freedom(self) -> Tensor:
        """Degrees of freedom of Student's t, above 2 so that its variance is finite."""
        return 2 + nn.functional.softplus(self.raw_freedom)

    def head_parameters(self) -> list[nn.Parameter]:
        """Return what makes correction and spread of the encoded tokens."""
        if self.spread_head is None:
            return [*self.head.parameters()]
        return [*self.head.parameters(), *self.spread_head.parameters(), self.raw_freedom]

    def forward(
        self,
        history: Tensor,
        base: Tensor,
        observed: Tensor,
        context: Tensor,
        gaps: Tensor | None = None,
    ) -> Tensor:
        """Return the correction of each step, in units of the window's level.

        Parameters
        ----------
        history : Tensor of shape (n, L)
            Normalised history.
        base : Tensor of shape (n, H)
            Normalised base forecast.
        observed : bool Tensor of shape (n, L)
            Which steps of history are real; a patch without any is skipped.
        context : Tensor of shape (n, tokens, n_context)
            Further features of each token.
        gaps : Tensor of shape (n, tokens), optional
            Mean time that passes with each step of a token, in usual gaps, where time is uneven.

        Returns
        -------
        Tensor of shape (n, H)
            To be added to ``base``.
        """
        return self.outputs(history, base, observed, context, gaps).correction

    def outputs(
        self,
        history: Tensor,
        base: Tensor,
        observed: Tensor,
        context: Tensor,
        gaps: Tensor | None = None,
        signs: Tensor | None = None,
    ) -> Outputs:
        """Return correction and spread of each step.

        Parameters
        ----------
        history, base, observed, context, gaps
            As in `forward`.
        signs : Tensor of shape (n, 1), optional
            How an odd corrector turns each window in training; drawn here by default.

        Returns
        -------
        Outputs
            An odd corrector has the same spread for a mirrored window.
        """
        if not self.config.odd:
            correction, log_spread = self._emitted(history, base, observed, context, gaps)
        elif self.training:
            signs = random_signs(len(base)) if signs is None else signs
            mirrored = signs * history, signs * base
            turned, log_spread = self._emitted(*mirrored, observed, context, gaps)
            correction = signs * turned
        else:
            both = torch.cat([history, -history]), torch.cat([base, -base])
            twice = torch.cat([observed, observed]), torch.cat([context, context])
            times = None if gaps is None else torch.cat([gaps, gaps])
            pair, log_spread = self._emitted(*both, *twice, times)
            as_is, turned = pair.chunk(2)
            correction = (as_is - turned) / 2
            if log_spread is not None:
                log_spread = torch.stack(log_spread.chunk(2)).mean(0)
        return Outputs(correction, None if log_spread is None else _bounded(log_spread))

    def _emitted(
        self,
        history: Tensor,
        base: Tensor,
        observed: Tensor,
        context: Tensor,
        gaps: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the correction and the raw logarithm of the spread."""
        patch, n, horizon = self.config.patch, *base.shape
        past = self.embed_history(history.view(n, -1, patch))
        ahead = self.config.forecast_tokens(horizon)
        padded = nn.functional.pad(base, (0, ahead * patch - horizon))
        place = torch.arange(ahead).clamp(max=len(self.position) - 1)
        forecast = self.embed_forecast(padded.view(n, ahead, patch)) + self.position[place]
        tokens = torch.cat([past, forecast], dim=1)  # (n, T, D)
        mask = nn.functional.pad(self._seen(observed), (0, ahead), value=True)
        encoded = self._encoded(tokens, mask, context, gaps)

        def by_step(head: nn.Module) -> Tensor:
            emitted: Tensor = head(encoded[:, -ahead:])  # (n, tokens, patch)
            return emitted.reshape(n, -1)[:, :horizon]

        log_spread = None if self.spread_head is None else by_step(self.spread_head)
        return by_step(self.head), log_spread

    def encode(
        self, history: Tensor, observed: Tensor, context: Tensor, gaps: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return what the stack makes of history alone, of any length.

        Parameters
        ----------
        history, observed
            As in `forward`.
        context, gaps
            As in `forward`, of the tokens of history only.

        Returns
        -------
        encoded : Tensor of shape (n, tokens, d_model)
            Outputs of the stack, which a forecast starts from.
        seen : bool Tensor of shape (n, tokens)
            Which tokens hold an observed step; the outputs of others mean nothing.
        """
        tokens = self.embed_history(history.view(len(history), -1, self.config.patch))
        seen = self._seen(observed)
        return self._encoded(tokens, seen, context, gaps), seen

    def _seen(self, observed: Tensor) -> Tensor:
        return observed.view(len(observed), -1, self.config.patch).any(-1)

    def _encoded(
        self, tokens: Tensor, mask: Tensor, context: Tensor, gaps: Tensor | None
    ) -> Tensor:
        if self.embed_context is not None:
            tokens = tokens + self.embed_context(context)
        times = None if gaps is None else _times(gaps, mask)
        out: Tensor = self.stack(tokens, mask=None if bool(mask.all()) else mask, delta_scale=times)
        return out

    def start_from(self, other: "Corrector") -> None:
        """Take over the weights of a corrector of the same width, depth and patch.

        Context features that are new to it start with a weight of zero, a spread that only the
        other has is left out; positions beyond its own
        start as its last.

        Parameters
        ----------
        other : Corrector
            Where to start from.
        """
        place = torch.arange(len(self.position)).clamp(max=len(other.position) - 1)
        own = self.state_dict()
        known = {name: x for name, x in other.state_dict().items() if name in own}
        self.load_state_dict(own | known | {"position": other.position[place]})
        if self.embed_context is not None and other.embed_context is None:
            nn.init.zeros_(self.embed_context.weight)
            nn.init.zeros_(self.embed_context.bias)


def random_signs(n: int) -> Tensor:
    """Return a sign for each of ``n`` windows, of shape (n, 1)."""
    return torch.where(torch.rand(n, 1) < 0.5, -1.0, 1.0)


def _bounded(log_spread: Tensor) -> Tensor:
    """Return the spread; no window can make it vanish or explode."""
    return _FIRST_SPREAD * (_MOST_LOG_FACTOR * (log_spread / _MOST_LOG_FACTOR).tanh()).exp()


def _times(gaps: Tensor, seen: Tensor) -> Tensor:
    """Return the time that passes with each token since the last one that was seen, bounded.

    A token that is not seen changes no state, so the next one lets its time pass, too. Before the
    first there is nothing to decay.
    """
    ends = gaps.double().cumsum(1)
    last_end = torch.where(seen, ends, 0.0).cummax(1).values
    before = nn.functional.pad(last_end[:, :-1], (1, 0))
    since = torch.where(before > 0, ends - before, gaps)
    return since.clamp(max=_LONGEST_GAP).to(gaps.dtype)
