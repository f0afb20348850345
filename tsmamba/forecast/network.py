"""The corrector: a small causal Mamba that reads history and base forecast, and corrects."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tsmamba.nn import MambaStack


@dataclass(frozen=True)
class CorrectorConfig:
    """Shape of a `Corrector`.

    Parameters
    ----------
    history, horizon : int
        Steps of history, a multiple of ``patch``, and steps to forecast.
    patch : int
        Steps of a token.
    n_calendar : int
        Calendar features of a token, 0 for none.
    d_model, n_layers, d_state : int
        Width, depth and states of the Mamba stack.
    dropout : float
        Rate of dropout in it.
    """

    history: int
    horizon: int
    patch: int
    n_calendar: int
    d_model: int = 32
    n_layers: int = 2
    d_state: int = 16
    dropout: float = 0.1

    @property
    def history_tokens(self) -> int:
        """Number of tokens of history."""
        return self.history // self.patch

    @property
    def forecast_tokens(self) -> int:
        """Number of tokens of the base forecast; the last may be padded."""
        return -(-self.horizon // self.patch)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a model file."""
        return asdict(self)


class Corrector(nn.Module):
    """Residual of a base forecast, from patches of history and of the forecast itself.

    Tokens run through time: history patch by patch, then the base forecast patch by patch; each
    forecast token emits the correction of its own steps. The head starts at zero, so an untrained
    corrector changes nothing. It sees no level and no scale.

    Parameters
    ----------
    config : CorrectorConfig
        Its shape.

    Examples
    --------
    >>> import torch
    >>> config = CorrectorConfig(history=96, horizon=30, patch=24, n_calendar=0)
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
        self.embed_calendar = nn.Linear(config.n_calendar, width) if config.n_calendar else None
        # History needs no positions: the scan counts by itself.
        self.position = nn.Parameter(0.02 * torch.randn(config.forecast_tokens, width))
        self.stack = MambaStack(width, config.n_layers, config.d_state, dropout=config.dropout)
        self.head = nn.Linear(width, config.patch)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, history: Tensor, base: Tensor, observed: Tensor, calendar: Tensor) -> Tensor:
        """Return the correction of each step, in units of the window's level.

        Parameters
        ----------
        history : Tensor of shape (n, L)
            Normalised history.
        base : Tensor of shape (n, H)
            Normalised base forecast.
        observed : bool Tensor of shape (n, L)
            Which steps of history are real; a patch without any is skipped.
        calendar : Tensor of shape (n, tokens, n_calendar)
            Calendar features at the first step of each token.

        Returns
        -------
        Tensor of shape (n, H)
            To be added to ``base``.
        """
        c = self.config
        n = len(history)
        padded = nn.functional.pad(base, (0, c.forecast_tokens * c.patch - c.horizon))
        past = self.embed_history(history.view(n, c.history_tokens, c.patch))
        ahead = self.embed_forecast(padded.view(n, c.forecast_tokens, c.patch)) + self.position
        tokens = torch.cat([past, ahead], dim=1)  # (n, T, D)
        if self.embed_calendar is not None:
            tokens = tokens + self.embed_calendar(calendar)
        seen = observed.view(n, c.history_tokens, c.patch).any(-1)
        mask = nn.functional.pad(seen, (0, c.forecast_tokens), value=True)
        encoded = self.stack(tokens, mask=None if bool(mask.all()) else mask)
        correction = self.head(encoded[:, c.history_tokens :])  # (n, tokens, patch)
        out: Tensor = correction.reshape(n, -1)[:, : c.horizon]
        return out
