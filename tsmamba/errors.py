"""Every exception and warning that tsmamba raises.

::

    Exception
    └── TsmambaError
        ├── BrokerError                         Kafka cannot be reached, or refuses what is asked
        ├── CheckpointError                     a checkpoint cannot be used or written
        ├── FrameError (also ValueError)        a data frame cannot be used as it is
        │   ├── CovariateError                  its covariates do not fit the series or the model
        │   ├── FrequencyError                  its time stamps are not on one regular grid
        │   └── SeriesTooShortError             it holds too little history for the request
        ├── ParameterError (also ValueError)    an argument is outside what is accepted
        │   └── HorizonError                    a horizon that the model cannot serve
        ├── ModelFileError                      a saved model is damaged, altered or too new
        └── MissingExtraError (also ImportError)  an optional dependency is not installed
    UserWarning
    ├── CallbackWarning                         what listens to a fit failed; the fit did not
    ├── FrameWarning                            a data frame was usable after a repair
    ├── GuidanceWarning                         a simpler model will do for these data
    └── HealthWarning                           a model is trained, or runs, not as it should

Each message says what was given, what is accepted and the smallest repair, and names the series
and the column. A call on an unfitted estimator raises scikit-learn's ``NotFittedError``.
"""

__all__ = [
    "BrokerError",
    "CallbackWarning",
    "CheckpointError",
    "CovariateError",
    "FrameError",
    "FrameWarning",
    "FrequencyError",
    "GuidanceWarning",
    "HealthWarning",
    "HorizonError",
    "MissingExtraError",
    "ModelFileError",
    "ParameterError",
    "SeriesTooShortError",
    "TsmambaError",
]


class TsmambaError(Exception):
    """Root of everything that tsmamba raises on purpose.

    Catch it to handle any refusal of the library in one place.

    Examples
    --------
    >>> from tsmamba.errors import FrameError, TsmambaError
    >>> issubclass(FrameError, TsmambaError) and issubclass(FrameError, ValueError)
    True
    """


class BrokerError(TsmambaError):
    """Kafka cannot be reached, has no such topic, or refuses what is read or written."""


class CheckpointError(TsmambaError):
    """A checkpoint is in use, damaged, of another model or version, or cannot be written."""


class FrameError(TsmambaError, ValueError):
    """A data frame given by the user cannot be used as it is."""


class CovariateError(FrameError):
    """The covariates of a frame do not fit its series, or the model that is to use them."""


class FrequencyError(FrameError):
    """The time stamps of a frame do not lie on one regular grid."""


class SeriesTooShortError(FrameError):
    """A series holds fewer steps than the request needs."""


class ParameterError(TsmambaError, ValueError):
    """An argument is outside what is accepted."""


class HorizonError(ParameterError):
    """A horizon that the model cannot serve."""


class ModelFileError(TsmambaError):
    """A saved model or state is damaged, altered or of an unknown version."""


class MissingExtraError(TsmambaError, ImportError):
    """An optional dependency is needed and not installed."""


class CallbackWarning(UserWarning):
    """What listens to a fit, such as tracking, failed; the fit itself went on."""


class FrameWarning(UserWarning):
    """A data frame needed a repair, which was made, before it could be used."""


class GuidanceWarning(UserWarning):
    """A simpler model than the one asked for is the better choice for these data."""


class HealthWarning(UserWarning):
    """What watches a model found that it is not well, or cannot be judged as it is watched."""
