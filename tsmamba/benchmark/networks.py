"""The networks that are compared, and what is done with them."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsmamba.nn import AttentionBlock, MambaStack

WIDTH = 64
HEADS = 2
MLP_RATIO = 4
LSTM_WIDTH = 128

OURS = "two Mamba blocks"
ATTENTION = "attention and MLP"
LSTM = "LSTM"


class TransformerLayer(nn.Module):
    """Causal attention and an MLP, each pre-norm and residual.

    Without positional encoding, which would only make it slower.

    Examples
    --------
    >>> import torch
    >>> TransformerLayer()(torch.randn(1, 5, 64)).shape
    torch.Size([1, 5, 64])
    """

    def __init__(self) -> None:
        super().__init__()
        self.attention = AttentionBlock(WIDTH, HEADS)
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, MLP_RATIO * WIDTH), nn.GELU(), nn.Linear(MLP_RATIO * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Mix a sequence of shape (B, L, D)."""
        return self._mlp(self.attention(x))

    def cache(self, x: Tensor) -> Tensor:
        """Return keys and values of a sequence, and room for one more step.

        Parameters
        ----------
        x : Tensor of shape (B, L, D)
            The steps so far.

        Returns
        -------
        Tensor of shape (2, B, heads, L + 1, D / heads)
            Zeros at the end.
        """
        _, *past = self._project(x)
        return F.pad(torch.stack(past), (0, 0, 0, 1))

    def step(self, x: Tensor, cache: Tensor) -> Tensor:
        """Mix the last of the steps for which a cache has room, of shape (B, D)."""
        query, key, value = self._project(x.unsqueeze(1))
        cache[0, :, :, -1:], cache[1, :, :, -1:] = key, value
        mixed = F.scaled_dot_product_attention(query, cache[0], cache[1])
        return self._mlp(x + self.attention.mixer.out_proj(mixed.flatten(1)))

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        heads = self.attention.mixer.qkv_proj(self.attention.norm(x))
        split: Tensor = heads.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return split.unbind()  # (B, heads, L, width) each

    def _mlp(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.mlp(self.norm(x))
        return out


class Lstm(nn.Module):
    """PyTorch's LSTM, whose state is as wide as that of a Mamba block inside.

    Examples
    --------
    >>> import torch
    >>> Lstm()(torch.randn(1, 5, 64)).shape
    torch.Size([1, 5, 128])
    """

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, LSTM_WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Mix a sequence of shape (B, L, D)."""
        out: Tensor = self.lstm(x)[0]
        return out


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    OURS: lambda: MambaStack(WIDTH, n_layers=2),
    ATTENTION: TransformerLayer,
    LSTM: Lstm,
}


def inference(network: nn.Module, x: Tensor) -> Callable[[], None]:
    """Return a call that runs a network forward, without gradients."""

    @torch.no_grad()
    def run() -> None:
        network(x)

    return run


def training_step(network: nn.Module, x: Tensor) -> Callable[[], None]:
    """Return a call that runs a network forward and backward, to all its weights."""
    weights = list(network.parameters())

    def run() -> None:
        torch.autograd.grad(network(x).square().mean(), weights)

    return run
