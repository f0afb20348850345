"""Sizes of the classifier."""

from typing import NamedTuple

__all__ = ["PRESETS", "Preset"]


class Preset(NamedTuple):
    """Sizes that go together.

    Parameters
    ----------
    d_model : int
        Width of the networks.
    epochs : int
        Times that training sees every stay.
    folds : int
        Members of the ensemble.
    """

    d_model: int
    epochs: int
    folds: int


# More epochs overfit: labels are few, and each is one number for a whole stay.
PRESETS = {"auto": Preset(64, 8, 5), "tiny": Preset(16, 4, 2)}
