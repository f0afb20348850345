"""From the scores of single blocks to one score a row and its parts by channel."""

from dataclasses import dataclass

import numpy as np

TOP_CHANNELS = 3
# Deviations above the mean: beyond them nothing is more anomalous.
HIGHEST = 30.0
# Of what channels say one by one, to what they say together.
_OWN_WEIGHT = 2
_LEAST_DEVIATION = 1e-3
_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Standard:
    """Mean and deviation of each block in each channel, on rows taken as normal.

    Parameters
    ----------
    mean, deviation : ndarray of shape (n_blocks, n_channels)
        Of the blocks' scores.

    Examples
    --------
    >>> Standard.of(np.arange(12.0).reshape(6, 1, 2)).mean
    array([[5., 6.]])
    """

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, blocks: np.ndarray, least: float = _LEAST_DEVIATION) -> "Standard":
        """Measure them.

        Parameters
        ----------
        blocks : ndarray of shape (n_rows, n_blocks, n_channels)
            Scores.
        least : float
            No deviation is smaller.

        Returns
        -------
        Standard
        """
        return cls(blocks.mean(axis=0), np.maximum(blocks.std(axis=0), least))

    def fuse(self, blocks: np.ndarray) -> np.ndarray:
        """Join blocks: the root mean square of what lies above their means.

        Tails carry the anomalies, so scores are standardised, not ranked, and only cut where one
        block alone would silence all others.

        Parameters
        ----------
        blocks : ndarray of shape (..., n_blocks, n_channels)
            Scores; NaN where a block has none, which says nothing.

        Returns
        -------
        ndarray of shape (..., n_channels)
            0 and more.
        """
        excess = (blocks - self.mean) / self.deviation
        cut = np.minimum(np.fmax(excess, 0.0), HIGHEST)  # of NaN and 0, `fmax` takes 0
        fused: np.ndarray = np.sqrt(np.square(cut).mean(axis=-2))
        return fused


def contributions(fused: np.ndarray) -> np.ndarray:
    """Share the score of a row among its channels.

    The score is the mean of the three highest channels: one channel gone mad is seen among many,
    and a thing that shows in several counts more.

    Parameters
    ----------
    fused : ndarray of shape (..., n_channels)
        Scores by channel.

    Returns
    -------
    ndarray of the same shape
        Adds up to the score; 0 but for the three highest channels.

    Examples
    --------
    >>> contributions(np.array([[1.0, 3.0, 6.0, 9.0]]))
    array([[0., 1., 2., 3.]])
    """
    channels = fused.shape[-1]
    if channels <= TOP_CHANNELS:
        shared: np.ndarray = fused / channels
        return shared
    rows = fused.reshape(-1, channels)
    top = np.argpartition(-rows, TOP_CHANNELS - 1, axis=-1)[:, :TOP_CHANNELS]
    places = np.arange(len(rows))[:, None], top
    out = np.zeros_like(rows)
    out[places] = rows[places] / TOP_CHANNELS
    return out.reshape(fused.shape)


def shared(fused: np.ndarray, sparse: np.ndarray) -> np.ndarray:
    """Share the score of a row among the channels that were there.

    Parameters
    ----------
    fused : ndarray of shape (..., n_channels)
        Scores by channel.
    sparse : ndarray of the same shape, bool
        Where a channel has too few values to say anything.

    Returns
    -------
    ndarray of the same shape
        As `contributions`; NaN in rows where no channel says anything.

    Examples
    --------
    >>> shared(np.ones((2, 2)), np.array([[True, False], [True, True]]))
    array([[0. , 0.5],
           [nan, nan]])
    """
    parts = contributions(np.where(sparse, 0.0, fused))
    return np.where(sparse.all(axis=-1, keepdims=True), np.nan, parts)


def joined(parts: np.ndarray, joint: np.ndarray) -> np.ndarray:
    """Join what channels say one by one with what they say together.

    The score is the root mean square of both, and the former counts twice.

    Parameters
    ----------
    parts : ndarray of shape (..., n_channels)
        From `shared`.
    joint : ndarray of the same shape
        From `JointRows.excess`.

    Returns
    -------
    ndarray of the same shape
        Adds up to the score; NaN where `parts` are.

    Examples
    --------
    >>> joined(np.array([[3.0, 0.0]]), np.array([[0.0, 3.0]]))
    array([[2., 1.]])
    """
    own = np.add.reduce(parts, axis=-1, keepdims=True)
    whole = np.add.reduce(joint, axis=-1, keepdims=True)
    total = _OWN_WEIGHT + 1
    own_share = _OWN_WEIGHT / total * own
    whole_share = whole / total
    score = np.sqrt(own_share * own + whole_share * whole)
    mixed: np.ndarray = own_share * parts + whole_share * joint
    mixed /= np.maximum(score, _TINY)
    return mixed
