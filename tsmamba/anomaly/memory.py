"""The notebook of a detector: a bounded set of patches of what was seen."""

from dataclasses import dataclass

import numpy as np

from tsmamba.anomaly.windows import windows_of


@dataclass(frozen=True)
class PatchMemory:
    """Patches of a series and where they were.

    Build one with `of`; `thinned`, `merged` and `forgetting` give new ones, so that a detector in
    use is never changed under its streams.

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
    def of(cls, values: np.ndarray, width: int, size: int, offset: int = 0) -> "PatchMemory":
        """Take evenly spaced patches of a series.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_channels)
            Without gaps, at least `width` rows.
        width : int
            Rows of a patch.
        size : int
            Most patches to take.
        offset : int, default 0
            Row at which the series starts.

        Returns
        -------
        PatchMemory
        """
        starts = evenly(len(values) - width + 1, size)
        # In the order of a file, so that sums over a loaded one are the same bit for bit.
        patches = windows_of(values, width)[:, starts].astype(np.float32, order="C")
        return cls(patches, starts + width - 1 + offset, size)

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

    def thinned(self, size: int) -> "PatchMemory":
        """Keep a number of patches, evenly spaced.

        Parameters
        ----------
        size : int
            How many; also the bound from now on.

        Returns
        -------
        PatchMemory
        """
        kept = evenly(len(self), size)
        return PatchMemory(self.patches[:, kept], self.ends[kept], size)

    def merged(self, other: "PatchMemory") -> "PatchMemory":
        """Join two notebooks; each keeps a share that fits its number of patches.

        Parameters
        ----------
        other : PatchMemory
            Of the same channels and width, from later rows.

        Returns
        -------
        PatchMemory
            Within the bound of this one.
        """
        both = PatchMemory(
            np.concatenate([self.patches, other.patches], axis=1),
            np.concatenate([self.ends, other.ends]),
            self.size,
        )
        return both if len(both) <= self.size else both.thinned(self.size)

    def forgetting(self, before: int) -> "PatchMemory":
        """Drop the patches that ended before a row.

        Parameters
        ----------
        before : int
            Row number; the newest patch always stays.

        Returns
        -------
        PatchMemory
        """
        kept = self.ends >= min(before, self.ends[-1])
        return PatchMemory(self.patches[:, kept], self.ends[kept], self.size)


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
