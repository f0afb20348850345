"""How much of a correction is believed."""

import pytest
import torch

from tsmamba.forecast.gate import SHARES, Errors, choose_shares

HORIZON = 40
SHARE = torch.tensor(SHARES)


def errors_of(*changes, size=100.0):
    """Errors that change by so much in each block with the whole correction."""
    change = torch.tensor(changes)[None, :, None] * SHARE[:, None, None]
    absolute = size * (1 + change).expand(-1, -1, HORIZON)
    return Errors(absolute, absolute.clone(), torch.ones(len(changes), HORIZON))


def test_what_all_blocks_say_is_believed():
    assert (choose_shares(errors_of(-0.05, -0.05, -0.05, -0.05)) == 1).all()
    assert (choose_shares(errors_of(0.01, 0.01, 0.01, 0.01)) == 0).all()


def test_where_blocks_contradict_each_other_it_is_believed_as_elsewhere():
    shares = choose_shares(errors_of(-0.3, 0.3, -0.25, 0.24))
    assert (shares > 0).all()


def test_where_they_agree_on_nothing_it_is_not():
    assert (choose_shares(errors_of(0.0, 0.0, 0.0, 0.0)) == 0).all()


def test_what_made_these_forecasts_worse_is_not_taken():
    assert (choose_shares(errors_of(-0.3, 0.3, -0.25, 0.26)) == 0).all()


@pytest.mark.parametrize("rise", [0.001, 0.02])
def test_the_squared_error_may_rise_by_half_a_percent(rise):
    absolute, squared, counts = errors_of(-0.3, 0.3, -0.25, 0.24)
    by_block = torch.tensor([0.3, -0.3, 0.3, 4 * rise - 0.3])[None, :, None]
    squared = torch.full_like(squared, 100.0) * (1 + by_block * SHARE[:, None, None].sign())
    assert bool(choose_shares(Errors(absolute, squared, counts)).any()) == (rise < 0.005)


def test_a_single_block_is_half_believed():
    absolute, squared, counts = errors_of(-0.05, 0.0, 0.0, 0.0)
    alone = [torch.cat([x[:, :1], torch.zeros_like(x[:, 1:])], dim=1) for x in (absolute, squared)]
    assert (choose_shares(Errors(*alone, counts)) > 0).all()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_units_do_not_matter(size):
    given = -0.02, 0.01, -0.015, 0.004
    torch.testing.assert_close(
        choose_shares(errors_of(*given, size=size)), choose_shares(errors_of(*given))
    )


def test_the_order_of_blocks_does_not_matter():
    torch.testing.assert_close(
        choose_shares(errors_of(-0.02, 0.01, -0.015, 0.004)),
        choose_shares(errors_of(0.004, -0.015, -0.02, 0.01)),
    )


def test_each_step_has_a_share_of_its_own():
    good, bad = errors_of(-0.05, -0.05, -0.05, -0.05), errors_of(0.05, 0.05, 0.05, 0.05)
    half = torch.arange(HORIZON) < HORIZON // 2
    mixed = Errors(*(torch.where(half, a, b) for a, b in zip(good, bad, strict=True)))
    shares = choose_shares(mixed)
    assert shares[0] == 1
    assert shares[-1] == 0
