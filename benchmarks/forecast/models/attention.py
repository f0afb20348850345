"""The encoder layer of PatchTST and iTransformer."""

from torch import Tensor, nn


class BatchNorm(nn.Module):
    """Batch normalisation of tokens (n, T, D), over all but the width.

    Parameters
    ----------
    width : int
        D.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens of the same shape."""
        out: Tensor = self.norm(tokens.mT).mT
        return out


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward part, each added and then normalised.

    Parameters
    ----------
    width, heads, d_ff : int
        Sizes.
    dropout, attention_dropout : float
        Rates, of what is added and of the attention weights.
    norm : type of Module
        Made from ``width``.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        d_ff: int,
        *,
        dropout: float,
        attention_dropout: float,
        norm: type[nn.Module],
    ) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(
            width, heads, dropout=attention_dropout, batch_first=True
        )
        self.feed = nn.Sequential(
            nn.Linear(width, d_ff), nn.GELU(), nn.Dropout(dropout), nn.Linear(d_ff, width)
        )
        self.dropout = nn.Dropout(dropout)
        self.norm_attention, self.norm_feed = norm(width), norm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens (n, T, D) that have seen each other."""
        seen, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        tokens = self.norm_attention(tokens + self.dropout(seen))
        out: Tensor = self.norm_feed(tokens + self.dropout(self.feed(tokens)))
        return out
