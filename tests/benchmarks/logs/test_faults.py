"""Faults that are put into sessions."""

from collections import Counter

import pytest

from benchmarks.logs.faults import EACH, Faults

USUAL = [[1, 2, 3, 4], [1, 2, 2, 3]]
LENGTHS = {
    "lost": {-1},
    "doubled": {1},
    "swapped": {0},
    "moved": {0},
    "turned": {0},
    "cut off": {-1, -2, -3},
    "foreign": {1},
    "burst": {2, 3, 4, 5},
}


@pytest.mark.parametrize("kind", LENGTHS)
def test_a_fault_is_one_of_its_kind(kind: str) -> None:
    faults = Faults([1, 2, 3, 4], seed=0)
    found = [(session, faults.of(kind, session)) for session in USUAL * 50]
    assert {len(odd) - len(session) for session, odd in found} == LENGTHS[kind]
    if LENGTHS[kind] == {0}:
        assert all(Counter(odd) == Counter(session) for session, odd in found)
    assert USUAL == [[1, 2, 3, 4], [1, 2, 2, 3]]


def test_what_is_known_is_no_fault() -> None:
    known = {tuple(session) for session in USUAL}
    faults = Faults([1, 2, 3, 4], seed=0)
    assert list(faults.kinds) == list(LENGTHS)
    for kind in LENGTHS:
        many = faults.many(kind, USUAL, known)
        assert len(many) == EACH
        assert not known & set(map(tuple, many))
