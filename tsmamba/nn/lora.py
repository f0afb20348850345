"""Low-rank adaptation of what a Mamba selects: few weights to train, none left after merging."""

import math
from numbers import Integral, Real

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import (
    is_parametrized,
    register_parametrization,
    remove_parametrizations,
)

from tsmamba.errors import ParameterError
from tsmamba.nn.mamba import Mamba

_WEIGHT = "weight"


class LowRank(nn.Module):
    """Adds a product of two small matrices to the last rows of a weight.

    A parametrization of ``x_proj.weight`` of a `Mamba`; `add_lora` registers it. The product is
    zero at first.

    Parameters
    ----------
    weight : Tensor of shape (F, E)
        The weight.
    first : int
        First row that is adapted.
    rank : int
        Rank of the product, R.
    alpha : float
        The product counts by ``alpha / rank``.

    Examples
    --------
    >>> import torch
    >>> weight = torch.randn(9, 6)
    >>> torch.equal(LowRank(weight, first=1, rank=2, alpha=4.0)(weight), weight)
    True
    """

    def __init__(self, weight: Tensor, first: int, rank: int, alpha: float) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.first = first
        self.scaling = alpha / rank
        self.down = nn.Parameter(weight.new_empty(rank, columns))
        self.up = nn.Parameter(weight.new_zeros(rows - first, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the adapted weight, of the same shape."""
        kept, adapted = weight[: self.first], weight[self.first :]
        return torch.cat([kept, adapted + self.scaling * (self.up @ self.down)])


def check_lora(rank: int, alpha: float) -> None:
    """Refuse numbers that `add_lora` would.

    Parameters
    ----------
    rank, alpha
        As in `add_lora`.

    Raises
    ------
    ParameterError
        Naming the number, what came and what is accepted.

    Examples
    --------
    >>> check_lora(rank=4, alpha=8.0)
    """
    if isinstance(rank, bool) or not isinstance(rank, Integral) or rank < 1:
        raise ParameterError(f"rank={rank!r}; pass a whole number of at least 1")
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 < alpha < math.inf:
        raise ParameterError(f"alpha={alpha!r}; pass a number above 0")


def add_lora(network: nn.Module, rank: int = 8, alpha: float = 16.0) -> None:
    """Freeze a network and adapt B and C of its Mamba blocks by low-rank matrices.

    Use it to fine-tune on few data: only the matrices learn. In every `Mamba` they are added to the
    rows of ``x_proj`` from which B and C come; the rows of the step size, the decay rates and all
    else stay. Whatever reads ``x_proj.weight`` gets the sum, and outputs are at first as before.
    Train, then call `merge_lora`. Of copies made in between only one can be merged; it leaves the
    others unusable.

    Parameters
    ----------
    network : Module
        With `Mamba` blocks in it, such as a `MambaStack`; changed in place.
    rank : int >= 1, default 8
        Rank of the matrices.
    alpha : float > 0, default 16
        They count by ``alpha / rank``.

    Raises
    ------
    ParameterError
        If a number is out of range, or the network has no `Mamba` or is adapted already.

    References
    ----------
    Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.

    Examples
    --------
    >>> import torch
    >>> from tsmamba.nn import MambaStack
    >>> stack, x = MambaStack(8, n_layers=2), torch.randn(1, 5, 8)
    >>> before = stack(x)
    >>> add_lora(stack, rank=2)
    >>> torch.equal(stack(x), before)
    True
    >>> sum(p.numel() for p in stack.parameters() if p.requires_grad)
    192
    """
    check_lora(rank, alpha)
    blocks = [module for module in network.modules() if isinstance(module, Mamba)]
    if not blocks:
        raise ParameterError(f"{type(network).__name__} has no Mamba block to adapt; pass one")
    if any(is_parametrized(block.x_proj) for block in blocks):
        raise ParameterError(
            f"{type(network).__name__} is adapted already; call merge_lora before the next add_lora"
        )
    network.requires_grad_(False)
    for block in blocks:
        weight = block.x_proj.weight
        adapter = LowRank(weight, block.dt_rank, rank, alpha)
        register_parametrization(block.x_proj, _WEIGHT, adapter)


def merge_lora(network: nn.Module) -> None:
    """Make the adapted weights of a network its own.

    Outputs stay, and the state dict has the names and shapes that it had before `add_lora`. A
    network that is not adapted stays as it is.

    Parameters
    ----------
    network : Module
        Changed in place; what was frozen stays frozen.

    Examples
    --------
    >>> from tsmamba.nn import MambaStack
    >>> stack = MambaStack(8, n_layers=1)
    >>> names = list(stack.state_dict())
    >>> add_lora(stack)
    >>> merge_lora(stack)
    >>> list(stack.state_dict()) == names
    True
    """
    for module in list(network.modules()):
        if isinstance(module, Mamba) and is_parametrized(module.x_proj, _WEIGHT):
            remove_parametrizations(module.x_proj, _WEIGHT, leave_parametrized=True)
