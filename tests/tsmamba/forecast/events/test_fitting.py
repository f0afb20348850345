import numpy as np
import pytest
import torch

from tsmamba import Training
from tsmamba.forecast.events.fitting import fit_ensemble
from tsmamba.forecast.events.network import EventConfig
from tsmamba.forecast.events.record import Targets


def ensemble_of(record, on_step=lambda step, loss: None):
    torch.manual_seed(0)
    config = EventConfig(record.latest.shape[1], record.tokens.statics.shape[1], 2, d_model=8)
    knobs = Training(max_steps=3, eval_every=3, batch_size=16)
    return fit_ensemble(Targets.of(record, 2), config, knobs, 2, on_step)


@pytest.fixture(scope="module")
def ensemble(record):
    return ensemble_of(record)


def test_it_is_never_worse_than_carried_forward(ensemble):
    _, held_out = ensemble
    assert (held_out.error <= held_out.carried + 1e-9).all()
    assert (held_out.count > 0).all()


def test_forecasts_start_at_the_last_token(ensemble, record):
    said = ensemble[0].said(record)
    last = record.tokens.offsets[1:] - 1
    for number, table in enumerate((record.latest, record.tokens.values)):
        np.testing.assert_allclose(said.values[number][:, 1], table[last], atol=1e-6)
    since = record.tokens.since[last].numpy()
    np.testing.assert_array_equal(said.age == 0, since == 0)
    np.testing.assert_array_equal(said.age == 2, since == 255)


def test_steps_of_all_members_are_told(record):
    told = []
    ensemble_of(record, on_step=lambda step, loss: told.append(step))
    assert told == list(range(1, 7))


def test_seeds_repeat(ensemble, record):
    again = ensemble_of(record)[0]
    np.testing.assert_array_equal(again.said(record).values, ensemble[0].said(record).values)
