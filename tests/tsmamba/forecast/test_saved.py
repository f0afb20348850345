from datetime import date

import numpy as np
import polars as pl
import pytest

from tsmamba.data.panel import read_panel
from tsmamba.forecast.saved import load_fitted, save_fitted
from tsmamba_datasets import make_seasonal


@pytest.fixture(scope="module")
def model(base, hourly):
    return base(context_length=48).fit(hourly)._model


def month_ends():
    ds = pl.date_range(date(2020, 1, 1), date(2022, 1, 1), "1mo", eager=True)
    return pl.DataFrame({"ds": ds.dt.month_end(), "y": range(len(ds))})


def in_a_zone():
    ds = pl.col("ds").dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
    return make_seasonal(length=100).with_columns(ds)


@pytest.mark.parametrize(
    "frame",
    [
        make_seasonal(n_series=3, length=100),
        make_seasonal(length=100).drop("unique_id"),
        make_seasonal(n_series=2, length=100).cast({"unique_id": pl.Categorical}),
        make_seasonal(length=100).with_columns(z=pl.col("y") + 1),
        pl.DataFrame({"unique_id": [3] * 9, "ds": range(0, 18, 2), "y": [1.0, None, 3.0] * 3}),
        month_ends(),
        in_a_zone(),
    ],
    ids=["long", "single", "categories", "wide", "integers", "month-ends", "zone"],
)
def test_a_panel_comes_back_as_it_was(tmp_path, model, frame):
    wide = "z" in frame.columns
    panel = read_panel(frame, target_col=["y", "z"] if wide else "y")
    settings = {"parameters": {"horizon": 3}, "report": {"seconds": 0.25}}
    save_fitted(tmp_path / "m", settings, model, panel)
    loaded, again, back = load_fitted(tmp_path / "m")
    assert settings.items() <= loaded.items()
    assert again.context == model.context
    for name in ("values", "offsets", "loc", "scale"):
        got, expected = getattr(back, name), getattr(panel, name)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
    for name in ("ids", "first", "last"):
        got, expected = getattr(back, name), getattr(panel, name)
        assert got.dtype == expected.dtype
        assert got.to_list() == expected.to_list()
    assert (back.targets, back.freq, back.columns) == (panel.targets, panel.freq, panel.columns)
    assert back.first.name == panel.first.name
