"""Sizes of a run."""

from dataclasses import dataclass, replace

QUICK_DIVISOR = 8


@dataclass(frozen=True)
class Plan:
    """Sizes of everything that is measured, and the time that it may take.

    Parameters
    ----------
    scan : (int, int, int, int)
        B, L, D and N of the scan against its rivals.
    threads_scan : (int, int, int, int)
        The same for one thread against two.
    training_length, inference_length : int
        Steps of the networks.
    block_length : int
        Steps of the Mamba block in training, short because its rival's time grows quadratically.
    lengths : tuple of int
        For the exponents; each the same multiple of the one before.
    seconds : float
        After these a race has no further round; it has at least one and at most five.
    call_seconds : float
        Other networks than ours take no part beyond the length at which a call takes longer.
    step_calls : int
        Calls of a single step.

    Examples
    --------
    >>> Plan().shortened().scan
    (4, 1024, 128, 16)
    """

    scan: tuple[int, int, int, int] = (4, 8192, 128, 16)
    threads_scan: tuple[int, int, int, int] = (1, 262144, 32, 16)
    training_length: int = 8192
    inference_length: int = 32768
    block_length: int = 512
    lengths: tuple[int, ...] = tuple(2**power for power in range(10, 21))
    seconds: float = 10.0
    call_seconds: float = 1.5
    step_calls: int = 2000

    def shortened(self, divisor: int = QUICK_DIVISOR) -> "Plan":
        """Return a plan for a first look, with all lengths and times divided."""

        def shorter(shape: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
            batch, length, channels, states = shape
            return batch, length // divisor, channels, states

        return replace(
            self,
            scan=shorter(self.scan),
            threads_scan=shorter(self.threads_scan),
            training_length=self.training_length // divisor,
            inference_length=self.inference_length // divisor,
            block_length=self.block_length // divisor,
            lengths=tuple(length // divisor for length in self.lengths),
            seconds=self.seconds / divisor,
            call_seconds=self.call_seconds / divisor,
            step_calls=self.step_calls // divisor,
        )
