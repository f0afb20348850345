"""How far windows of a series are from the patches in a memory."""

import torch
from torch import Tensor

from tsmamba_kernels._backend import choose
from tsmamba_kernels.errors import ShapeError
from tsmamba_kernels.patch_distance.cpu import CompiledIndex
from tsmamba_kernels.patch_distance.reference import FORMS, patch_distance_reference

__all__ = ["FORMS", "PatchIndex"]


class PatchIndex:
    """Patches in memory, and the distance of windows to the nearest of them.

    A window is compared as a point: as it is ("raw"), without its mean and divided by the square
    root of its standard deviation ("half"), or by that deviation ("z"). Windows of 128 rows and
    more are first reduced to means of blocks of rows, 64 to 127 of them. A squared distance is a
    mean over the numbers of a point.

    Every window is compared with every patch: for the thousand patches of a detector's memory that
    is faster than a tree, whose pruning fails in as many dimensions.

    Parameters
    ----------
    patches : Tensor of shape (D, P, width)
        The memory: of each channel as many patches.
    form : {"raw", "half", "z"}
        How they are compared.
    starts : int64 Tensor of shape (P,), optional
        First row of each patch in its series, for calls that leave out patches near a window.
    backend : {"auto", "native", "reference"}, default "auto"
        Implementation to use; see `backend_report`.

    Raises
    ------
    ShapeError
        If the operands do not fit, or there is no such form.
    BackendUnavailableError
        If the backend asked for by name cannot run.

    Examples
    --------
    >>> index = PatchIndex(torch.tensor([[[0.0, 2.0], [5.0, 5.0]]]), "raw")
    >>> index.distances(torch.tensor([[[1.0], [1.0], [5.0]]]), range(2)).squeeze()
    tensor([1.0000, 2.2361], dtype=torch.float64)
    """

    def __init__(
        self,
        patches: Tensor,
        form: str,
        starts: Tensor | None = None,
        *,
        backend: str = "auto",
    ) -> None:
        if form not in FORMS:
            raise ShapeError(f"patch_distance: form {form!r}; pass one of {', '.join(FORMS)}")
        if patches.dim() != 3 or 0 in patches.shape:
            raise ShapeError(
                f"patch_distance: patches have shape {tuple(patches.shape)}; pass (D, P, width) "
                "with none of them 0"
            )
        if starts is not None and starts.shape != patches.shape[1:2]:
            raise ShapeError(
                f"patch_distance: starts have shape {tuple(starts.shape)}; pass "
                f"({patches.shape[1]},)"
            )
        self.width = patches.shape[-1]
        self._channels = patches.shape[0]
        self._form = form
        self._patches = patches.detach().to("cpu", torch.float64)
        self._starts = None if starts is None else starts.to("cpu", torch.int64).contiguous()
        self._backend = choose("patch_distance", self._patches, backend, absent=("triton",))
        native = self._backend == "native"
        self._compiled = CompiledIndex(self._patches, form, self._starts) if native else None

    def distances(
        self, values: Tensor, starts: range, *, apart: int = 0, offset: int = 0
    ) -> Tensor:
        """Measure windows of series.

        Parameters
        ----------
        values : Tensor of shape (B, L, D)
            The series, without gaps; computed with in float64.
        starts : range of length Q
            First row of each window, the same for all series.
        apart : int, default 0
            Patches that start nearer to a window than this do not count: those that share rows
            with it.
        offset : int, default 0
            Row of the series of the memory that is row 0 of ``values``.

        Returns
        -------
        Tensor of shape (B, Q, D), float64
            Infinite where no patch counts. Windows do not influence each other's numbers.

        Raises
        ------
        ShapeError
            If the operands do not fit, or patches have no starts where some are to be left out.
        """
        if values.dim() != 3 or values.shape[2] != self._channels:
            raise ShapeError(
                f"patch_distance: values have shape {tuple(values.shape)}; pass "
                f"(B, L, {self._channels})"
            )
        if starts and (
            min(starts[0], starts[-1]) < 0
            or max(starts[0], starts[-1]) + self.width > values.shape[1]
        ):
            raise ShapeError(
                f"patch_distance: windows of {self.width} rows that start at {starts[0]} to "
                f"{starts[-1]} do not lie in {values.shape[1]} rows"
            )
        if apart and self._starts is None:
            raise ShapeError(
                "patch_distance: apart needs the starts of the patches; pass them to PatchIndex"
            )
        if values.dtype != torch.float64 or not values.is_contiguous():
            values = values.detach().to("cpu", torch.float64).contiguous()
        if self._compiled is not None:
            return self._compiled.distances(values, starts, apart, offset)
        near = None
        if apart and self._starts is not None:
            near = (torch.tensor(starts)[:, None] + offset - self._starts).abs() < apart
        return patch_distance_reference(values, starts, self._patches, self._form, near)
