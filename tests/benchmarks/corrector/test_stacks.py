import pytest
import torch

from benchmarks.corrector.stacks import LstmStack, MlpMixer

WIDTH, TOKENS = 8, 6


@pytest.fixture(params=["lstm", "mixer"])
def stack(request):
    torch.manual_seed(0)
    if request.param == "lstm":
        return LstmStack(WIDTH, n_layers=2, dropout=0.0)
    return MlpMixer(WIDTH, n_layers=2, most_tokens=TOKENS, dropout=0.0)


def test_windows_do_not_see_each_other(stack):
    x = torch.randn(4, TOKENS, WIDTH)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(stack(x[order]), stack(x)[order])


def test_a_masked_token_tells_the_others_nothing(stack):
    x, mask = torch.randn(2, TOKENS, WIDTH), torch.ones(2, TOKENS, dtype=torch.bool)
    mask[:, 1] = False
    changed = x.clone()
    changed[:, 1] += 1
    others = mask[0]
    torch.testing.assert_close(stack(changed, mask=mask)[:, others], stack(x, mask=mask)[:, others])
    assert not torch.allclose(stack(changed)[:, others], stack(x)[:, others])


def test_an_lstm_sees_no_later_token():
    stack = LstmStack(WIDTH, n_layers=2, dropout=0.0)
    x = torch.randn(2, TOKENS, WIDTH)
    torch.testing.assert_close(stack(x[:, :4]), stack(x)[:, :4])


def test_a_mixer_takes_absent_tokens_for_masked_ones():
    mixer = MlpMixer(WIDTH, n_layers=2, most_tokens=TOKENS, dropout=0.0)
    x = torch.randn(2, TOKENS, WIDTH)
    mask = (torch.arange(TOKENS) < 4).expand(2, -1)
    torch.testing.assert_close(mixer(x[:, :4]), mixer(x, mask=mask)[:, :4])
