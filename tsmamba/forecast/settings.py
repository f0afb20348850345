"""The shape of the corrector, as a nested estimator."""

from numbers import Real

from sklearn.base import BaseEstimator

from tsmamba.errors import ParameterError
from tsmamba.forecast.defaults import check_parameters


class Network(BaseEstimator):
    """Shape of the network that corrects the linear base.

    Pass one to a forecaster to change it; being an estimator itself, its parameters are reached by
    ``set_params(network__d_model=...)`` and by a grid search. In ``mode="full"`` a network of the
    default shape starts from the weights that come with the package, any other from random ones.

    Parameters
    ----------
    patch_length : int >= 1, optional
        Steps of a token; near 48 and a part or multiple of the season by default.
    d_model, n_layers, d_state : int >= 1, default 32, 2 and 16
        Width, depth and states of the Mamba stack.
    dropout : float in [0, 1), default 0.1
        Rate of dropout in it.

    Examples
    --------
    >>> from tsmamba import MambaForecaster, Network
    >>> MambaForecaster(network=Network(n_layers=3)).set_params(network__d_model=16).network
    Network(d_model=16, n_layers=3)
    """

    def __init__(
        self,
        *,
        patch_length: int | None = None,
        d_model: int = 32,
        n_layers: int = 2,
        d_state: int = 16,
        dropout: float = 0.1,
    ) -> None:
        self.patch_length = patch_length
        self.d_model = d_model
        self.n_layers = n_layers
        self.d_state = d_state
        self.dropout = dropout

    def check(self) -> None:
        """Refuse a shape that makes no sense, before any work.

        Raises
        ------
        ParameterError
            Naming the parameter, what came and what is accepted.

        Examples
        --------
        >>> Network(d_model=8).check()
        """
        for name in ("d_model", "n_layers", "d_state"):
            if getattr(self, name) is None:
                raise ParameterError(f"{name}=None; pass a whole number of at least 1")
        check_parameters(
            patch_length=self.patch_length,
            d_model=self.d_model,
            n_layers=self.n_layers,
            d_state=self.d_state,
        )
        if not isinstance(self.dropout, Real) or not 0 <= self.dropout < 1:
            raise ParameterError(f"dropout={self.dropout!r}; pass a number from 0 to below 1")
