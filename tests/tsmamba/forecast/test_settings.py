import pytest
import torch
from sklearn.base import clone

from tsmamba import MambaForecaster, Network
from tsmamba.errors import ParameterError
from tsmamba.forecast.correction import Correction


def test_a_network_is_cloned_and_shown_as_scikit_learn_expects():
    network = Network(d_model=16, patch_length=12)
    copy = clone(network)
    assert copy is not network
    assert copy.get_params() == network.get_params()
    assert repr(network) == "Network(d_model=16, patch_length=12)"


def test_its_parameters_are_reached_through_the_forecaster():
    forecaster = MambaForecaster(network=Network(n_layers=3)).set_params(network__d_model=16)
    assert forecaster.network.get_params() == Network(n_layers=3, d_model=16).get_params()
    assert forecaster.get_params()["network__d_model"] == 16
    copy = clone(forecaster)
    assert copy.network is not forecaster.network
    assert repr(copy) == repr(forecaster)


def test_a_network_that_was_left_open_is_made_when_it_is_needed():
    forecaster = MambaForecaster().set_params(network__d_state=4, training__lr=0.1)
    assert (forecaster.network.d_state, forecaster.training.lr) == (4, 0.1)
    assert MambaForecaster().set_params(horizon=3).network is None


def test_an_unknown_parameter_of_it_is_refused():
    with pytest.raises(ValueError, match="Invalid parameter 'width'"):
        MambaForecaster(network=Network()).set_params(network__width=3)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"patch_length": 0}, "patch_length=0; pass a whole number of at least 1"),
        ({"d_model": 1.5}, "d_model=1.5; pass a whole number of at least 1"),
        ({"d_model": None}, "d_model=None; pass a whole number of at least 1"),
        ({"n_layers": True}, "n_layers=True; pass a whole number of at least 1"),
        ({"d_state": "x"}, "d_state='x'; pass a whole number of at least 1"),
        *[
            ({"dropout": x}, f"dropout={x!r}; pass a number from 0 to below 1")
            for x in (1, -0.1, float("nan"), "a", None)
        ],
    ],
    ids=str,
)
def test_a_shape_without_sense_is_refused(parameters, message):
    with pytest.raises(ParameterError) as error:
        Network(**parameters).check()
    assert str(error.value) == message


def test_a_forecaster_keeps_its_network_in_a_file(small, train, tmp_path):
    small().fit(train).save(tmp_path / "m")
    network = MambaForecaster.load(tmp_path / "m").network
    assert network.get_params() == small().network.get_params()


@pytest.mark.parametrize("name", ["d_model", "n_layers", "d_state"])
def test_the_size_of_the_corrector_is_that_of_the_network(small, train, name, monkeypatch):
    def gate(correction, folds, windows):
        """Say that training made it better."""
        return torch.ones(correction.horizon), 1.0, 0.5 if len(folds) > 1 else 0.9

    monkeypatch.setattr(Correction, "gate", gate)
    sizes = [
        small().set_params(**{f"network__{name}": size}).fit(train).report_["n_parameters"]
        for size in (2, 4)
    ]
    assert sizes[0] < sizes[1]
