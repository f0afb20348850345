import pytest

from benchmarks.anomaly.learned.judged import Judged


@pytest.fixture
def judged(make_problem):
    return Judged.of(make_problem())
