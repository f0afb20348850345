from dataclasses import replace

import pytest
import torch

from tsmamba.forecast.events.history import LAST, LATEST, N_FEATURES, histories
from tsmamba.records.tokens import NEVER, Batch


def batch_of(values, since, elapsed):
    shape = 1, len(values), 1
    return Batch(
        torch.tensor(values).reshape(shape),
        torch.tensor(since, dtype=torch.uint8).reshape(shape),
        torch.tensor([elapsed]).float(),
        torch.ones(1, len(values), dtype=torch.bool),
        torch.zeros(1, 0),
    )


BATCH = batch_of([0.0, 2.0, 2.0, 6.0], [NEVER, 0, 1, 0], [1, 1, 1, 2])


def test_features_say_what_their_names_say():
    last, carried, before, aged, there, *means = histories(BATCH, BATCH.values + 1)[0, :, 0].T
    assert last.tolist() == [1, 3, 3, 7]
    assert carried.tolist() == [0, 2, 2, 6]
    assert before.tolist() == [0, 2, 2, 2]
    assert there.tolist() == [0, 1, 1, 1]
    torch.testing.assert_close(aged[2], 2 * torch.log(torch.tensor(2.0)))
    assert aged[3] == 0
    assert means[-1].tolist() == [0, 2, 2, 4]
    # Three bins apart, the older value has lost three quarters of its weight.
    weight = 0.5 ** (3 / 1.5)
    torch.testing.assert_close(means[0][3].item(), (2 * weight + 6) / (weight + 1))
    assert len(means) == N_FEATURES - 5
    assert (LATEST, LAST) == (0, 1)


def test_nothing_is_told_before_the_first_value():
    features = histories(batch_of([0.0, 0.0], [NEVER, NEVER], [1, 1]), torch.zeros(1, 2, 1))
    assert not features.any()


@pytest.mark.parametrize("end", [1, 3])
def test_the_past_is_not_changed_by_what_comes(one_stay, end):
    batch, latest = one_stay
    whole = histories(batch, latest)
    begun = replace(
        batch,
        values=batch.values[:, :end],
        since=batch.since[:, :end],
        elapsed=batch.elapsed[:, :end],
        mask=batch.mask[:, :end],
    )
    torch.testing.assert_close(histories(begun, latest[:, :end]), whole[:, :end])
