"""Errors of the package, in one small tree.

::

    DatasetError
    ├── ChecksumError
    └── DownloadError
"""


class DatasetError(Exception):
    """A data set cannot be given as asked: unknown name, bad argument or missing file.

    Catch this class to handle every error that this package raises on purpose.

    Examples
    --------
    >>> from tsmamba_datasets import load_nab
    >>> from tsmamba_datasets.errors import DatasetError
    >>> try:
    ...     load_nab("no_such_series")
    ... except DatasetError as error:
    ...     message = str(error)
    >>> "nyc_taxi" in message
    True
    """


class ChecksumError(DatasetError):
    """A file was found, but its bytes are not the recorded ones.

    Raised instead of returning data that may have been cut short or edited.

    Examples
    --------
    >>> from tsmamba_datasets.errors import ChecksumError, DatasetError
    >>> issubclass(ChecksumError, DatasetError)
    True
    """


class DownloadError(DatasetError):
    """A file could not be downloaded: no network, a dead address or no ``pooch``.

    The message names the address, the reason and the way to do without a network.

    Examples
    --------
    >>> from tsmamba_datasets.errors import DatasetError, DownloadError
    >>> issubclass(DownloadError, DatasetError)
    True
    """
