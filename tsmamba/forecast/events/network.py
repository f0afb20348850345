"""The network that forecasts a stay: a linear model of each code's own past, and what it adds."""

from dataclasses import dataclass

from torch import Tensor, nn

from tsmamba.forecast.events.history import histories
from tsmamba.forecast.events.linear import linear, persistence
from tsmamba.records.encoder import StayEncoder
from tsmamba.records.tokens import Batch

__all__ = ["EventConfig", "EventNetwork"]


@dataclass(frozen=True)
class EventConfig:
    """Shape of an `EventNetwork`.

    Parameters
    ----------
    n_codes, n_statics, horizon : int
        Codes read and forecast, features of what is static, and bins ahead.
    d_model, n_layers, d_state : int
        Width, depth and states of the Mamba stack.
    dropout, input_dropout : float
        Rates, of the outputs of the stack and of the inputs.
    """

    n_codes: int
    n_statics: int
    horizon: int
    d_model: int = 48
    n_layers: int = 1
    d_state: int = 16
    dropout: float = 0.2
    input_dropout: float = 0.0


class EventNetwork(StayEncoder):
    """A Mamba that forecasts every code after every token, from what came before.

    The forecast of a code is linear in its own past, plus what the Mamba says of the whole stay.
    A new network repeats the last value.

    Parameters
    ----------
    config : EventConfig
        Its shape.

    Examples
    --------
    >>> import torch
    >>> batch = Batch(
    ...     torch.zeros(1, 5, 3), torch.zeros(1, 5, 3, dtype=torch.uint8), torch.ones(1, 5),
    ...     torch.ones(1, 5, dtype=torch.bool), torch.zeros(1, 2),
    ... )
    >>> network = EventNetwork(EventConfig(n_codes=3, n_statics=2, horizon=4))
    >>> network(batch, batch.values).shape
    torch.Size([1, 5, 4, 3])
    """

    def __init__(self, config: EventConfig) -> None:
        super().__init__(
            config.n_codes,
            config.n_statics,
            config.d_model,
            config.n_layers,
            config.d_state,
            causal=True,
            input_dropout=config.input_dropout,
        )
        self.config = config
        self.dropout = nn.Dropout(config.dropout)
        self.kernel = nn.Parameter(persistence(config.horizon, config.n_codes))
        self.head = nn.Linear(config.d_model, config.horizon * config.n_codes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, batch: Batch, latest: Tensor) -> Tensor:
        """Return the forecasts after each token, (B, L, H, V), from the last single values, too."""
        own = linear(histories(batch, latest), self.kernel)
        encoded = self.encoded(batch, self.known(batch))
        added: Tensor = self.head(self.dropout(encoded))
        said: Tensor = own + added.unflatten(-1, own.shape[-2:])
        return said
