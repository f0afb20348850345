"""The bundled corrector: only laws, since its weights are remade from time to time."""

from dataclasses import replace

import pytest
import torch
from polars.testing import assert_frame_equal

from tsmamba import Network, Training
from tsmamba.errors import ModelFileError
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.forecast.pretrained import load_corrector, pretrained_corrector, save_corrector

POINT = "MambaForecaster"


def test_it_is_read_once_and_cannot_be_trained():
    corrector = pretrained_corrector()
    assert corrector is pretrained_corrector()
    assert not corrector.training
    assert not any(parameter.requires_grad for parameter in corrector.parameters())


def test_it_fits_series_of_any_kind():
    """A default network has its shape, and it asks for no context features."""
    config, network = pretrained_corrector().config, Network()
    assert config.n_context == 0
    assert config.shape == (config.patch, network.d_model, network.n_layers, network.d_state)


def test_a_saved_corrector_comes_back(tmp_path):
    corrector = Corrector(CorrectorConfig(history=24, horizon=9, patch=6, d_model=8, n_context=2))
    torch.nn.init.normal_(corrector.head.weight)
    save_corrector(tmp_path / "c", corrector)
    loaded = load_corrector(tmp_path / "c")
    assert loaded.config == corrector.config
    state = corrector.state_dict()
    assert state.keys() == loaded.state_dict().keys()
    assert all(torch.equal(state[name], x) for name, x in loaded.state_dict().items())


def test_a_file_of_another_kind_is_refused(linear, tmp_path):
    linear.save(tmp_path / "m")
    with pytest.raises(ModelFileError):
        load_corrector(tmp_path / "m")


def forecasts(make, train, **kwargs):
    """Forecasts of a corrector that sees as much as the bundled one, before any training."""
    forecaster = make(context_length=pretrained_corrector().config.history, **kwargs).fit(train)
    assert forecaster.report_["steps"] == 0
    return forecaster.predict(), forecaster.predict(base_only=True)


def test_training_begins_at_the_bundled_corrector(any_corrector, fast, small, train):
    # A corrector that is trained may treat up and down differently, so only there they agree.
    any_corrector.config = replace(any_corrector.config, odd=False)
    given, base = forecasts(fast, train)
    assert (given[POINT] - base[POINT]).abs().max() > 0.1
    alike = Network(patch_length=pretrained_corrector().config.patch)
    begun, _ = forecasts(small, train, network=alike, training=Training(max_steps=0))
    assert_frame_equal(given.select(POINT), begun.select(POINT), abs_tol=1e-3)


@pytest.mark.parametrize("network", [Network(d_model=16), Network(patch_length=7)], ids=str)
def test_a_network_of_another_shape_begins_at_nothing(any_corrector, small, train, network):
    begun, base = forecasts(small, train, network=network, training=Training(max_steps=0))
    assert_frame_equal(begun.select(POINT), base.select(POINT), abs_tol=1e-4)
