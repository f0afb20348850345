"""The only place that catches ImportError: packages that an extra of tsmamba brings."""

import importlib
from types import ModuleType

from tsmamba.errors import MissingExtraError


def require(module: str, extra: str) -> ModuleType:
    """Import an optional package at the call that needs it.

    Use it inside the function that needs the package, never at the head of a module, so that
    ``import tsmamba`` works without any extra.

    Parameters
    ----------
    module : str
        What to import, dots allowed: ``"matplotlib.pyplot"``.
    extra : str
        Extra of tsmamba that installs it: ``"plot"``.

    Returns
    -------
    module : ModuleType
        The imported module, the innermost one when the name has dots.

    Raises
    ------
    MissingExtraError
        If the package is not installed. The message names the command that installs it.

    Examples
    --------
    >>> require("json", extra="plot").dumps([1])
    '[1]'
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # An installed package that misses a package of its own is broken, not absent: pip's
        # command would not mend it, and hiding the true name would mislead.
        if error.name != package:
            raise
        message = (
            f"{package} is not installed, and this call needs it. "
            f'Install it with: pip install "tsmamba[{extra}]"'
        )
        raise MissingExtraError(message) from error
