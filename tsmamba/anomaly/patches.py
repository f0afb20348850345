"""Patches of a series as points, so that the unusual ones are those far from all others."""

from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

Form: TypeAlias = Literal["raw", "half", "z"]

_POINTS = 64
_LEAST_SD = {"half": 0.01, "z": 0.1}
_CELLS = 4_000_000


def embed(windows: np.ndarray, form: Form) -> Tensor:
    """Turn windows into points whose distance says how much they differ.

    Windows longer than 127 rows are reduced to block means of 64 to 127 numbers: what is new in a
    long window shows at that resolution, and the cost stays the same.

    Parameters
    ----------
    windows : ndarray of shape (..., width)
        Rows in the unit of the channel.
    form : {"raw", "half", "z"}
        As it is; without its mean and divided by the square root of its standard deviation; or
        without mean and standard deviation. The half form is the best single one: it sees a change
        of shape in a quiet part and a change of amplitude, too.

    Returns
    -------
    Tensor of shape (..., points), float32
        Scaled by the square root of the rows a point stands for over ``width``, so that a squared
        distance is a mean over rows.

    Examples
    --------
    >>> embed(np.array([[1.0, 3.0, 1.0, 3.0]]), "z") * 2
    tensor([[-1.,  1., -1.,  1.]])
    """
    width = windows.shape[-1]
    block = max(1, width // _POINTS)
    points = windows
    if block > 1:
        whole = width // block * block
        # The newest rows count: what does not fill a block is left out at the old end.
        points = windows[..., width - whole :]
        points = points.reshape(*points.shape[:-1], whole // block, block).mean(-1)
    if form != "raw":
        points = points - points.mean(-1, keepdims=True)
        sd = np.sqrt(np.square(points).mean(-1, keepdims=True))
        sd = np.maximum(sd, _LEAST_SD[form])
        points = points / (np.sqrt(sd) if form == "half" else sd)
    return torch.from_numpy(np.asarray(points / np.sqrt(points.shape[-1]), dtype=np.float32))


def windows_of(values: np.ndarray, width: int) -> np.ndarray:
    """View every window of a series.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_channels)
        The series.
    width : int
        Rows of a window.

    Returns
    -------
    ndarray of shape (n_channels, n_rows - width + 1, width)
        A view.

    Examples
    --------
    >>> windows_of(np.arange(4.0)[:, None], 3)[0]
    array([[0., 1., 2.],
           [1., 2., 3.]])
    """
    return sliding_window_view(values, width, axis=0).swapaxes(0, 1)


def nearest(queries: Tensor, memory: Tensor, excluded: Tensor | None = None) -> np.ndarray:
    """Measure how far each point is from the nearest one in memory.

    Parameters
    ----------
    queries : Tensor of shape (n_channels, n, points)
        From `embed`.
    memory : Tensor of shape (n_channels, n_memory, points)
        From `embed`.
    excluded : Tensor of shape (n, n_memory), bool, optional
        Pairs that do not count.

    Returns
    -------
    ndarray of shape (n_channels, n)
        Distances; 0 where every pair is excluded.

    Examples
    --------
    >>> nearest(torch.zeros(1, 1, 2), torch.tensor([[[3.0, 4.0], [6.0, 8.0]]]))
    array([[5.]])
    """
    out = np.empty(queries.shape[:2])
    norms = memory.square().sum(-1)[:, None]
    step = max(1, _CELLS // norms.numel())
    for start in range(0, queries.shape[1], step):
        part = queries[:, start : start + step]
        # Half the squared distance, short of the query's own norm, which is the same for all.
        gaps = torch.baddbmm(norms, part, memory.mT, beta=0.5, alpha=-1.0)
        if excluded is not None:
            gaps.masked_fill_(excluded[start : start + step], torch.inf)
        least, index = gaps.min(-1)
        rows = index.unsqueeze(-1).expand(-1, -1, memory.shape[-1])
        # The chosen pair once more: the difference of large numbers above is not exact, and would
        # depend on how many queries came together.
        exact = (part - memory.gather(1, rows)).double().square().sum(-1).sqrt()
        out[:, start : start + step] = exact.masked_fill(least == torch.inf, 0.0).numpy()
    return out
