"""Where the parts of a `Job` are scored: in this process, in several, or by Ray on machines."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch

from tsmamba._optional import require
from tsmamba.errors import ParameterError
from tsmamba.serving.parquet import Job, Outcome, Scorer
from tsmamba.serving.processes import others, ready

_Engine = Callable[[Job, list[str], int, Scorer], Iterator[Outcome]]
# Parts given to a process at a time: one to score and the next.
_AHEAD = 2


def score_parquet(job: Job, engine: str | None = None, workers: int = 1) -> Iterator[Outcome]:
    """Score all parts of a job, as `score_frame` scores one frame.

    Parts that an earlier run finished with the same model, rows and settings are kept. One that
    cannot be scored is told of, and the others go on.

    Parameters
    ----------
    job : Job
        What to score.
    engine : {"process", "ray"}, optional
        Processes of this machine, this one among them, or actors of a Ray cluster: the one that
        ``RAY_ADDRESS`` names, where all must see the same folders, or one of this machine. By
        default processes.
    workers : int >= 1, default 1
        How many score at a time.

    Yields
    ------
    Outcome
        Of each part, as they are done.

    Raises
    ------
    ParameterError, FrameError, ModelFileError
        Before anything is scored, if the job cannot be done: see `Job.parts` and
        `Scorer.check_whole`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tsmamba import MambaForecaster
    >>> from tsmamba_datasets import make_seasonal
    >>> series = make_seasonal(length=400)
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     (folder / "sent").mkdir()
    ...     series.write_parquet(folder / "sent" / "0.parquet")
    ...     MambaForecaster(24, mode="base").fit(series).save(folder / "model.tsm")
    ...     job = Job(folder / "sent", folder / "scored", folder / "model.tsm")
    ...     [outcome.state for outcome in score_parquet(job)]
    ['scored']
    """
    if workers < 1:
        raise ParameterError(f"workers={workers}; pass a whole number of at least 1")
    if engine not in (None, *_ENGINES):
        raise ParameterError(f"engine={engine!r}; pass one of {', '.join(map(repr, _ENGINES))}")
    parts = job.parts()
    scorer = Scorer(job)
    scorer.check_whole(parts)
    return _ENGINES[engine or "process"](job, parts, workers, scorer)


def _in_processes(job: Job, parts: list[str], workers: int, scorer: Scorer) -> Iterator[Outcome]:
    """Score in this process, and in others, which share its cores and join when they are up."""
    threads = max(1, (os.cpu_count() or 1) // workers)
    left = deque(parts)
    with _torch_threads(threads), others(job, workers - 1, threads) as running:
        while left or any(each.parts for each in running):
            for each in ready(running, block=not left):
                outcome = each.receive()
                if outcome is not None:
                    yield outcome
                if not each.alive:
                    running.remove(each)
                    left.extend(each.parts)
                while each.alive and left and len(each.parts) < _AHEAD:
                    each.give(left.popleft())
            if left:
                yield scorer.score(left.popleft())


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _in_ray(job: Job, parts: list[str], workers: int, scorer: Scorer) -> Iterator[Outcome]:
    """Score by actors of Ray, which keep the model loaded and take a part at a time."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = require("ray", "ray")
    ours = not ray.is_initialized()
    if ours:
        _start_ray(ray, workers)
    try:
        free = int(ray.cluster_resources().get("CPU", 0))
        if free < workers:
            raise ParameterError(
                f"workers={workers} on a Ray cluster with {free} CPUs, where some would wait for a "
                f"CPU forever; pass {free} at most, or add machines"
            )
        actor = ray.remote(num_cpus=1, max_restarts=1)(Scorer)
        actors = [actor.remote(job) for _ in range(workers)]
        left = iter(parts)
        scored = {
            each.score.remote(part): (each, part) for each, part in zip(actors, left, strict=False)
        }
        while scored:
            [done], _ = ray.wait(list(scored))
            each, part = scored.pop(done)
            try:
                yield ray.get(done)
            except ray.exceptions.RayError:
                yield Outcome.lost(part)
            scored |= {each.score.remote(part): (each, part) for part in islice(left, 1)}
    finally:
        if ours:
            ray.shutdown()


def _start_ray(ray: Any, workers: int) -> None:
    """Join the cluster that ``RAY_ADDRESS`` names, or start one here."""
    here = {"num_cpus": workers, "include_dashboard": False}
    known = "RAY_ADDRESS" in os.environ
    ray.init(log_to_driver=False, logging_level="ERROR", **({} if known else here))


_ENGINES: dict[str, _Engine] = {"process": _in_processes, "ray": _in_ray}
