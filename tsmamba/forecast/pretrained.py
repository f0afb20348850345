"""The corrector that comes with the package, trained on a pool of other data."""

import os
from dataclasses import asdict
from functools import cache
from importlib.resources import as_file, files

from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.persistence import load_model, save_model

_KIND = "Corrector"
_FILE = "weights/corrector.safetensors"


@cache
def pretrained_corrector() -> Corrector:
    """Return the bundled corrector, in evaluation mode; not to be changed.

    ``weights/MODEL_CARD.md`` beside it names data, licences, date and the command that made it.

    Returns
    -------
    Corrector
        Without context features, so that it fits series of any kind.

    Examples
    --------
    >>> pretrained_corrector().config.patch
    48
    """
    with as_file(files("tsmamba.forecast") / _FILE) as path:
        return load_corrector(path)


def save_corrector(path: str | os.PathLike[str], corrector: Corrector) -> None:
    """Write a corrector to one file.

    Parameters
    ----------
    path : str or path
        The file.
    corrector : Corrector
        What to write.
    """
    save_model(path, _KIND, asdict(corrector.config), dict(corrector.state_dict()))


def load_corrector(path: str | os.PathLike[str]) -> Corrector:
    """Read a corrector that `save_corrector` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Corrector
        In evaluation mode.
    """
    settings, tensors = load_model(path, _KIND)
    corrector = Corrector(CorrectorConfig(**settings))
    corrector.load_state_dict(tensors)
    return corrector.eval().requires_grad_(False)
