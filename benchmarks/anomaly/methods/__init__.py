"""The methods, cheap ones first."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.anomaly.methods.isolation_forest import Forest
from benchmarks.anomaly.methods.matrix_profile import MatrixProfile
from benchmarks.anomaly.methods.method import Method
from benchmarks.anomaly.methods.nearest import Nearest
from benchmarks.anomaly.methods.pca import PrincipalComponents
from benchmarks.anomaly.methods.random import RandomControl
from benchmarks.anomaly.methods.robust_z import RobustZ
from benchmarks.anomaly.methods.tsmamba import Tsmamba


@dataclass(frozen=True)
class Entry:
    """A method by name.

    Parameters
    ----------
    make : callable
        Takes a seed and gives an unfitted method.
    ahead : str
        How far beyond a row its score looks, in words for a table.
    random : bool, default False
        Whether seeds matter; one that is not random runs with the first seed only.
    """

    make: Callable[[int], Method]
    ahead: str
    random: bool = False


OURS = "tsmamba"  # how the names of our own begin
CORRECTED = "corrector"  # and those with a trained network
CONTROL = "random"

METHODS = {
    CONTROL: Entry(RandomControl, "nothing", random=True),
    "robust z": Entry(RobustZ, "nothing"),
    "PCA": Entry(PrincipalComponents, "half a window"),
    "nearest neighbour": Entry(Nearest, "half a window"),
    "isolation forest": Entry(Forest, "half a window", random=True),
    f"{OURS} (alerts)": Entry(partial(Tsmamba, preset="alerts"), "nothing"),
    f"{OURS} (delay 0)": Entry(partial(Tsmamba, mode="streaming", delay=0), "nothing"),
    f"{OURS} (delay p/4)": Entry(partial(Tsmamba, mode="streaming", delay="p/4"), "p/4"),
    f"{OURS} (delay p/2)": Entry(partial(Tsmamba, mode="streaming", delay="p/2"), "p/2"),
    f"{OURS} (delay p)": Entry(partial(Tsmamba, mode="streaming", delay="p"), "a period"),
    f"{OURS} (offline)": Entry(partial(Tsmamba, mode="offline"), "the series"),
    f"{OURS} (delay p, {CORRECTED})": Entry(
        partial(Tsmamba, mode="streaming", delay="p", corrector="mamba"), "a period", random=True
    ),
    f"{OURS} (offline, {CORRECTED})": Entry(
        partial(Tsmamba, mode="offline", corrector="mamba"), "the series", random=True
    ),
    "matrix profile": Entry(MatrixProfile, "the series"),
}
