# Laws


@pytest.mark.parametrize("mode", FULL)
@pytest.mark.parametrize(("a", "b"), [(1000.0, 0.0), (0.001, 5.0), (-1.0, 0.0), (1.0, 1e5)])
def test_forecasts_scale_with_the_values(base, small, hourly, mode, a, b):
    make = base if mode == "base" else small
    one = make(12).fit(hourly).predict(quantiles=[0.5])
    other = make(12).fit(hourly.with_columns(y=a * pl.col("y") + b)).predict(quantiles=[0.5])
    expected = a * values(one) + b
    spread = abs(a) * hourly["y"].std()
    np.testing.assert_allclose(values(other), expected, atol=2e-3 * spread, rtol=0)


def test_the_order_of_series_is_irrelevant(base, train):
    turned = train.sort("unique_id", "ds", descending=[True, False])
    assert turned["unique_id"][0] != train["unique_id"][0]
    keys = ["unique_id", "ds"]
    one, other = (base().fit(x).predict().sort(keys) for x in (train, turned))
    assert_frame_equal(one.drop(BANDS), other.drop(BANDS), abs_tol=1e-2)
    # Other windows are picked to calibrate on, so the bounds are equal up to chance.
    assert_frame_equal(one, other, abs_tol=0.3)


def test_interleaved_series_are_the_same_series(base, train):
    one, other = base().fit(train).predict(), base().fit(train.sort("ds", "unique_id")).predict()
    assert_frame_equal(one.sort("unique_id", "ds"), other.sort("unique_id", "ds"), abs_tol=1e-2)


