import json
import re

import numpy as np
import pytest
import torch

from tsmamba.errors import ParameterError
from tsmamba.health import Finite
from tsmamba.nn import MambaStack, MambaState


def test_a_nan_among_the_weights_is_named():
    finite = Finite("weights")
    stack = MambaStack(8)
    norm = torch.nn.utils.get_total_norm(stack.parameters()).item()
    assert finite.observe(stack).value == pytest.approx(norm)
    stack.layers[1].mixer.A_log.data[3, 2] = torch.nan
    check = finite.look(stack)
    assert (check.ok, check.value) == (False, None)
    assert check.message == "not finite: layers.1.mixer.A_log (1 of 256, first at [3, 2])"


def test_an_infinite_state_is_named_by_layer_and_stream():
    stack = MambaStack(8)
    state = stack.init_state(4)
    state[1].ssm[2, 0, 5] = -torch.inf
    assert Finite().observe(state).message == (
        "not finite: layers.1.ssm (1 of 1024, first at [2, 0, 5])"
    )
    packed = torch.zeros(4, 10)
    packed[3, 1] = torch.nan
    assert Finite().observe(packed).message == "not finite: state (1 of 40, first at [3, 1])"


def test_it_looks_at_the_first_observation_and_at_each_thousandth():
    finite, broken = Finite(), torch.tensor([1.0, torch.nan])
    assert finite.observe(torch.ones(2)).ok
    said = [finite.observe(broken).ok for _ in range(1_000)]
    assert said == [True] * 999 + [False]
    assert not finite.observe(torch.ones(2)).ok  # until the next look
    assert finite.look(torch.ones(2)).ok


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([1, 2]),
        {"a": None, "b": torch.tensor([True])},
        torch.full((3,), 1e38),
        torch.full((3,), 6e4, dtype=torch.float16),
        np.ones(3),
        0.5,
        {},
    ],
)
def test_what_is_finite_is_well(value):
    assert Finite(every=1).observe(value).ok


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"a": torch.zeros(2), "b": torch.tensor([0, np.inf])}, r"b \(1 of 2, first at \[1\]\)"),
        (np.array([np.nan]), r"outputs \(1 of 1, first at \[0\]\)"),
        (float("nan"), r"outputs \(1 of 1\)"),
        ({str(n): torch.tensor(np.nan) for n in range(8)}, r"4 \(1 of 1\) and 3 more"),
    ],
)
def test_what_is_not_is_named(value, named):
    message = Finite("outputs").observe(value).message
    assert re.search(named + "$", message), message


def test_a_restored_monitor_goes_on():
    one = Finite(every=3)
    one.observe(torch.tensor(torch.nan))
    other = Finite(every=3)
    other.restore(json.loads(json.dumps(one.state(), allow_nan=False)))
    assert other.check() == one.check()
    state = [MambaState(torch.zeros(1, 2), torch.zeros(1, 2))]
    assert [other.observe(state) for _ in range(4)] == [one.observe(state) for _ in range(4)]


def test_nothing_seen_is_told():
    assert Finite().check().message == "state: nothing seen yet"


def test_settings_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="every=0; pass 1 or more"):
        Finite(every=0)
