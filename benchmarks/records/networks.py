"""Networks of others on the same tokens: GRU-D and a small transformer."""

import torch
from torch import Tensor, nn

from tsmamba.records.tokens import Batch

__all__ = ["GRUD", "GRUDForecasts", "Transformer"]

_WIDTH = 64


class GRUD(nn.Module):
    """GRU with decay (Che et al. 2018), on values and times of the bins of a stay.

    What was not measured decays from the last value to the mean, zero here, and the state decays
    with the time that passed.
    """

    def __init__(self, n_codes: int, n_statics: int) -> None:
        super().__init__()
        self.input_decay = nn.Parameter(torch.zeros(2, n_codes))
        self.state_decay = nn.Linear(n_codes, _WIDTH)
        self.cell = nn.GRUCell(2 * n_codes + n_statics, _WIDTH)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(_WIDTH, 1)

    def forward(self, batch: Batch) -> Tensor:
        """Return the log odds of each stay, (B,)."""
        logits: Tensor = self.head(self.dropout(self.states(batch)[:, -1]))[:, 0]
        return logits

    def states(self, batch: Batch) -> Tensor:
        """Return the state after each token, (B, L, D); at the end of a stay it stays."""
        observed = (batch.since == 0).to(batch.values.dtype)
        since = torch.log1p(batch.since.to(batch.values.dtype))
        slope, level = self.input_decay
        decay = torch.exp(-(slope * since + level).relu())
        values = observed * batch.values + (1 - observed) * decay * batch.values
        state = batch.values.new_zeros(len(values), _WIDTH)
        shrink = torch.exp(-self.state_decay(since).relu())
        states = []
        for step in range(values.shape[1]):
            inputs = torch.cat([values[:, step], observed[:, step], batch.statics], -1)
            there = batch.mask[:, step, None]
            state = torch.where(there, self.cell(inputs, shrink[:, step] * state), state)
            states.append(state)
        return torch.stack(states, 1)


class GRUDForecasts(GRUD):
    """GRU-D that forecasts every code after every token: what it adds to a part of the last value.

    The part is learned for each code and step.
    """

    def __init__(self, n_codes: int, n_statics: int, horizon: int) -> None:
        super().__init__(n_codes, n_statics)
        self.given_up = nn.Parameter(torch.full((horizon, n_codes), 0.3))
        self.head = nn.Linear(_WIDTH, horizon * n_codes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, batch: Batch) -> Tensor:
        """Return the standardised forecasts after each token, (B, L, H, V)."""
        carried = batch.values[:, :, None] * (1 - self.given_up)
        added: Tensor = self.head(self.dropout(self.states(batch)))
        said: Tensor = carried + added.unflatten(-1, self.given_up.shape)
        return said


class Transformer(nn.Module):
    """An encoder of two layers on the inputs that the Mamba reads, pooled by the mean."""

    def __init__(self, n_codes: int, n_statics: int) -> None:
        super().__init__()
        self.embed = nn.Linear(3 * n_codes + n_statics + 1, _WIDTH)
        layer = nn.TransformerEncoderLayer(
            _WIDTH, 4, 2 * _WIDTH, dropout=0.3, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(_WIDTH), nn.Dropout(0.3), nn.Linear(_WIDTH, 1))

    def forward(self, batch: Batch) -> Tensor:
        """Return the log odds of each stay, (B,)."""
        ago = torch.log1p(2.0 * batch.since) / 2.0
        time = torch.log1p(batch.elapsed.cumsum(1))[..., None]
        statics = batch.statics[:, None].expand(-1, ago.shape[1], -1)
        inputs = torch.cat([batch.values, (batch.since == 0) * 1.0, ago, statics, time], -1)
        encoded = self.encoder(self.embed(inputs), src_key_padding_mask=~batch.mask)
        there = batch.mask[..., None]
        logits: Tensor = self.head((encoded * there).sum(1) / there.sum(1))[:, 0]
        return logits
