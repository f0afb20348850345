import numpy as np
import pytest

from tsmamba.anomaly.calibration.tail import Tail


@pytest.mark.parametrize("n", [1, 2, 30, 500, 50_000])
def test_its_size_is_bounded(n):
    tail = Tail.fit(np.random.default_rng(0).exponential(size=n))
    assert tail.knots.size == tail.survivals.size <= 256
    assert (np.diff(tail.knots) > 0).all()
    assert (np.diff(tail.survivals) < 0).all()


def test_p_values_in_the_bulk_are_shares_of_the_scores():
    scores = np.random.default_rng(0).gamma(2.0, size=20_000)
    p_values = Tail.fit(scores).p_values(scores)
    ranks = (scores[:, None] <= np.sort(scores)[None, ::100]).mean(1)
    bulk = p_values > 0.03
    np.testing.assert_allclose(p_values[bulk], ranks[bulk], atol=0.01)


def test_the_tail_goes_on_as_the_law_of_the_scores():
    tail = Tail.fit(np.random.default_rng(0).exponential(size=100_000))
    for x in (6.0, 9.0, 12.0):
        assert np.log(tail.p_values([x])[0]) == pytest.approx(-x, abs=0.1 * x)


@pytest.mark.parametrize("p", [1e-12, 1e-5, 0.001, 0.019, 0.021, 0.3, 0.9])
def test_a_quantile_is_the_inverse(p):
    tail = Tail.fit(np.random.default_rng(0).exponential(size=5_000))
    assert tail.p_values([tail.quantile(p)])[0] == pytest.approx(p, rel=1e-6)


def test_equal_scores_are_as_likely_as_all_of_them_together():
    tail = Tail.fit(np.repeat([0.0, 1.0, 2.0], [800, 150, 50]))
    np.testing.assert_allclose(tail.p_values([0.0, 1.0, 2.0]), [1.0, 0.2, 0.05])
    assert tail.p_values([2.1])[0] < 0.01


def test_rare_scores_above_many_zeros_are_rare():
    rng = np.random.default_rng(0)
    tail = Tail.fit(np.where(rng.uniform(size=20_000) < 0.01, rng.exponential(size=20_000), 0))
    assert tail.p_values([0.0])[0] == 1
    assert tail.p_values([0.01])[0] == pytest.approx(0.01, rel=0.2)
    assert tail.p_values([np.log(10)])[0] == pytest.approx(0.001, rel=0.5)


def test_no_score_has_no_p_value():
    assert np.isnan(Tail.fit(np.arange(9.0)).p_values([np.nan])).all()
