"""The notebook of a detector: a bounded set of patches of what was seen."""

from dataclasses import dataclass

import numpy as np

from tsmamba.anomaly.windows import windows_of


@dataclass(frozen=True)
class PatchMemory:
    """Patches of a series and where they were.

    Parameters
    ----------
    patches : ndarray of shape (n_channels, n_patches, width), float32
        In the unit of each channel.
    ends : ndarray of shape (n_patches,), int64
        Row of the last value of each patch, in increasing order.
    size : int
        Most patches to keep.

    Examples
    --------
    >>> memory = PatchMemory.of(np.arange(100.0)[:, None], width=10, size=4)
    >>> memory.ends
    array([ 9, 39, 69, 99])
    >>> memory.newest(2)[0, 0]
    array([8., 9.], dtype=float32)
    """

    patches: np.ndarray
    ends: np.ndarray
    size: int

    @classmethod
    def of(cls, values: np.ndarray, width: int, size: int) -> "PatchMemory":
        """Take evenly spaced patches of a series.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Without gaps, at least `width` rows.
        width : int
            Rows of a patch.
        size : int
            Most patches to take.

        Returns
        -------
        PatchMemory
        """
        starts = evenly(len(values) - width + 1, size)
        # In the order of a file, so that sums over a loaded one are the same bit for bit.
        patches = windows_of(values, width)[:, starts].astype(np.float32, order="C")
        return cls(patches, starts + width - 1, size)

    @property
    def width(self) -> int:
        """Rows of a patch."""
        return int(self.patches.shape[-1])

    def __len__(self) -> int:
        return len(self.ends)

    def newest(self, width: int) -> np.ndarray:
        """Return the last rows of every patch.

        Parameters
        ----------
        width : int
            How many.

        Returns
        -------
        ndarray of shape (n_channels, n_patches, width)
        """
        return self.patches[..., self.width - width :]


def evenly(n: int, size: int) -> np.ndarray:
    """Choose numbers below `n`, first and last among them.

    Parameters
    ----------
    n : int
        How many there are.
    size : int
        Most to choose.

    Returns
    -------
    ndarray of int64

    Examples
    --------
    >>> evenly(10, 4)
    array([0, 3, 6, 9])
    """
    return np.unique(np.linspace(0, n - 1, min(size, n)).astype(np.int64))
