from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from tsmamba.data.windows import Windows
from tsmamba.forecast.base import N_BLOCKS, Context, blocks_of
from tsmamba.forecast.correction import Correction, assemble, split_windows
from tsmamba.forecast.gate import SHARES
from tsmamba.forecast.linear import fit_linear_base
from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.forecast.source import Source
from tsmamba.training import Training

HORIZON = 6
CONTEXT = Context(length=36, recent=24, level=24, stretches=((6, 2),))
CONFIG = CorrectorConfig(history=36, horizon=HORIZON, patch=6, d_model=8, n_layers=1, d_state=4)


@pytest.fixture(scope="module")
def correction(make_panel):
    rng = np.random.default_rng(0)
    y = np.sin(np.arange(1_500) / 4) + 0.3 * rng.normal(size=1_500)
    source = Source.of(make_panel(y, y[:900] + 3), season=1, cycles=())
    windows = source.store.windows(CONTEXT.recent, HORIZON)
    base = fit_linear_base(source.store, windows, CONTEXT, HORIZON)
    return Correction(source, CONTEXT, base, CONFIG)


def targets(windows, horizon=HORIZON):
    steps = windows.origin[:, None] + torch.arange(horizon)
    return set(steps.flatten().tolist())


# The split


@pytest.mark.parametrize("val_size", [0, HORIZON, 50, 400])
@pytest.mark.parametrize("horizon", [1, HORIZON, 40])
def test_no_target_is_on_both_sides(correction, val_size, horizon):
    store = correction.store
    split = split_windows(store, store.windows(24, horizon), horizon, val_size)
    assert not targets(split.training, horizon) & targets(split.validation, horizon)


def test_validation_has_a_part_of_every_block(correction):
    store = correction.store
    windows = store.windows(24, HORIZON)
    split = split_windows(store, windows, HORIZON)
    for part in (split.training, split.validation):
        assert blocks_of(store, part, HORIZON).unique().tolist() == list(range(N_BLOCKS))
    assert 0.03 < len(split.validation) / len(windows) < 1 / 8
    assert len(split.training) > len(windows) / 2


def test_a_validation_size_is_the_end_of_every_series(correction):
    store = correction.store
    split = split_windows(store, store.windows(24, HORIZON), HORIZON, 100)
    ends = store.offsets[1:]
    assert len(split.validation) == 2 * (100 - HORIZON + 1)
    assert (ends[split.validation.series] - split.validation.origin <= 100).all()
    assert (ends[split.training.series] - split.training.origin - HORIZON >= 100).all()


# Batches


def test_a_batch_is_in_units_of_the_levels(correction):
    store = correction.store
    windows = store.windows(24, HORIZON).thinned(9)
    batch = assemble(
        correction.source, windows, CONTEXT, CONFIG, lambda inputs: inputs[:, :HORIZON]
    )
    torch.testing.assert_close(batch.history[:, -24 : -24 + HORIZON], batch.base)
    torch.testing.assert_close(batch.level.restore(batch.history), store.history(windows, 36))
    assert torch.equal(batch.observed, store.history_observed(windows, 36))
    assert batch.context.shape == (9, 7, 0)


def test_a_history_that_the_series_does_not_have_is_marked(correction):
    windows = Windows(torch.tensor([20]), torch.tensor([0]))
    batch = assemble(
        correction.source, windows, CONTEXT, CONFIG, lambda inputs: inputs[:, :HORIZON]
    )
    assert batch.observed[0].tolist() == [False] * 16 + [True] * 20


def test_the_base_of_a_batch_is_out_of_fold(correction):
    windows = correction.store.windows(24, HORIZON)
    block = blocks_of(correction.store, windows, HORIZON)
    chosen = windows.select(block == 2)
    batch = correction.batch(chosen)
    alone = assemble(
        correction.source,
        chosen,
        CONTEXT,
        CONFIG,
        lambda inputs: inputs @ correction.base.shared.fold_weights[2],
    )
    torch.testing.assert_close(batch.base, alone.base)


# The gate


class Known(torch.nn.Module):
    """A corrector that knows the error of the base, times a factor for each step and block."""

    def __init__(self, correction, factor):
        super().__init__()
        self.correction, self.factor = correction, torch.as_tensor(factor)
        self.windows = iter(())

    def follow(self, windows):
        """Learn which windows the next calls are about."""
        self.windows = iter(windows.batches(256))
        return windows

    def forward(self, history, base, observed, context, gaps):
        windows = next(self.windows)
        values, _ = self.correction.store.future(windows, HORIZON)
        block = blocks_of(self.correction.store, windows, HORIZON)
        level = self.correction.batch(windows).level
        factor = self.factor.expand(N_BLOCKS, HORIZON)[block]
        return (level.normalise(values) - base) * factor


def gate_of(correction, factor):
    store = correction.store
    split = split_windows(store, store.windows(24, HORIZON), HORIZON)
    network = Known(correction, factor)
    return correction.gate([network], network.follow(split.validation))


@pytest.mark.parametrize(("factor", "gate"), [(1.0, 1.0), (2.0, 0.5), (4.0, 0.25), (1.3, 0.75)])
def test_the_gate_opens_as_far_as_it_helps(correction, factor, gate):
    got, base_error, error = gate_of(correction, factor)
    assert (got == gate).all()
    assert error < base_error


def test_each_block_is_judged_by_the_fold_that_has_not_seen_it(correction):
    store = correction.store
    judged = split_windows(store, store.windows(24, HORIZON), HORIZON).validation
    block = blocks_of(store, judged, HORIZON)
    folds = []
    for number in range(N_BLOCKS):
        factor = torch.full((N_BLOCKS, HORIZON), -3.0)
        factor[number] = 1.0
        folds.append(Known(correction, factor))
        folds[-1].follow(judged.select(block == number))
    gate, base_error, error = correction.gate(folds, judged)
    assert (gate == 1).all()
    assert error < 1e-3 * base_error


@pytest.mark.parametrize("factor", [0.0, -0.5, -3.0])
def test_the_gate_stays_closed_where_it_hurts_or_does_nothing(correction, factor):
    got, base_error, error = gate_of(correction, factor)
    assert (got == 0).all()
    assert error == base_error


def test_noise_does_not_open_the_gate(correction):
    class Noise(torch.nn.Module):
        def forward(self, history, base, observed, context, gaps):
            return torch.randn_like(base)

    store = correction.store
    split = split_windows(store, store.windows(24, HORIZON), HORIZON)
    got, base_error, error = correction.gate([Noise()], split.validation)
    assert (got == 0).all()
    assert error == base_error


def test_the_gate_stays_closed_where_rare_blunders_outweigh_small_gains(correction):
    class Wild(Known):
        def forward(self, history, base, observed, context, gaps):
            out = super().forward(history, base, observed, context, gaps)
            out[::100] += 10.0
            return out

    store = correction.store
    split = split_windows(store, store.windows(24, HORIZON), HORIZON)
    network = Wild(correction, 1.0)
    errors = correction.errors(network, network.follow(split.validation), SHARES)
    absolute = errors.absolute.sum((1, 2))
    assert absolute[-1] < absolute[0]
    got, _, _ = correction.gate([network], network.follow(split.validation))
    assert (got == 0).all()


@pytest.mark.parametrize(("worse", "opens"), [(1, True), (2, True), (4, False)])
def test_the_gate_wants_a_gain_over_all_blocks(correction, worse, opens):
    factor = torch.ones(N_BLOCKS, HORIZON)
    factor[:worse] = -0.2
    got, _, _ = gate_of(correction, factor)
    assert bool(got.any()) == opens


@pytest.mark.parametrize("bad", [-0.5, -2.0, -8.0])
def test_the_gate_never_raises_the_error(correction, bad):
    """One block in which the correction is a disaster outweighs three in which it helps a bit."""
    factor = torch.full((N_BLOCKS, HORIZON), 0.2)
    factor[1] = bad
    _, base_error, error = gate_of(correction, factor)
    assert error <= base_error


def test_errors_are_counted_by_block_and_step(correction):
    store = correction.store
    split = split_windows(store, store.windows(24, HORIZON), HORIZON)
    network = Known(correction, 1.0)
    errors, squared, counts = correction.errors(network, network.follow(split.validation), SHARES)
    assert errors.shape == (len(SHARES), N_BLOCKS, HORIZON)
    assert counts.sum() == len(split.validation) * HORIZON
    assert errors[-1].max() < 1e-3
    torch.testing.assert_close(errors[2], errors[0] / 2, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(squared[2], squared[0] / 4, rtol=1e-3, atol=1e-3)


def test_errors_count_by_the_weights(correction):
    panel = correction.source.panel
    weights = np.where(np.arange(len(panel.values)) % 2, 3.0, 0.0).astype(np.float32)
    weighted = Source.of(replace(panel, weights=weights), season=1, cycles=())
    heavy = replace(correction, source=weighted)
    windows = correction.store.windows(24, HORIZON).thinned(99)
    odd = windows.select(windows.origin % 2 == 1)
    network = Corrector(CONFIG).eval()
    errors, _, counts = heavy.errors(network, odd, (1.0,))
    plain, _, steps = correction.errors(network, odd, (1.0,))
    torch.testing.assert_close(errors[..., ::2], 3 * plain[..., ::2])
    torch.testing.assert_close(counts[..., ::2], 3 * steps[..., ::2])
    assert not errors[..., 1::2].any()
    assert not counts[..., 1::2].any()


# Training


def test_training_keeps_the_best_and_reports_every_step(correction):
    store = correction.store
    split = split_windows(store, store.windows(24, HORIZON), HORIZON)
    corrector = Corrector(CONFIG)
    steps = []
    history = correction.train(
        corrector,
        split,
        Training(max_steps=8, batch_size=16, eval_every=2),
        lambda step, loss: steps.append((step, loss)),
    )
    assert [step for step, _ in steps] == list(range(1, 9))
    assert all(np.isfinite(loss) for _, loss in steps)
    assert [step for step, _ in history.errors] == [0, 2, 4, 6, 8]
    watched = split.validation.thinned(512)
    errors, _, counts = correction.errors(corrector, watched, (1.0,))
    kept = float(errors.sum() / counts.sum())
    assert kept == pytest.approx(min(error for _, error in history.errors), rel=1e-5)


def shaken(**kwargs):
    """Return a corrector that does something."""
    torch.manual_seed(0)
    corrector = Corrector(replace(CONFIG, **kwargs)).eval().requires_grad_(False)
    torch.nn.init.normal_(corrector.head.weight, std=0.3)
    if kwargs:
        torch.nn.init.normal_(corrector.spread_head.weight, std=0.3)
    return corrector


@pytest.mark.parametrize("kind", ["absolute", "squared"])
def test_a_loss_is_the_error_in_the_units_of_the_series(correction, kind):
    windows = correction.store.windows(24, HORIZON).thinned(99)
    total, count = correction.loss(shaken(), windows, kind)
    errors = correction.errors(shaken(), windows, (1.0,))
    torch.testing.assert_close(total, getattr(errors, kind).sum())
    assert count == errors.counts.sum()


def test_the_loss_of_a_spread_is_the_likelihood_of_student_t(correction):
    windows = correction.store.windows(24, HORIZON).thinned(99)
    corrector = shaken(spread=True)
    batch = correction.batch(windows)
    values, _ = correction.store.future(windows, HORIZON)
    target = batch.level.normalise(values)
    shift, spread = corrector.outputs(*batch.inputs)
    forecast = batch.base + shift
    log_p = stats.t.logpdf(target, corrector.freedom.item(), forecast.numpy(), spread.numpy())
    total, count = correction.loss(corrector, windows, "student-t")
    assert total.item() == pytest.approx(-(log_p * batch.level.scale.numpy()).sum(), rel=1e-4)
    assert count == 99 * HORIZON


@pytest.mark.parametrize("kind", ["absolute", "squared", "student-t"])
def test_a_loss_counts_by_the_weights(correction, kind):
    corrector = shaken(spread=True) if kind == "student-t" else shaken()
    windows = correction.store.windows(24, HORIZON).thinned(99)
    panel = correction.source.panel
    third = np.where(np.arange(len(panel.values)) % 3, 0.0, 3.0).astype(np.float32)

    def loss(weights):
        weighted = Source.of(replace(panel, weights=weights), season=1, cycles=())
        return torch.stack(replace(correction, source=weighted).loss(corrector, windows, kind))

    some, others = loss(third), loss(3 - third)
    assert 0 < some[1] < others[1]
    torch.testing.assert_close(some + others, 3 * loss(np.ones_like(third)))


@pytest.mark.parametrize("kind", ["absolute", "squared", "student-t"])
def test_training_is_validated_in_its_own_loss(correction, kind):
    store = correction.store
    split = split_windows(store, store.windows(24, HORIZON), HORIZON)
    watched = split.validation.thinned(512)
    corrector = Corrector(replace(CONFIG, spread=kind == "student-t")).eval()
    with torch.no_grad():
        total, count = correction.loss(corrector, watched, kind)
    settings = Training(max_steps=30, batch_size=64, lr=1e-2, eval_every=10, loss=kind)
    history = correction.train(corrector, split, settings, lambda step, loss: None)
    assert history.errors[0][1] == pytest.approx(float(total / count), rel=1e-4)
    with torch.no_grad():
        total, count = correction.loss(corrector, watched, kind)
    least = min(error for _, error in history.errors)
    assert least == pytest.approx(float(total / count), rel=1e-4)
