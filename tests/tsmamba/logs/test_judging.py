from statistics import fmean

import pytest

from tsmamba.logs.judging import is_as_usual

EXPECTED = [[0.5, 0.1, 0.9], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("told", "usual"),
    [
        (EXPECTED, True),
        ([[1.4, 1.4, 1.4], [1.4, 1.4]], True),
        ([[1.6, 1.6, 1.6], [1.6, 1.6]], False),
        ([[0.1, 0.1, 3.6], [0.1, 0.1]], True),
        ([[0.1, 0.1, 3.6], [0.1, 0.9]], False),
        ([[float("nan"), 0.1, 0.1], [0.1, 0.1]], False),
    ],
)
def test_both_the_mean_and_the_dearest_step_have_to_be_near(told, usual):
    """Here twice the mean of the means and half a nat are 1.5, and of the dearest steps 1.9."""
    assert is_as_usual(told, EXPECTED, (fmean, max)) is usual
