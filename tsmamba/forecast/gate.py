"""How much of a correction to apply: what blocks of time say, weighed with what other data say.

A few blocks of time tell little about a correction far ahead: a horizon of a month fits into a year
of data a dozen times. What the bundled corrector gained on data kept back from its training says
something, too. Both are joined as a normal mean is estimated: each counts by the inverse of its
variance. So on short data the corrector is believed as far as it earned elsewhere, and on long data
the data decide. Whatever is believed, a share that made forecasts of these windows worse is not
taken.
"""

from typing import NamedTuple

import torch
from torch import Tensor

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Relative change of the error by each share but none: mean and deviation over the members of the
# pool, on the part that is kept back. `python -m tools.pretrain` prints them.
_ABSOLUTE = ((-0.0071, -0.0126, -0.0163, -0.0180), (0.0066, 0.0124, 0.0174, 0.0212))
_SQUARED = ((-0.0029, -0.0036, -0.0023, 0.0012), (0.0043, 0.0088, 0.0135, 0.0189))
_LEAST_DEVIATION = 0.002  # of the mean over blocks
_LEAST_GAIN = 0.001  # that has to be believed in, over all steps
_MOST_RISE = 0.005  # of the measured squared error, which a few windows make


class Errors(NamedTuple):
    """Errors of forecasts, summed over the windows of each block of time."""

    absolute: Tensor  # (shares, blocks, H), in units of the standardised series
    squared: Tensor  # (shares, blocks, H)
    counts: Tensor  # (blocks, H), weights of the targets, one for each observed one by default


def choose_shares(errors: Errors) -> Tensor:
    """Choose how much of a correction to apply at each step.

    Parameters
    ----------
    errors : Errors
        Of the shares in `SHARES`, on windows that the corrector never saw.

    Returns
    -------
    Tensor of shape (H,)
        The shares of which the least absolute error is believed, among those that are believed not
        to raise the squared one, and did not raise the absolute one nor the squared one by half a
        percent; all zero where less than a thousandth is gained.

    Examples
    --------
    >>> helps = torch.tensor([1.0, 0.98, 0.96, 0.97, 1.0])[:, None, None].expand(5, 4, 2)
    >>> choose_shares(Errors(helps, helps, torch.ones(4, 2)))
    tensor([0.5000, 0.5000])
    >>> choose_shares(Errors(2 - helps, 2 - helps, torch.ones(4, 2)))
    tensor([0., 0.])
    """
    absolute = _believed(errors.absolute, _ABSOLUTE)
    squared = _believed(errors.squared, _SQUARED)
    measured = [_smoothed(sums.sum(1)) for sums in (errors.absolute, errors.squared)]
    allowed = (
        (squared <= 0)
        & (measured[0] <= measured[0][0])
        & (measured[1] <= (1 + _MOST_RISE) * measured[1][0])
    )
    index = torch.where(allowed, absolute, torch.inf).argmin(0)
    gained = -absolute.gather(0, index[None]).mean()
    shares = torch.tensor(SHARES)[index]
    return shares if gained > _LEAST_GAIN else torch.zeros_like(shares)


def _believed(sums: Tensor, prior: tuple[tuple[float, ...], tuple[float, ...]]) -> Tensor:
    """Return the relative change of the error that is believed of each share, (shares, H)."""
    smooth = _smoothed(sums.double())
    smooth = smooth[:, smooth[0].sum(-1) > 0]
    change = smooth[1:] / smooth[0].clamp(min=torch.finfo().tiny) - 1  # (shares - 1, blocks, H)
    elsewhere, deviation = (torch.tensor(x, dtype=torch.float64)[:, None] for x in prior)
    freedom = change.shape[1] - 1
    if freedom > 2:  # Student's t of a mean of so few has this variance
        variance = change.var(1) / (freedom + 1) * freedom / (freedom - 2)
        variance = variance.clamp(min=_LEAST_DEVIATION**2)
    else:
        variance = deviation.square().expand(-1, change.shape[2])
    trust = 1 / variance, 1 / deviation.square()
    believed = (change.mean(1) * trust[0] + elsewhere * trust[1]) / (trust[0] + trust[1])
    return torch.cat([torch.zeros_like(believed[:1]), believed])


def _smoothed(errors: Tensor, reach: int = 8) -> Tensor:
    """Average over neighbouring steps, so that the gate follows the horizon and not noise."""
    steps = torch.arange(errors.shape[-1])
    near = ((steps[:, None] - steps).abs() <= reach).to(errors.dtype)
    smooth: Tensor = errors @ (near / near.sum(0))
    return smooth
