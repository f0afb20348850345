"""Parameters of an estimator of records, checked before any work."""

from typing import Any

from tsmamba.errors import ParameterError
from tsmamba.forecast.defaults import check_parameters
from tsmamba.outcomes.presets import PRESETS
from tsmamba.training import Training

__all__ = ["check_settings"]

_BASES = ("boosting", None)


def check_settings(given: dict[str, Any]) -> None:
    """Refuse what is out of range.

    Parameters
    ----------
    given : dict of str to object
        Parameters of the estimator, by name.

    Raises
    ------
    ParameterError
        Naming the parameter, what came and what is accepted.

    Examples
    --------
    >>> from tsmamba import MambaClassifier
    >>> check_settings(MambaClassifier().get_params(deep=False))
    """
    if given["preset"] not in PRESETS:
        accepted = ", ".join(map(repr, PRESETS))
        raise ParameterError(f"preset={given['preset']!r}; pass one of {accepted}")
    if given["base"] not in _BASES:
        raise ParameterError(f"base={given['base']!r}; pass 'boosting' or None")
    if not isinstance(given.get("causal", False), bool):
        raise ParameterError(f"causal={given['causal']!r}; pass True or False")
    for name in ("n_bins", "max_codes"):
        if given[name] is None:
            raise ParameterError(f"{name}=None; pass a whole number of at least 1")
    check_parameters(n_bins=given["n_bins"], max_codes=given["max_codes"])
    check_parameters(least=0, random_state=given["random_state"])
    training = given["training"]
    if training is not None:
        if not isinstance(training, Training):
            raise ParameterError(f"training={training!r}; pass a tsmamba.Training or None")
        training.check()
