import json

import pytest
import torch
from sklearn.exceptions import NotFittedError

from tsmamba.errors import HealthWarning, ModelFileError, ParameterError
from tsmamba.health import StateNorm, StateSpread
from tsmamba.health.states import rows_of
from tsmamba.nn import Mamba, MambaState

MONITORS = {
    "norm": StateNorm,
    "streams": StateSpread,
    "channels": lambda **given: StateSpread("channels", **given),
}


@pytest.fixture(params=MONITORS)
def monitor(request, calm):
    return MONITORS[request.param]().calibrate(calm)


def checks(monitor, states):
    return [monitor.observe(state) for state in states]


def test_a_long_normal_run_stays_within_the_limits(monitor, model):
    said = checks(monitor, model.states(model.data(7_000, seed=1)))
    assert len(said) == 500
    assert all(check.ok for check in said)
    low, high = monitor.limits
    # Not by a hair: the last tenth of the way to a limit is never used.
    values = [check.value for check in said]
    assert 1 - 0.9 * (1 - low) < min(values) <= max(values) < 1 + 0.9 * (high - 1)


def test_one_slow_stream_leaves_the_limits_each_season_and_its_median_does_not(slow_model):
    calm = list(slow_model.states(slow_model.data(6_000, seed=0, streams=1)))
    norm = StateNorm().calibrate(calm)
    with pytest.warns(HealthWarning):
        single = StateNorm(window=1).calibrate(calm)
    run = list(slow_model.states(slow_model.data(8_000, seed=1, streams=1)))
    said, alone = checks(norm, run), checks(single, run)
    assert all(check.ok for check in said)
    assert sum(not check.ok for check in alone) > 0.25 * len(alone)


def test_decays_that_were_shifted_are_found(model, calm):
    norm = StateNorm().calibrate(calm)
    with torch.no_grad():
        for layer in model.stack.layers:
            layer.mixer.A_log += 1.0
    last = checks(norm, model.states(model.data(2_500, seed=1)))[-1]
    assert not last.ok
    assert last.value == pytest.approx(0.39, abs=0.05)
    assert (
        last.message == f"norm of the state is {last.value:.3g} times that of the calibration run"
    )


def test_inputs_of_another_scale_are_found_in_a_block_that_does_not_normalise_them():
    mixer = Mamba(8).eval()
    x = torch.randn(2, 50, 8)
    with torch.no_grad():
        calm, loud = ([mixer.prefill(scale * x)[1]] for scale in (1, 3))
    norm = StateNorm().calibrate([calm])
    assert checks(norm, [calm] * 25)[-1].ok
    last = checks(norm, [loud] * 25)[-1]
    assert not last.ok
    assert last.value > 3


def test_a_stack_divides_its_inputs_by_their_scale_and_its_state_hardly_sees_it(model, calm):
    norm = StateNorm().calibrate(calm)
    assert 0.75 < checks(norm, model.states(3 * model.data(2_500, seed=1)))[-1].value < 0.95


def test_a_state_that_collapses_to_zero_is_found(monitor, model):
    said = checks(monitor, [model.stack.init_state(16)] * monitor.window)
    assert not said[-1].ok
    assert said[-1].value == 0.0


def test_a_state_that_explodes_is_found(monitor, calm):
    loud = [MambaState(conv, 5 * ssm) for conv, ssm in calm[-1]]
    assert not checks(monitor, [loud] * monitor.window)[-1].ok


def test_streams_that_became_alike_are_found_by_the_spread_over_them_alone(calm):
    spread, norm = StateSpread().calibrate(calm), StateNorm().calibrate(calm)
    same = [[MambaState(*(part[:1].expand_as(part) for part in layer)) for layer in calm[-1]]] * 25
    assert not checks(spread, same)[-1].ok
    assert checks(norm, same)[-1].ok


def test_channels_that_became_alike_are_found_by_the_spread_over_them_alone():
    calm = [torch.randn(4, 200) for _ in range(30)]
    spread, norm = StateSpread("channels").calibrate(calm), StateNorm().calibrate(calm)
    saturated = [torch.ones(4, 200)] * 25
    assert not checks(spread, saturated)[-1].ok
    assert checks(norm, saturated)[-1].ok


@pytest.mark.parametrize("wild", [0.0, 1e6, float("nan"), float("inf")])
def test_less_than_half_a_window_of_wild_points_fires_nothing(monitor, calm, wild):
    spoiled = [[MambaState(conv, wild * ssm) for conv, ssm in state] for state in calm[:12]]
    assert all(check.ok for check in checks(monitor, [*spoiled, *calm, *spoiled, *calm]))


def test_a_state_of_nan_is_found_and_its_state_is_json(monitor, calm):
    broken = [MambaState(conv, ssm * torch.nan) for conv, ssm in calm[-1]]
    last = checks(monitor, [broken] * monitor.window)[-1]
    assert (last.ok, last.value) == (False, None)
    json.dumps(monitor.state(), allow_nan=False)


def test_the_order_of_streams_does_not_matter(monitor, calm):
    monitor.window = 1
    turned = [MambaState(*(part.flip(0) for part in layer)) for layer in calm[0]]
    assert monitor.observe(turned).value == pytest.approx(monitor.observe(calm[0]).value)


def test_states_of_the_stack_and_of_the_native_step_say_the_same(model, calm):
    norm = StateNorm(window=1).calibrate(calm)
    x = model.data(2_010, seed=1)
    (native,) = model.states(x)
    with torch.no_grad():
        _, state = model.stack.prefill(model.embed(x))
    assert norm.observe(state).value == pytest.approx(norm.observe(native).value, rel=1e-4)


def test_the_scan_counts_in_a_list_and_everything_in_a_tensor(model):
    state = model.stack.init_state(3)
    state[0].conv.fill_(7.0)
    state[1].ssm.fill_(2.0)
    assert rows_of(state).norm().item() == pytest.approx(2 * (3 * 32 * 16) ** 0.5)
    assert rows_of(torch.ones(2, 3, 4)).tolist() == [[1.0] * 12] * 2


def test_a_restored_monitor_goes_on_and_its_state_stays_small(monitor, calm):
    checks(monitor, calm[:60])
    text = json.dumps(monitor.state())
    fresh = MONITORS[{"state_norm": "norm"}.get(monitor.name, monitor.name[13:])]()
    fresh.restore(json.loads(text))
    assert fresh.check() == monitor.check()
    assert checks(fresh, calm[60:]) == checks(monitor, calm[60:])
    assert len(monitor.recent) == monitor.window


def test_a_state_of_another_monitor_is_refused(monitor):
    before = monitor.state()
    with pytest.raises(ModelFileError, match=r"has the parts \['reference'\], a State"):
        monitor.restore({"reference": 2.0})
    assert monitor.state() == before


def test_calibration_tells_when_the_limits_are_too_narrow_for_its_own_run():
    slow = 1 + 0.5 * torch.sin(torch.arange(600) / 30)
    states = [value * torch.ones(1, 8) for value in slow]
    with pytest.warns(HealthWarning, match="state_norm: the norm of the calibration run itself"):
        StateNorm().calibrate(states)
    StateNorm(window=400).calibrate(states)


def test_before_calibration_nothing_is_said(model):
    norm = StateNorm()
    assert norm.check().message == "state_norm: nothing seen yet"
    with pytest.raises(NotFittedError, match="call calibrate with states of a normal run"):
        norm.observe(model.stack.init_state(1))


@pytest.mark.parametrize("states", [[], [torch.zeros(2, 3)], [torch.full((2, 3), torch.nan)]])
def test_a_calibration_run_that_says_nothing_is_refused(states):
    norm = StateNorm()
    with pytest.raises(ParameterError, match="calibrate on states of a run that is well"):
        norm.calibrate(states)
    assert norm.reference is None


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: StateNorm((1.1, 1.2)), "pass one from 0 to 1 and one above 1"),
        (lambda: StateNorm(window=0), "window=0; pass 1 or more"),
        (lambda: StateNorm(name="State norm"), "lower-case letters, digits and underscores"),
        (lambda: StateSpread("layers"), "over='layers'; pass 'streams' or 'channels'"),
    ],
)
def test_settings_out_of_range_are_refused(make, match):
    with pytest.raises(ParameterError, match=match):
        make()


def test_one_stream_has_no_spread_over_streams():
    with pytest.raises(ParameterError, match="pass more streams or over='channels'"):
        StateSpread().calibrate([torch.ones(1, 5)])


@pytest.mark.parametrize("state", [[], torch.zeros(0, 3), torch.tensor(1.0)])
def test_an_empty_state_is_refused(state):
    with pytest.raises(ParameterError, match="the state is empty"):
        rows_of(state)
