"""What every contestant does."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from torch import Tensor

from benchmarks.forecast.problem import Problem
from tsmamba.data.windows import Windows


class Forecast(NamedTuple):
    """Forecasts of n windows on standardised values.

    ``point`` has the shape (n, H); ``bands`` has lower and upper bounds by level in percent.
    """

    point: Tensor
    bands: Mapping[int, tuple[Tensor, Tensor]] = MappingProxyType({})


class Contestant(Protocol):
    """A method that is fitted once for a horizon and then forecasts any window."""

    def fit(self, problem: Problem, seed: int) -> None:
        """Learn from the training part; choose on the validation part.

        Parameters
        ----------
        problem : Problem
            Set and horizon. The test part is not to be looked at.
        seed : int
            For whatever is drawn.
        """

    def forecast(self, windows: Windows) -> Forecast:
        """Forecast windows of the problem, from what lies before their origins.

        Parameters
        ----------
        windows : Windows
            The channels of an origin side by side.

        Returns
        -------
        Forecast
            In the order of the windows.
        """
