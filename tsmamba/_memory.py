"""Memory of this process."""

import resource
import sys


def peak_memory_mb() -> float:
    """Return the most memory that this process ever held, in MiB.

    It is that of the whole process since its start: a small fit after a large one does not lower
    it.

    Examples
    --------
    >>> peak_memory_mb() > 1
    True
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
