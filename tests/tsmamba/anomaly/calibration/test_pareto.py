import numpy as np
import pytest
from scipy import stats

from tsmamba.anomaly.calibration.pareto import Pareto

SHAPES = [-0.9, -0.2, 0.0, 1e-9, 0.3, 0.8]


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_law_of_scipy_as_far_as_that_reaches(shape):
    law, known = Pareto(shape, 2.0), stats.genpareto(shape, scale=2.0)
    x = known.isf(np.linspace(1, 1e-3, 50))
    np.testing.assert_allclose(law.survival(x), known.sf(x), rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_quantile_is_the_inverse_of_the_survival(shape):
    law = Pareto(shape, 2.0)
    levels = np.array([1.0, 0.5, 1e-2, 1e-3, 1e-4, 1e-9])
    x = [law.quantile(level) for level in levels]
    assert x[0] == 0
    np.testing.assert_allclose(law.survival(x), levels, rtol=1e-6)
    assert (np.diff(x) > 0).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_it_falls_and_never_ends(shape):
    law = Pareto(shape, 2.0)
    p = law.survival(np.linspace(0, 60 if shape >= 0 else 3, 500))
    assert (np.diff(p) < 0).all()
    assert (p > 0).all()


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.3])
def test_the_law_is_found_again(shape):
    excesses = stats.genpareto(shape, scale=3.0).rvs(20_000, random_state=0)
    law = Pareto.fit(excesses, 1.0)
    assert law.shape == pytest.approx(shape, abs=0.03)
    assert law.scale == pytest.approx(3.0, rel=0.03)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 20])
def test_few_excesses_have_a_law_of_their_mean(n):
    for seed in range(50):
        excesses = np.random.default_rng(seed).pareto(1.0, size=n) + 1e-12
        law = Pareto.fit(excesses, 1.0)
        assert -1 <= law.shape <= 0.9
        assert law.scale / (1 - law.shape) == pytest.approx(excesses.mean())


@pytest.mark.parametrize("excesses", [[], [1e-30] * 3])
def test_no_spread_is_a_scale_that_is_small_beside_the_threshold(excesses):
    law = Pareto.fit(np.array(excesses, dtype=float), 5.0)
    assert 0 < law.scale < 1e-6
