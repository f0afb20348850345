"""One step of a stack as a module of tensors only, for exporters such as ONNX."""

import torch
from torch import Tensor, nn

from tsmamba.nn.mamba import MambaState
from tsmamba.nn.stack import MambaStack
from tsmamba_kernels import use_backend


class ExportableStep(nn.Module):
    """`MambaStack.step` with the states of all blocks as two tensors.

    Use it to run a trained network point by point outside Python, by
    ``torch.onnx.export(ExportableStep(stack.eval()), (x, *states), dynamo=True)``. It holds the
    stack itself, not a copy, and computes in plain PyTorch whatever kernels are installed.

    Parameters
    ----------
    stack : MambaStack
        A causal stack without attention.

    Raises
    ------
    RuntimeError
        If the stack has no step.

    Examples
    --------
    >>> import torch
    >>> step = ExportableStep(MambaStack(8, n_layers=2, d_state=4))
    >>> y, conv, ssm = step(torch.randn(1, 8), *step.init_state(1))
    >>> y.shape, conv.shape, ssm.shape
    (torch.Size([1, 8]), torch.Size([2, 1, 3, 16]), torch.Size([2, 1, 16, 4]))
    """

    def __init__(self, stack: MambaStack) -> None:
        super().__init__()
        stack.init_state(1)  # refuses a stack without a step, before an exporter wraps the error
        self.stack = stack
        self.train(stack.training)

    def init_state(self, batch_size: int) -> tuple[Tensor, Tensor]:
        """Return the states before the first step, of shapes as in `forward`."""
        conv, ssm = zip(*self.stack.init_state(batch_size), strict=True)
        return torch.stack(conv), torch.stack(ssm)

    def forward(
        self, x: Tensor, conv: Tensor, ssm: Tensor, delta_scale: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Encode one time step.

        Parameters
        ----------
        x : Tensor of shape (B, D)
            Input of the step.
        conv : Tensor of shape (layers, B, W - 1, E)
            What the convolutions still see.
        ssm : Tensor of shape (layers, B, E, N)
            Hidden states of the scans.
        delta_scale : Tensor of shape (B,), optional
            Real time elapsed since the last step.

        Returns
        -------
        y : Tensor of shape (B, D)
            Output of the step.
        conv, ssm : Tensor
            States after it.
        """
        before = [MambaState(*pair) for pair in zip(conv, ssm, strict=True)]
        with use_backend("reference"):
            y, after = self.stack.step(x, before, delta_scale=delta_scale)
        new_conv, new_ssm = zip(*after, strict=True)
        return y, torch.stack(new_conv), torch.stack(new_ssm)
