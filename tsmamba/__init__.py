"""Forecasts for long series on Mamba networks, behind a scikit-learn interface."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from tsmamba.anomaly import MambaDetector
    from tsmamba.forecast import MambaForecaster
    from tsmamba.forecast.advice import advise
    from tsmamba.forecast.settings import Network
    from tsmamba.logs.estimator import LogDetector
    from tsmamba.outcomes import MambaClassifier, MambaRegressor
    from tsmamba.training import Training

__all__ = [
    "LogDetector",
    "MambaClassifier",
    "MambaDetector",
    "MambaForecaster",
    "MambaRegressor",
    "Network",
    "Training",
    "advise",
]
__version__ = "0.1.0"

# Loaded at first use: `tsmamba --help` must not wait for torch.
_HOMES = {
    "LogDetector": "tsmamba.logs.estimator",
    "MambaClassifier": "tsmamba.outcomes",
    "MambaDetector": "tsmamba.anomaly",
    "MambaForecaster": "tsmamba.forecast",
    "MambaRegressor": "tsmamba.outcomes",
    "Network": "tsmamba.forecast.settings",
    "Training": "tsmamba.training",
    "advise": "tsmamba.forecast.advice",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
