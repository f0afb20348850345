"""Sleeping beside files, which wake nobody up."""

import time
from collections.abc import Callable

__all__ = ["POLL", "wait_for"]

POLL = 0.01
"""Seconds between two looks; it works on network file systems, where notifications do not."""


def wait_for(ready: Callable[[], bool], timeout: float) -> bool:
    """Look until there is something, or time is up.

    Parameters
    ----------
    ready : callable
        Says whether there is something.
    timeout : float
        Seconds, at most.

    Returns
    -------
    bool
        What `ready` said last.

    Examples
    --------
    >>> wait_for(lambda: True, timeout=1.0)
    True
    """
    end = time.monotonic() + timeout
    while not ready():
        left = end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(POLL, left))
    return True
