import numpy as np
import pytest

from tsmamba.errors import ParameterError
from tsmamba.outcomes.scores import METRICS, calibration_error, check_metric, figures

TRUTH = np.array([0, 0, 1, 1])
P = np.array([0.1, 0.6, 0.4, 0.9])
BOTH = np.stack([1 - P, P], 1)


def test_the_calibration_error_is_that_by_hand():
    # Halves by rank: 0.1 and 0.4 with one of two, 0.6 and 0.9 with one of two.
    assert calibration_error(TRUTH, P, bins=2) == pytest.approx((0.25 + 0.25) / 2)
    assert calibration_error(TRUTH, P, bins=4) == pytest.approx((0.1 + 0.6 + 0.6 + 0.1) / 4)
    assert calibration_error(TRUTH, P, bins=1) == 0
    assert calibration_error(TRUTH, P, bins=100) == calibration_error(TRUTH, P, bins=4)


def test_bins_of_unequal_count_weigh_by_their_count():
    truth, p = np.array([1, 1, 0]), np.array([0.2, 0.4, 0.9])
    assert calibration_error(truth, p, bins=2) == pytest.approx((2 * 0.7 + 0.9) / 3)


def test_probabilities_that_are_right_have_hardly_any_error(rng):
    p = rng.uniform(size=50_000)
    truth = (rng.uniform(size=p.size) < p).astype(int)
    assert calibration_error(truth, p) < 0.01
    assert calibration_error(truth, p / 2) > 0.2


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("accuracy", 0.5),
        ("auroc", 0.75),  # three of four pairs are in order
        ("auprc", (1 + 2 / 3) / 2),
        ("brier", -(0.1**2 + 0.6**2 + 0.6**2 + 0.1**2) / 4),
    ],
)
def test_figures_are_those_by_hand(metric, expected):
    assert METRICS[metric](TRUTH, BOTH, None) == pytest.approx(expected)


@pytest.mark.parametrize("metric", METRICS)
def test_more_is_better_of_every_figure_and_any_number_of_classes(metric, rng):
    truth = np.arange(90) % 3
    sure = 0.05 + 0.85 * np.eye(3)[truth]
    noise = rng.dirichlet(np.ones(3), 90)
    found = [METRICS[metric](truth, (1 - w) * noise + w * sure, None) for w in (0, 0.3, 1)]
    assert found == sorted(found)
    assert found[0] < found[1]


def test_the_error_of_calibration_is_for_two_classes():
    assert figures(TRUTH, BOTH).keys() == {*METRICS, "calibration_error"}
    assert figures(np.array([0, 1, 2]), np.eye(3)).keys() == METRICS.keys()


def test_an_unknown_metric_is_refused():
    with pytest.raises(
        ParameterError, match="metric='f1'; pass one of 'accuracy', 'auroc', 'auprc'"
    ):
        check_metric("f1", METRICS)
