"""Which faults of single sessions are told: one fault put into each of many usual sessions.

    python -m benchmarks.logs.faults

takes the training sessions of ``hdfs_sessions``, which were chosen to be normal. A detector learns
from four fifths of them; of the others some are left as they are, and some get one fault. Sessions
that a fault turns into a training session are no faults.
"""

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from benchmarks.forecast.run import environment
from benchmarks.logs.rules import Rules, Sessions
from benchmarks.logs.sessions import HDFS_ABNORMAL, SESSION, frame, scored
from tsmamba import LogDetector
from tsmamba_datasets import fetch_hdfs_sessions

FOLDS = 5
EACH = 200
DETECTORS: dict[str, dict[str, Any]] = {
    "LogDetector": {},
    "LogDetector(network='mamba')": {"network": "mamba"},
    "LogDetector(trim=0)": {"trim": 0.0},
    "LogDetector(trim=0, network='mamba')": {"trim": 0.0, "network": "mamba"},
}


class Faults:
    """What may go wrong in a session, drawn at random.

    Parameters
    ----------
    templates : list of int
        Templates that the log has.
    seed : int
        Seed.

    Examples
    --------
    >>> faults = Faults([1, 2, 3], seed=0)
    >>> len(faults.of("lost", [1, 2, 3])), sorted(faults.of("moved", [1, 2, 3]))
    (2, [1, 2, 3])
    """

    def __init__(self, templates: list[int], seed: int) -> None:
        self._templates = templates
        self._draw = random.Random(seed)
        self.kinds: dict[str, Callable[[list[int], int], list[int]]] = {
            "lost": lambda rows, at: rows[:at] + rows[at + 1 :],
            "doubled": lambda rows, at: [*rows[: at + 1], *rows[at:]],
            "swapped": self._swapped,
            "moved": self._moved,
            "turned": lambda rows, at: rows[at:] + rows[:at],
            "cut off": lambda rows, at: rows[: max(1, at)],
            "foreign": lambda rows, at: [*rows[:at], self._foreign(), *rows[at:]],
            "burst": self._burst,
        }

    def of(self, kind: str, session: list[int]) -> list[int]:
        """Return a session with a fault of this kind."""
        return self.kinds[kind](list(session), self._draw.randrange(len(session)))

    def many(self, kind: str, usual: Sessions, known: set[tuple[int, ...]]) -> Sessions:
        """Return sessions with a fault, none of which is known."""
        found: Sessions = []
        while len(found) < EACH:
            session = self.of(kind, self._draw.choice(usual))
            if tuple(session) not in known:
                found.append(session)
        return found

    def _foreign(self) -> int:
        return self._draw.choice(self._templates)

    def _swapped(self, rows: list[int], at: int) -> list[int]:
        at = min(at, len(rows) - 2)
        return [*rows[:at], rows[at + 1], rows[at], *rows[at + 2 :]]

    def _moved(self, rows: list[int], at: int) -> list[int]:
        row = rows.pop(at)
        rows.insert(self._draw.randrange(len(rows) + 1), row)
        return rows

    def _burst(self, rows: list[int], at: int) -> list[int]:
        return [*rows[:at], *[self._foreign()] * self._draw.randrange(2, 6), *rows[at:]]


def table() -> Iterator[str]:
    """Average precision by kind of fault, in the mean of the folds."""
    sessions = fetch_hdfs_sessions("train")["events"].to_list()
    known = {tuple(session) for session in sessions}
    templates = sorted({template for session in sessions for template in session})
    order = np.random.default_rng(0).permutation(len(sessions))
    found: dict[tuple[str, str], list[float]] = {}
    for fold in range(FOLDS):
        held = [sessions[i] for i in sorted(order[fold::FOLDS])]
        train = [sessions[i] for i in sorted(np.delete(order, np.s_[fold::FOLDS]))]
        faults = Faults(templates, seed=fold)
        strange = {kind: faults.many(kind, held, known) for kind in faults.kinds}
        every = held + [session for some in strange.values() for session in some]
        rows = {"rules: all three": Rules(train).scores(every)["all three"]}
        for name, options in DETECTORS.items():
            seeded = {"random_state": fold, **options} if "network" in options else options
            detector = LogDetector(session=SESSION, session_timeout=None, **seeded)
            rows[name] = scored(detector.fit(frame(train)), every)["score"].to_numpy()
        for name, score in rows.items():
            normal, parts = score[: len(held)], np.split(score[len(held) :], len(strange))
            for kind, part in zip(strange, parts, strict=True):
                found.setdefault((name, kind), []).append(_precision(normal, part))
            found.setdefault((name, "all"), []).append(_precision(normal, score[len(held) :]))
    kinds = [*strange, "all"]
    yield f"\nHDFS, faults put into held-out training sessions, AP in the mean of {FOLDS} folds\n"
    yield f"| score | {' | '.join(kinds)} | spread of all |"
    yield f"| --- |{' --- |' * (len(kinds) + 1)}"
    for name in rows:
        means = " | ".join(f"{np.mean(found[name, kind]):.3f}" for kind in kinds)
        yield f"| {name} | {means} | {np.std(found[name, 'all']):.3f} |"


def _precision(normal: NDArray[np.float64], strange: NDArray[np.float64]) -> float:
    """Average precision where faults are as rare as in the whole log."""
    labels = np.repeat([False, True], [len(normal), len(strange)])
    ratio = len(strange) * (1 - HDFS_ABNORMAL) / HDFS_ABNORMAL / len(normal)
    weight = np.where(labels, 1.0, ratio)
    score = np.concatenate([normal, strange])
    return float(average_precision_score(labels, score, sample_weight=weight))


def main() -> None:
    """Measure, and write what came out."""
    sys.stdout.write(f"{environment()}\n")
    for line in table():
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
