import torch

from tsmamba.forecast.events import linear as module
from tsmamba.forecast.events.history import LAST, N_FEATURES, histories
from tsmamba.forecast.events.linear import fit_linear, linear, persistence
from tsmamba.forecast.events.record import Targets


def test_persistence_repeats_the_last_value(one_stay):
    batch, latest = one_stay
    said = linear(histories(batch, latest), persistence(2, batch.values.shape[2]))
    torch.testing.assert_close(said, batch.values[:, :, None].expand(said.shape))


def test_few_values_leave_the_last_one(record):
    kernel = fit_linear(Targets.of(record, 2), torch.arange(5))
    torch.testing.assert_close(kernel, persistence(2, record.latest.shape[1]))


def test_the_error_is_less_than_that_of_the_last_value(record, monkeypatch):
    monkeypatch.setattr(module, "_LEAST_ROWS", 10)
    targets = Targets.of(record, 2)
    kernel = fit_linear(targets, torch.arange(len(record)))
    place, mask = record.tokens.places(torch.arange(len(record)))
    said = linear(histories(*record.batch(torch.arange(len(record)))), kernel)[mask]
    values, seen = targets.at(place[mask])
    carried = record.tokens.values[place[mask]][:, None]
    for code in range(values.shape[-1]):
        here = seen[..., code]
        error = (said - values)[..., code][here].abs().mean()
        assert error < (carried - values)[..., code][here].abs().mean()


def test_least_absolute_errors_ignore_what_is_wild():
    x = torch.randn(400, N_FEATURES, generator=torch.Generator().manual_seed(0))
    truth = torch.zeros(N_FEATURES)
    truth[LAST] = 0.5
    y = x @ truth
    y[::10] += 100
    solved = module._least_absolute(x, y)
    torch.testing.assert_close(solved, truth, atol=0.01, rtol=0)
