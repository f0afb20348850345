"""The linear base of the forecaster: a map that all series share, and what each has of its own."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from tsmamba.data.windows import Windows, WindowStore
from tsmamba.forecast.base import BaseFit, Context, blocks_of, fit_base
from tsmamba.forecast.local import Local, fit_local
from tsmamba.forecast.mixing import Mixing, MixingFit

_WINDOWS_OF_A_SERIES, _MOST_WINDOWS = 64, 65_536


class LinearMap(NamedTuple):
    """A base that forecasts, without its folds.

    Parameters
    ----------
    weights : Tensor of shape (F, H)
        The map that all series share.
    local : Local, optional
        What it has for each series.
    mixing : Mixing, optional
        What the columns of a wide frame tell about each other.
    plain : Tensor of shape (F, H), optional
        The map for series that were not fitted, where the others have a profile that is taken off.
    """

    weights: Tensor
    local: Local | None = None
    mixing: Mixing | None = None
    plain: Tensor | None = None

    def forecaster(self, store: WindowStore, windows: Windows) -> Callable[[Tensor], Tensor]:
        """Return what forecasts windows from their inputs."""
        numbers = store.numbers(windows)

        def forecast(inputs: Tensor) -> Tensor:
            out = inputs @ self.weights
            if self.plain is not None and bool((numbers < 0).any()):
                out = torch.where(numbers[:, None] < 0, inputs @ self.plain, out)
            if self.local is not None:
                out = self.local(inputs, out, numbers)
            return out if self.mixing is None else self.mixing.mixed(out, store, windows)

        return forecast


class LinearBase(NamedTuple):
    """A fitted base, with its folds.

    Parameters
    ----------
    shared : BaseFit
        One map for all series.
    local : Local, optional
        Own maps and mixtures, where those gained on blocks left out.
    mixing : MixingFit, optional
        What the columns of a wide frame tell about each other, where that gained, too.
    plain : Tensor of shape (F, H), optional
        As in `LinearMap`.
    """

    shared: BaseFit
    local: Local | None = None
    mixing: MixingFit | None = None
    plain: Tensor | None = None

    @property
    def horizon(self) -> int:
        """Steps of a forecast, H."""
        return self.shared.weights.shape[1]

    def whole(self) -> "LinearMap":
        """Return the fit on all blocks alone."""
        local, mixing = self.local, self.mixing
        return LinearMap(
            self.shared.weights,
            None if local is None else local.whole(),
            None if mixing is None else mixing.mixing,
            self.plain,
        )

    def out_of_fold(self, store: WindowStore, windows: Windows) -> Callable[[Tensor], Tensor]:
        """Return what forecasts windows from their inputs by folds that never saw their targets.

        Windows that straddle two blocks were in no fold; the first one serves them.
        """
        block = blocks_of(store, windows, self.horizon).clamp(min=0)
        numbers = store.numbers(windows)

        def forecast(inputs: Tensor) -> Tensor:
            out = self.shared.out_of_fold(block)(inputs)
            if self.local is not None:
                out = self.local(inputs, out, numbers, block + 1)
            return out if self.mixing is None else self.mixing.mixed(out, store, windows, block)

        return forecast


def fit_linear_base(
    store: WindowStore,
    windows: Windows,
    context: Context,
    horizon: int,
    season: int = 1,
    present: Tensor | None = None,
    stride: int = 1,
) -> LinearBase:
    """Fit the shared map, and own maps and mixtures where they help.

    Parameters
    ----------
    store, windows, context, horizon, season, present
        As in `fit_base`.
    stride : int, default 1
        Every so many windows are enough for the shared map. Own maps take the same, or more where
        these are few for each series.

    Returns
    -------
    LinearBase
        With the folds of both.
    """
    strided = windows.select(torch.arange(0, len(windows), stride))
    shared = fit_base(store, strided, context, horizon, season, present)
    wanted = _WINDOWS_OF_A_SERIES * (len(store.offsets) - 1)
    if len(strided) < wanted:
        strided = windows.thinned(min(wanted, _MOST_WINDOWS))
    return LinearBase(shared, fit_local(store, strided, context, shared, season))
