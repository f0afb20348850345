"""Other processes of this machine that score parts of a `Job` beside this one.

A pool of `concurrent.futures` would wait for processes that are still starting, which takes
seconds, even where this process was done with all parts before.
"""

import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait

import torch

from tsmamba.serving.parquet import Job, Outcome, Scorer

__all__ = ["Other", "others", "ready"]


class Other:
    """A process that scores parts, one after the other.

    Parameters
    ----------
    job : Job
        What it scores parts of.
    threads : int >= 1
        Threads of torch there.
    """

    def __init__(self, job: Job, threads: int) -> None:
        # Forks of a process that has threads, as torch and polars start them, may hang.
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.parts: deque[str] = deque()
        self.alive = True
        self._process = spawn.Process(target=_serve, args=(theirs, job, threads), daemon=True)
        self._process.start()
        theirs.close()

    def give(self, part: str) -> None:
        """Send one more part."""
        self.parts.append(part)
        with suppress(OSError):  # of a process that ended, which the next answer says
            self.pipe.send(part)

    def receive(self) -> Outcome | None:
        """Return what became of its first part, or None if it tells that it is up.

        If it ended, that part failed; those that it had not begun are still in `parts`.
        """
        try:
            outcome: Outcome | None = self.pipe.recv()
        except (EOFError, OSError):
            self.alive = False
            return Outcome.lost(self.parts.popleft()) if self.parts else None
        if outcome is not None:
            self.parts.popleft()
        return outcome

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.terminate()
        self._process.join()
        self.pipe.close()


@contextmanager
def others(job: Job, count: int, threads: int) -> Iterator[list[Other]]:
    """Start processes, and end them afterwards.

    Parameters
    ----------
    job : Job
        What they score parts of.
    count : int >= 0
        How many.
    threads : int >= 1
        Threads of torch in each.

    Yields
    ------
    list of Other
        Those that start.
    """
    started: list[Other] = []
    try:
        for _ in range(count):
            started.append(Other(job, threads))
        yield started.copy()
    finally:
        for each in started:
            each.end()


def ready(running: Sequence[Other], *, block: bool) -> list[Other]:
    """Return the processes that have something to tell, or wait for one."""
    pipes = wait([each.pipe for each in running], timeout=None if block else 0)
    return [each for each in running if each.pipe in pipes]


def _serve(pipe: Connection, job: Job, threads: int) -> None:
    """Score what comes through the pipe, after a first word that this process is up."""
    torch.set_num_threads(threads)
    scorer = Scorer(job)
    pipe.send(None)
    with suppress(EOFError):
        while True:
            pipe.send(scorer.score(pipe.recv()))
