"""The corrector: a small causal Mamba that reads history and base forecast, and corrects."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tsmamba.nn import MambaStack


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


class Corrector(nn.Module):
    """Residual of a base forecast, from patches of history and of the forecast itself.

    Tokens run through time: history patch by patch, then the base forecast patch by patch; each
    forecast token emits the correction of its own steps. The head starts at zero, so an untrained
    corrector changes nothing. It sees no level and no scale. The network is causal, so a long
    forecast begins like a short one, but for the padding of the last token.

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

    def forward(self, history: Tensor, base: Tensor, observed: Tensor, context: Tensor) -> Tensor:
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

        Returns
        -------
        Tensor of shape (n, H)
            To be added to ``base``.
        """
        if not self.config.odd:
            return self._correction(history, base, observed, context)
        if self.training:
            sign = torch.where(torch.rand(len(base), 1) < 0.5, -1.0, 1.0)
            return sign * self._correction(sign * history, sign * base, observed, context)
        both = torch.cat([history, -history]), torch.cat([base, -base])
        twice = torch.cat([observed, observed]), torch.cat([context, context])
        as_is, turned = self._correction(*both, *twice).chunk(2)
        return (as_is - turned) / 2

    def _correction(
        self, history: Tensor, base: Tensor, observed: Tensor, context: Tensor
    ) -> Tensor:
        patch, n, horizon = self.config.patch, *base.shape
        past = self.embed_history(history.view(n, -1, patch))
        ahead = self.config.forecast_tokens(horizon)
        padded = nn.functional.pad(base, (0, ahead * patch - horizon))
        place = torch.arange(ahead).clamp(max=len(self.position) - 1)
        forecast = self.embed_forecast(padded.view(n, ahead, patch)) + self.position[place]
        tokens = torch.cat([past, forecast], dim=1)  # (n, T, D)
        if self.embed_context is not None:
            tokens = tokens + self.embed_context(context)
        seen = observed.view(n, -1, patch).any(-1)
        mask = nn.functional.pad(seen, (0, ahead), value=True)
        encoded = self.stack(tokens, mask=None if bool(mask.all()) else mask)
        correction = self.head(encoded[:, -ahead:])  # (n, tokens, patch)
        out: Tensor = correction.reshape(n, -1)[:, :horizon]
        return out

    def start_from(self, other: "Corrector") -> None:
        """Take over the weights of a corrector of the same width, depth and patch.

        Context features are new to it, so their weights start at zero; positions beyond its own
        start as its last.

        Parameters
        ----------
        other : Corrector
            Where to start from.
        """
        place = torch.arange(len(self.position)).clamp(max=len(other.position) - 1)
        start = self.state_dict() | other.state_dict() | {"position": other.position[place]}
        self.load_state_dict(start)
        if self.embed_context is not None:
            nn.init.zeros_(self.embed_context.weight)
            nn.init.zeros_(self.embed_context.bias)
