from datetime import date

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tsmamba.data.encoding import Encoding
from tsmamba.data.frame import frame_kind
from tsmamba.data.panel import Scaling, read_panel
from tsmamba.forecast.backtest import naive_scales
from tsmamba.forecast.saved import Fitted, load_fitted, save_fitted
from tsmamba_datasets import make_seasonal


@pytest.fixture(scope="module")
def model(base, hourly):
    return base(context_length=48).fit(hourly)._fitted.model


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
def test_what_is_kept_comes_back_as_it_was(tmp_path, model, frame):
    panel = read_panel(frame, target_col=["y", "z"] if "z" in frame.columns else "y")
    extra = pl.DataFrame({"price": [1.0, 4.0], "sky": ["blue", None], "open": [True, False]})
    kept = Fitted(
        model=model,
        scaling=Scaling.of(panel),
        naive_scale=naive_scales(panel, 2),
        history=frame.tail(5),
        encoding=Encoding.learn(extra),
        kind=frame_kind(frame),
    )
    settings = {"parameters": {"horizon": 3}, "report": {"seconds": 0.25}}
    save_fitted(tmp_path / "m", settings, kept)
    loaded, back = load_fitted(tmp_path / "m")
    assert settings.items() <= loaded.items()
    assert back.model.context == model.context
    assert_frame_equal(back.history, kept.history)
    assert_frame_equal(back.naive_scale, kept.naive_scale)
    assert back.encoding == kept.encoding
    assert back.kind == kept.kind
    assert back.scaling.ids.dtype == panel.ids.dtype
    assert back.scaling.ids.to_list() == panel.ids.to_list()
    assert back.scaling.targets == panel.targets
    assert back.scaling.loc.tolist() == panel.loc.tolist()
    assert back.scaling.scale.tolist() == panel.scale.tolist()


def test_nothing_is_encoded_where_there_are_no_covariates(tmp_path, base, hourly):
    fitted = base(context_length=48).fit(hourly)._fitted
    save_fitted(tmp_path / "m", {}, fitted)
    assert load_fitted(tmp_path / "m")[1].encoding is None
