"""What ends a command that runs until it is told to stop."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

__all__ = ["signals_to"]


@contextmanager
def signals_to(stop: Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set an event, and do no more.

    Parameters
    ----------
    stop : Event
        What is set.

    Examples
    --------
    >>> stop = Event()
    >>> with signals_to(stop):
    ...     signal.raise_signal(signal.SIGTERM)
    >>> stop.is_set()
    True
    """
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
