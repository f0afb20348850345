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
        Times that training sees every stay, at least.
    folds : int
        Members of the ensemble.
    moments : int
        Labels of a stay that are learned from, on average, where they hold at moments.
    moment_epochs : int
        Times that training sees every label, at least.
    """

    d_model: int
    epochs: int
    folds: int
    moments: int
    moment_epochs: int

    def readings(self, labels: int, stays: int) -> int:
        """Return how many labels training reads, of so many of so many stays."""
        return max(self.epochs * stays, self.moment_epochs * labels)


# More epochs overfit: labels are few, and each is one number for a whole stay or much like those
# before and after it.
PRESETS = {"auto": Preset(64, 8, 5, 8, 2), "tiny": Preset(16, 4, 2, 8, 2)}
