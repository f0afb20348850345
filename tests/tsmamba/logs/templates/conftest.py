"""Streams of messages that make templates join, merge, alias and fall out."""

import random

import pytest

NAMES = ["ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hal", "ida", "joe", "kim", "lea"]
STATUSES = ["started", "stopped", "paused", "resumed", "failed"]
PARTS = ["disk", "fan", "cpu", "link", "port"]
LONG = "scheduler moved {} of queue {} to worker {} because its former owner did not answer for {}s"


def _line(rng):
    number = rng.randrange(10 ** rng.randrange(1, 6))
    name, other, status, part = map(rng.choice, (NAMES, NAMES, STATUSES, PARTS))
    return rng.choice(
        (
            f"session opened for user {name} by uid={number}",
            f"{name} left the room after {number} minutes",
            f"service {part} has {status}",
            f"{part}{number}: temperature {number / 10} C",
            f"job {number} of {name}: state={status}, owner={other}",
            f"delete {' '.join(f'blk_{rng.randrange(999)}' for _ in range(rng.randrange(1, 6)))}",
            LONG.format(name, part, other, number),
            "",
            f"{rng.choice(NAMES)} {rng.choice(PARTS)} {rng.choice(NAMES)} {number}",
        )
    )


@pytest.fixture
def make_stream():
    """Return a function that draws messages."""

    def make(length, seed=0):
        rng = random.Random(seed)
        return [_line(rng) for _ in range(length)]

    return make
