"""What principal components of the training part leave out."""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from benchmarks.anomaly.methods.method import Baseline
from benchmarks.anomaly.methods.windows import judged, window_length, windows

_KEPT = 0.9  # share of the variance that the components of several channels explain
_LEAST_SHARE = 1e-12  # of the variance: a component that is mere rounding would outweigh all others


class PrincipalComponents(Baseline):
    """Sub-PCA of TSB-AD on windows of one channel; the rest beside 90 % on rows of several.

    Sub-PCA sums the distances of a standardised window to all components, each over the share of
    the variance that the component explains.
    """

    def learn(self, train: np.ndarray) -> None:
        """Find the components."""
        self._length = window_length(train)
        found = windows(train, self._length)
        if self._length > 1:
            self._windows = StandardScaler().fit(found)
            found = self._windows.transform(found)
            components = PCA(svd_solver="covariance_eigh")
        else:
            components = PCA(_KEPT, svd_solver="full")
        with np.errstate(invalid="ignore"):  # a training part that never moves has no variance
            self._components = components.fit(found)

    def judge(self, values: np.ndarray) -> np.ndarray:
        """Score windows or rows."""
        if self._length == 1:
            rest: np.ndarray = self._rest(values).sum(axis=1)
            return rest
        return judged(values, self._length, self._distances)

    def explain(self, values: np.ndarray) -> np.ndarray:
        """Return what is left of each channel."""
        return self._rest(self.prepared(values))

    def _rest(self, rows: np.ndarray) -> np.ndarray:
        components = self._components
        rest = rows - components.inverse_transform(components.transform(rows))
        squared: np.ndarray = np.square(rest)
        return squared

    def _distances(self, found: np.ndarray) -> np.ndarray:
        scaled = self._windows.transform(found)
        axes = self._components.components_
        shares = np.fmax(self._components.explained_variance_ratio_, _LEAST_SHARE)
        squared = np.square(scaled).sum(axis=1, keepdims=True) + 1 - 2 * scaled @ axes.T
        total: np.ndarray = np.sqrt(np.maximum(squared, 0)) @ (1 / shares)
        return total
