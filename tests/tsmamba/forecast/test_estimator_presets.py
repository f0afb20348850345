"""What a preset settles in a fit, and what the user's own words settle instead."""

import warnings

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tsmamba import MambaForecaster, Network, Training
from tsmamba.errors import GuidanceWarning, ParameterError
from tsmamba.forecast.base import N_BLOCKS
from tsmamba.forecast.presets import PRESETS

BRIEF = Training(max_steps=1, batch_size=8)


@pytest.mark.parametrize("preset", ["finance", "short"])
def test_a_preset_without_a_network_is_the_base(preset, train):
    forecaster = MambaForecaster(24, preset=preset).fit(train)
    assert forecaster.report_["corrector"] == "not used: mode='base'"


@pytest.mark.parametrize("preset", ["finance", "short"])
def test_a_mode_that_was_asked_for_wins(preset, train):
    forecaster = MambaForecaster(24, preset=preset, mode="full", training=BRIEF).fit(train)
    assert forecaster.report_["steps"] == N_BLOCKS


def test_the_base_wins_over_the_network_of_a_preset(train):
    base, energy = (
        MambaForecaster(24, mode="base", context_length=96, preset=preset).fit(train).predict()
        for preset in ("auto", "energy")
    )
    assert_frame_equal(base, energy, check_exact=True)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_context_is_at_most_that_of_the_preset(preset, train):
    free = MambaForecaster(24, mode="base").fit(train).context_length_
    most = PRESETS[preset].context_length or free
    forecaster = MambaForecaster(24, mode="base", preset=preset)
    assert forecaster.fit(train).context_length_ == min(free, most)
    assert forecaster.set_params(context_length=500).fit(train).context_length_ == 500


def test_a_patient_has_no_calendar_unless_asked_for(train):
    for calendar, seen in ((None, False), (True, True)):
        forecaster = MambaForecaster(
            24, mode="full", preset="ehr", calendar=calendar, training=BRIEF,
            network=Network(d_model=4, n_layers=1), random_state=0,
        )  # fmt: skip
        assert bool(forecaster.fit(train)._fitted.model.cycles) == seen


def test_an_unknown_preset_is_refused_before_the_frame_is_read():
    for call in (
        MambaForecaster(preset="shop").fit,
        MambaForecaster(preset="shop").cross_validation,
    ):
        with pytest.raises(ParameterError, match="preset='shop'; pass one of"):
            call(object())


def test_a_preset_that_was_saved_is_there_again(train, tmp_path):
    MambaForecaster(24, preset="finance").fit(train).save(tmp_path / "m")
    assert MambaForecaster.load(tmp_path / "m").preset == "finance"


# Guidance


def test_by_itself_a_fit_says_where_a_simpler_model_will_do(hourly):
    with pytest.warns(GuidanceWarning, match="512") as caught:
        MambaForecaster(24).fit(hourly)
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("chosen", [{"mode": "base"}, {"preset": "short"}, {"preset": "energy"}])
def test_a_choice_of_the_user_is_not_argued_with(hourly, chosen):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MambaForecaster(24, **chosen).fit(hourly)


def test_long_seasonal_series_need_no_guidance(train):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MambaForecaster(24).fit(train.filter(pl.col("unique_id") == train["unique_id"][0]))
