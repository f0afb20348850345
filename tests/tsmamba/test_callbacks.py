import gc
import re
import threading
import warnings
import weakref
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from sklearn.model_selection import GridSearchCV

from tsmamba import LogDetector, MambaDetector, MambaForecaster, Network, Training
from tsmamba.callbacks import Callback, current_fit, observe, register
from tsmamba.errors import CallbackWarning, FrameError, ParameterError
from tsmamba.forecast.base import N_BLOCKS
from tsmamba.model_selection import RollingOrigin
from tsmamba_datasets import make_seasonal

PAGE = Path(__file__).resolve().parents[2] / "docs" / "callbacks.md"
STEPS = 6
HORIZON = 24
EVENTS = ("on_fit_start", "on_step", "on_validation", "on_backtest", "on_fit_end", "on_fit_error")


class Recorder(Callback):
    """Notes every event with the fit and what else is told."""

    def __init__(self):
        self.heard = []

    def events(self, fit=None):
        return [name for name, of, *_ in self.heard if fit is None or of is fit]

    def told(self, event):
        """Return what was told with an event beside the fit, call by call."""
        return [about for name, _, *about in self.heard if name == event]

    @property
    def fits(self):
        return [of for name, of, *_ in self.heard if name == "on_fit_start"]


def _note(event):
    def note(self, fit, *about):
        self.heard.append((event, fit, *about))

    return note


for _event in EVENTS:
    setattr(Recorder, _event, _note(_event))


@pytest.fixture
def recorder():
    listener = Recorder()
    with register(listener):
        yield listener


@pytest.fixture(scope="module")
def df():
    return make_seasonal(length=1_200, seed=1).drop("unique_id")


def make(**kwargs):
    """Return a forecaster that trains a small network for some steps."""
    given = {
        "context_length": 120,
        "random_state": 0,
        "network": Network(patch_length=24, d_model=8, n_layers=1, d_state=4),
        "training": Training(max_steps=STEPS, batch_size=8, eval_every=3),
    }
    return MambaForecaster(HORIZON, mode="full", **given | kwargs)


TOTAL = N_BLOCKS * STEPS


def linear():
    return MambaForecaster(HORIZON, mode="base", context_length=120)


LINES = [f"job {number} done in {20 + number % 7} ms" for number in range(200)]


def test_events_come_in_the_order_of_the_fit(df, recorder):
    forecaster = make()
    assert forecaster.fit(df) is forecaster
    step, look = "on_step", "on_validation"
    training = [look, step, step, step, look, step, step, step, look]
    assert recorder.events() == ["on_fit_start", *N_BLOCKS * training, "on_fit_end"]
    (fit,) = recorder.fits
    assert (fit.estimator, fit.data, fit.call, fit.steps) == (forecaster, df, "fit", TOTAL)
    assert [number for number, *_ in recorder.told(step)] == list(range(1, TOTAL + 1))
    assert [number for number, _ in recorder.told(look)] == [
        STEPS * done + number for done in range(N_BLOCKS) for number in (0, 3, 6)
    ]
    assert all(np.isfinite(loss) and loss > 0 for _, loss, _ in recorder.told(step))


def test_a_step_reaches_the_network_with_its_gradients(df):
    seen = []

    class Looks(Callback):
        def on_step(self, fit, step, loss, network):
            assert network.training
            weights = [float(x.detach().norm()) for x in network.parameters()]
            seen.append((weights, [x.grad is not None for x in network.parameters()]))

    with register(Looks()):
        make().fit(df)
    assert len(seen) == TOTAL
    assert all(any(has_gradient) for _, has_gradient in seen)
    assert seen[0][0] != seen[-1][0]


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (linear(), pl.DataFrame({"ds": range(400), "y": np.sin(np.arange(400) / 4)})),
        (MambaDetector(), np.sin(np.arange(400) / 4)[:, None]),
        (LogDetector(), LINES),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_estimator_tells_its_start_and_its_end(estimator, data, recorder):
    estimator.fit(data)
    assert recorder.events() == ["on_fit_start", "on_fit_end"]
    assert recorder.fits[0].estimator is estimator
    assert recorder.fits[0].data is data


def test_data_given_by_name_are_told(df, recorder):
    linear().fit(df=df)
    MambaDetector("tiny").fit(X=np.zeros((5, 1)))
    assert recorder.fits[0].data is df
    assert recorder.fits[1].data.shape == (5, 1)


def test_a_fit_that_fails_tells_its_error_and_raises_it(df, recorder):
    with pytest.raises(FrameError, match="no column 'y'") as raised:
        linear().fit(df.drop("y"))
    assert recorder.events() == ["on_fit_start", "on_fit_error"]
    assert recorder.told("on_fit_error") == [[raised.value]]
    assert current_fit().callbacks == ()


# Fits inside of calls


@pytest.mark.parametrize("refit", [False, True])
def test_a_cross_validation_is_one_fit_whose_steps_go_on(df, recorder, refit):
    forecaster = make()
    table = forecaster.cross_validation(df, n_windows=3, refit=refit)
    (fit,) = recorder.fits
    assert (fit.estimator, fit.call) == (forecaster, "cross_validation")
    assert recorder.events()[-2:] == ["on_backtest", "on_fit_end"]
    assert recorder.events().count("on_fit_end") == 1
    assert recorder.told("on_backtest")[0][0] is table
    steps = TOTAL * (3 if refit else 1)
    assert [step for step, *_ in recorder.told("on_step")] == list(range(1, steps + 1))
    networks = {id(network) for *_, network in recorder.told("on_step")}
    assert len(networks) == N_BLOCKS * (3 if refit else 1)


def test_a_cross_validation_without_a_fit_tells_its_table(df, recorder):
    forecaster = linear().fit(df.head(1_000))
    forecaster.cross_validation(df, use_fitted=True)
    assert recorder.events(recorder.fits[1]) == ["on_fit_start", "on_backtest", "on_fit_end"]


def test_partial_fit_is_one_fit_the_first_time_too(df, recorder):
    forecaster = linear().partial_fit(df.head(1_000))
    forecaster.partial_fit(df.tail(200))
    assert [fit.call for fit in recorder.fits] == ["partial_fit", "partial_fit"]
    assert recorder.events() == ["on_fit_start", "on_fit_end"] * 2


def search():
    return GridSearchCV(
        MambaForecaster(HORIZON, mode="base"),
        {"context_length": [72, 120]},
        cv=RollingOrigin(n_splits=1, horizon=HORIZON),
    )


def test_a_search_is_as_many_fits_as_it_makes_and_one_where_it_is_observed(df, recorder):
    searching = search().fit(df)
    assert len(recorder.fits) == 3
    assert all(isinstance(fit.estimator, MambaForecaster) for fit in recorder.fits)
    recorder.heard.clear()
    with observe(searching, df) as fit:
        searching.fit(df)
    assert recorder.heard == [("on_fit_start", fit), ("on_fit_end", fit)]
    assert fit.estimator is searching


def test_an_error_that_is_caught_inside_does_not_end_the_fit_around_it(df, recorder):
    with observe("both") as fit:
        with pytest.raises(FrameError):
            linear().fit(df.drop("y"))
        linear().fit(df)
    assert recorder.heard == [("on_fit_start", fit), ("on_fit_end", fit)]


def test_fits_in_two_threads_do_not_mix(df, recorder):
    together, failed = threading.Barrier(2, timeout=60), []

    class Waits(Callback):
        def on_step(self, fit, step, loss, network):
            together.wait()

    def run():
        try:
            make().fit(df)
        except Exception as error:  # a thread's own error fails no test
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    with register(Waits()):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed
    one, other = recorder.fits
    assert recorder.events(one) == recorder.events(other)
    assert one.estimator is not other.estimator
    for fit in (one, other):
        steps = [about for name, of, *about in recorder.heard if (name, of) == ("on_step", fit)]
        assert [number for number, *_ in steps] == list(range(1, TOTAL + 1))
        assert len({id(network) for *_, network in steps}) == N_BLOCKS


# The registry


def test_a_callback_hears_nothing_after_it_is_unregistered(df):
    recorder = Recorder()
    registered = register(recorder)
    linear().fit(df)
    registered.close()
    registered.close()
    linear().fit(df)
    assert recorder.events() == ["on_fit_start", "on_fit_end"]


def test_of_equal_callbacks_the_right_one_is_unregistered(df):
    class Equal(Recorder):
        def __eq__(self, other):
            return isinstance(other, Equal)

        __hash__ = None

    first, second = Equal(), Equal()
    with register(first), register(second) as registered:
        registered.close()
        linear().fit(df)
    assert (len(first.heard), len(second.heard)) == (2, 0)


def test_whoever_heard_the_start_hears_the_end_and_nobody_else(df):
    late, early = Recorder(), Recorder()

    class Changes(Callback):
        def on_fit_start(self, fit):
            registered.close()
            changed.append(register(late))

    changed = []
    with register(Changes()):
        registered = register(early)
        linear().fit(df)
    changed[0].close()
    assert early.events() == ["on_fit_start", "on_fit_end"]
    assert late.heard == []


def test_only_callbacks_can_be_registered():
    with pytest.raises(ParameterError, match="pass an instance of a subclass of"):
        register(print)


def test_a_fit_is_not_kept_alive(df):
    with register(Callback()):
        forecaster = linear().fit(df)
    kept = weakref.ref(forecaster)
    del forecaster
    gc.collect()
    assert kept() is None


# Callbacks that fail


class Fails(Callback):
    """Raises from one method on, at each call."""

    def __init__(self, event, error=ValueError):
        def fail(*about):
            raise error("no space left")

        setattr(self, event, fail)


@pytest.mark.parametrize("event", [name for name in EVENTS if name != "on_fit_error"])
def test_a_callback_that_fails_is_told_once_and_fails_nothing(df, event, recorder):
    with register(Fails(event)), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = make().cross_validation(df, n_windows=2, refit=True)
    assert [str(each.message) for each in caught if each.category is CallbackWarning] == [
        f"Fails.{event} failed, and the fit goes on without it: ValueError: no space left"
    ]
    assert recorder.events().count("on_step") == 2 * TOTAL
    assert_frame_equal(table, make().cross_validation(df, n_windows=2, refit=True))


def test_a_callback_that_fails_at_an_error_does_not_hide_it(df):
    with (
        register(Fails("on_fit_error")),
        pytest.warns(CallbackWarning, match="on_fit_error failed"),
        pytest.raises(FrameError, match="no column 'y'"),
    ):
        linear().fit(df.drop("y"))


def test_each_fit_warns_anew(df):
    with register(Fails("on_fit_end")):
        for _ in range(2):
            with pytest.warns(CallbackWarning, match="on_fit_end failed"):
                linear().fit(df)


def test_an_interrupt_by_a_callback_ends_the_training_with_the_best_weights(df, recorder):
    with register(Fails("on_step", KeyboardInterrupt)):
        forecaster = make().fit(df)
    assert forecaster.report_["interrupted"]
    assert forecaster.report_["steps"] == 1
    assert recorder.events()[-1] == "on_fit_end"


# What it costs


def test_callbacks_change_no_number(df):
    def fitted():
        torch.manual_seed(1)
        forecaster = make().fit(df)
        return forecaster, torch.rand(3), np.random.rand(3)  # noqa: NPY002  global states

    np.random.seed(1)  # noqa: NPY002
    alone, *drawn = fitted()
    np.random.seed(1)  # noqa: NPY002
    with register(Recorder()):
        watched, *drawn_watched = fitted()
    assert_frame_equal(alone.predict(), watched.predict(), check_exact=True)
    assert torch.equal(drawn[0], drawn_watched[0])
    assert (drawn[1] == drawn_watched[1]).all()


def test_outside_of_a_fit_nobody_hears():
    with register(Recorder()):
        fit = current_fit()
    fit.step(1.0, torch.nn.Identity())
    assert (fit.callbacks, fit.steps) == ((), 1)


def test_the_code_of_the_page_runs():
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names = {}
    exec(compile(block, str(PAGE), "exec"), names)
    assert names["forecaster"].report_["steps"] == 4 * 20
