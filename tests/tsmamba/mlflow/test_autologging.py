"""Every fit as a run, on a store of SQLite that is made once."""

import json
import sys
import threading

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from sklearn.model_selection import GridSearchCV

from tsmamba import LogDetector, MambaDetector, MambaForecaster
from tsmamba.callbacks import Callback, current_fit, observe, register
from tsmamba.errors import CallbackWarning, FrameError, MissingExtraError, ParameterError
from tsmamba.mlflow import autolog
from tsmamba.mlflow import run as run_module
from tsmamba.model_selection import RollingOrigin

mlflow = pytest.importorskip("mlflow")

# mlflow about its own type hints, where it imports its models.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType"),
    pytest.mark.usefixtures("tracked"),
]

STEPS = 4 * 6  # of four trainings
HORIZON = 24


def linear(horizon=HORIZON, **kwargs):
    return MambaForecaster(horizon, mode="base", **{"context_length": 120} | kwargs)


def history(tracked, run, name):
    return [(each.step, each.value) for each in tracked.get_metric_history(run.info.run_id, name)]


def artifacts(tracked, run):
    return {each.path for each in tracked.list_artifacts(run.info.run_id)}


def test_a_fit_is_a_run_with_parameters_losses_and_report(df, tracked, runs, make):
    told = []

    class Losses(Callback):
        def on_step(self, fit, step, loss, network):
            told.append((step, loss))

    autolog(log_models=False)
    with register(Losses()):
        forecaster = make().fit(df)
    (run,) = runs()
    assert run.info.status == "FINISHED"
    parameters = run.data.params
    assert parameters["horizon"] == "24"
    assert (parameters["training__lr"], parameters["network__d_model"]) == ("0.003", "8")
    assert "training" not in parameters
    assert history(tracked, run, "loss") == told
    looks = history(tracked, run, "validation_loss")
    assert [step for step, _ in looks] == [0, 3, 6, 6, 9, 12, 12, 15, 18, 18, 21, 24]
    report = forecaster.report_
    for name in ("seconds", "peak_memory_mb", "windows_per_second", "validation_error", "gate"):
        assert history(tracked, run, name) == [(STEPS, pytest.approx(report[name]))]
    tags = run.data.tags
    assert (tags["tsmamba.estimator"], tags["tsmamba.call"]) == ("MambaForecaster", "fit")
    assert artifacts(tracked, run) == {"fit_report.json"}
    text = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/fit_report.json")
    assert json.loads(text) == report


@pytest.mark.parametrize("kind", ["polars", "pandas", "array"])
def test_the_data_are_logged_by_digest(df, kind, runs):
    autolog(log_models=False)
    if kind == "array":
        MambaDetector("tiny").fit(df.select("y").to_numpy())
    else:
        linear().fit(df if kind == "polars" else df.to_pandas())
    (run,) = runs()
    (given,) = run.inputs.dataset_inputs
    assert given.tags[0].value == "training"
    assert json.loads(given.dataset.profile)["num_rows"] == len(df)
    if kind != "array":
        assert given.dataset.digest == str(df.hash_rows().sum())


def test_no_data_are_logged_where_there_is_no_frame_to_hash_or_none_wanted(df, runs):
    autolog(log_models=False)
    LogDetector().fit([f"job {number} done in {20 + number % 7} ms" for number in range(200)])
    linear().fit(df.lazy())
    autolog(log_models=False, log_datasets=False)
    linear().fit(df)
    assert [run.inputs.dataset_inputs for run in runs()] == [[], [], []]
    assert [run.data.tags["tsmamba.estimator"] for run in runs()] == [
        "LogDetector", "MambaForecaster", "MambaForecaster",
    ]  # fmt: skip
    assert runs()[0].data.metrics["lines"] == 200
    assert runs()[0].data.metrics["peak_memory_mb"] > 1


def test_types_that_mlflow_does_not_know_make_no_noise(runs, capfd):
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2025, 1, 1), eager=True)
    y = np.sin(np.arange(len(days)) / 4)
    odd = pl.DataFrame({"ds": days, "y": y, "kind": ["a"] * len(days)})
    odd = odd.with_columns(
        pl.col("kind").cast(pl.Categorical),
        other=pl.col("kind").cast(pl.Enum(["a"])),
        n=pl.lit(1, pl.UInt32),
    )
    autolog(log_models=False)
    linear(horizon=7, context_length=28).fit(odd)
    assert len(runs()[0].inputs.dataset_inputs) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("wide", [False, True])
def test_a_backtest_is_logged_as_a_table_a_picture_and_errors(df, tracked, runs, wide):
    target, frame = "y", df
    if wide:
        target, frame = ["y", "z"], df.with_columns(z=-pl.col("y"))
    autolog()
    forecaster = linear(target_col=target)
    table = forecaster.cross_validation(frame, n_windows=2)
    (run,) = runs()
    assert run.data.tags["tsmamba.call"] == "cross_validation"
    assert artifacts(tracked, run) == {"backtest.json", "backtest.png"}
    logged = mlflow.load_table("backtest.json", run_ids=[run.info.run_id])
    assert logged["MambaForecaster"].to_list() == pytest.approx(table["MambaForecaster"].to_list())
    assert logged["cutoff"].to_list() == table["cutoff"].cast(pl.String).to_list()
    away = table["MambaForecaster"] - table["y"]
    assert run.data.metrics["backtest_mae"] == pytest.approx(away.abs().mean())
    assert run.data.metrics["backtest_rmse"] == pytest.approx(away.pow(2).mean() ** 0.5)
    # Nothing was fitted but clones: no report, no model.
    assert "gate" not in run.data.metrics
    assert run.outputs.model_outputs == []


def test_steps_of_a_cross_validation_go_on_from_fit_to_fit(df, tracked, runs, make):
    autolog()
    make().cross_validation(df, n_windows=2, refit=True)
    (run,) = runs()
    assert [step for step, _ in history(tracked, run, "loss")] == list(range(1, 2 * STEPS + 1))


def test_a_backtest_inside_of_something_else_has_no_picture(df, tracked, runs):
    autolog()
    with observe("a study"):
        linear().cross_validation(df)
    (run,) = runs()
    assert artifacts(tracked, run) == {"backtest.json", "fit_report.json"}
    assert run.data.metrics["backtest_mae"] > 0


# Models


def test_the_fitted_estimator_is_logged_and_found_by_its_numbers(df, runs, make):
    from tsmamba.mlflow import load_model

    autolog()
    forecaster = make().fit(df)
    (run,) = runs()
    (output,) = run.outputs.model_outputs
    loaded = load_model(f"models:/{output.model_id}")
    assert_frame_equal(loaded.predict(), forecaster.predict(), check_exact=True)
    error = forecaster.report_["validation_error"]
    found = mlflow.search_logged_models(
        [run.info.experiment_id],
        f"metrics.validation_error < {error * 1.01}",
        output_format="list",
    )
    assert output.model_id in [each.model_id for each in found]


def test_models_are_registered_under_a_name(df, tracked):
    autolog(registered_model_name="load")
    linear().fit(df)
    linear().fit(df)
    assert [int(each.version) for each in tracked.search_model_versions("name='load'")] == [2, 1]


def test_a_search_that_is_observed_is_one_run_with_the_best_model(df, runs):
    from tsmamba.mlflow import load_model

    searching = GridSearchCV(
        MambaForecaster(HORIZON, mode="base"),
        {"context_length": [72, 120]},
        cv=RollingOrigin(n_splits=1, horizon=HORIZON),
    )
    autolog()
    with observe(searching, df):
        searching.fit(df)
    (run,) = runs()
    assert run.data.tags["tsmamba.estimator"] == "GridSearchCV"
    assert run.data.params["estimator__horizon"] == "24"
    (output,) = run.outputs.model_outputs
    loaded = load_model(f"models:/{output.model_id}")
    assert loaded.context_length == searching.best_params_["context_length"]


# Whose run


def test_a_run_that_is_active_is_used_and_left_open(df, tracked, runs, make):
    autolog(log_models=False)
    with mlflow.start_run() as mine:
        make().fit(df)
        assert mlflow.active_run().info.run_id == mine.info.run_id
        assert tracked.get_run(mine.info.run_id).info.status == "RUNNING"
        mlflow.log_metric("after", 1.0)
    (run,) = runs()
    assert run.info.run_id == mine.info.run_id
    assert {"loss", "after", "seconds"} <= set(run.data.metrics)


def test_in_one_run_steps_go_on_and_parameters_cannot_change(df, tracked, runs, make):
    autolog(log_models=False)
    with mlflow.start_run():
        forecaster = make().fit(df)
        forecaster.fit(df)
        with pytest.warns(CallbackWarning, match="Changing param values is not allowed"):
            forecaster.set_params(training__lr=0.01).fit(df)
    (run,) = runs()
    assert [step for step, _ in history(tracked, run, "loss")] == list(range(1, 2 * STEPS + 1))
    assert run.data.params["training__lr"] == "0.003"
    assert run.info.status == "FINISHED"


def test_a_fit_that_fails_leaves_a_failed_run_that_says_why(df, runs):
    autolog()
    with pytest.raises(FrameError):
        linear().fit(df.drop("y"))
    (run,) = runs()
    assert run.info.status == "FAILED"
    assert run.data.tags["tsmamba.error"].startswith("FrameError: ")


def test_a_fit_that_is_killed_leaves_what_it_did(df, tracked, runs, make):
    class Stops(Callback):
        def on_validation(self, fit, step, error):
            if step:
                raise KeyboardInterrupt

        def on_backtest(self, fit, table):
            raise KeyboardInterrupt

    autolog()
    with register(Stops()), pytest.raises(KeyboardInterrupt):
        make().cross_validation(df)
    (run,) = runs()
    assert run.info.status == "KILLED"
    assert len(history(tracked, run, "loss")) == 3


def test_fits_in_two_threads_are_two_runs(df, tracked, runs, make):
    together = threading.Barrier(2, timeout=60)

    class Waits(Callback):
        def on_step(self, fit, step, loss, network):
            together.wait()

    autolog(log_models=False)
    threads = [threading.Thread(target=make(random_state=seed).fit, args=[df]) for seed in (0, 1)]
    with register(Waits()):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    one, other = runs()
    assert {one.data.params["random_state"], other.data.params["random_state"]} == {"0", "1"}
    for run in (one, other):
        assert run.info.status == "FINISHED"
        assert [step for step, _ in history(tracked, run, "loss")] == list(range(1, STEPS + 1))


# On and off


def test_disabled_it_logs_nothing(df, runs):
    autolog()
    autolog(disable=True)
    autolog(disable=True)
    linear().fit(df)
    assert runs() == []


def test_twice_it_logs_once_by_the_later_call(df, runs, make):
    autolog(log_datasets=True, log_models=False)
    autolog(log_datasets=False, log_models=False)
    make().fit(df)
    (run,) = runs()
    assert run.inputs.dataset_inputs == []


def test_beside_the_autologging_of_pytorch_it_logs_once(df, tracked, runs, make):
    mlflow.pytorch.autolog()
    try:
        autolog(log_models=False)
        make().fit(df)
    finally:
        mlflow.pytorch.autolog(disable=True)
    (run,) = runs()
    assert [step for step, _ in history(tracked, run, "loss")] == list(range(1, STEPS + 1))


def test_of_several_processes_the_first_one_logs(df, runs, monkeypatch):
    autolog(log_models=False)
    for name, value in {"WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RANK", "1")
    linear().fit(df)
    assert runs() == []
    monkeypatch.setenv("RANK", "0")
    linear().fit(df)
    assert len(runs()) == 1


def test_of_a_process_group_the_first_one_logs(df, runs, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    autolog(log_models=False)
    MambaDetector("tiny").fit(np.zeros((5, 1)))
    assert runs() == []


def test_a_name_for_models_that_are_not_logged_is_refused():
    with pytest.raises(ParameterError, match="registers nothing"):
        autolog(log_models=False, registered_model_name="load")


def test_without_mlflow_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"tsmamba\[mlflow\]"):
        autolog()


def test_mlflow_is_not_imported_before_it_is_needed(run_python):
    code = "import sys, tsmamba.mlflow; print('mlflow' in sys.modules)"
    assert run_python("-c", code).stdout == "False\n"


# What MLflow takes


def test_parameters_longer_than_mlflow_takes_are_cut(df, runs):
    autolog(log_models=False, log_datasets=False)
    quantiles = [round(number / 2_000, 5) for number in range(1, 2_000)]
    linear(quantiles=quantiles).fit(df)
    (run,) = runs()
    logged = run.data.params["quantiles"]
    assert len(logged) == 6_000
    assert logged.endswith("…")
    assert str(quantiles).startswith(logged[:-1])


def test_losses_that_are_no_numbers_are_logged(tracked, runs):
    autolog()
    with observe("a network") as fit:
        for loss in (1.0, float("nan"), float("inf")):
            fit.step(loss, torch.nn.Identity())
    (run,) = runs()
    assert run.data.params == {}
    losses = [value for _, value in history(tracked, run, "loss")]
    assert losses[0] == 1
    assert np.isnan(losses[1])
    assert losses[2] > 1e300


def test_losses_are_sent_in_batches(tracked, runs, monkeypatch):
    sent = []
    send = mlflow.MlflowClient.log_batch

    def count(self, run_id, metrics=(), **kwargs):
        sent.append(len(metrics))
        send(self, run_id, metrics=metrics, **kwargs)

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", count)
    monkeypatch.setattr(run_module, "_PAUSE", 1e9)
    autolog()
    with observe("a network") as fit:
        for _ in range(1_990):
            fit.step(0.5, torch.nn.Identity())
    assert [count for count in sent if count] == [1_000, 992]
    (run,) = runs()
    assert len(history(tracked, run, "loss")) == 1_990


def test_a_curve_can_be_watched_while_it_grows(tracked, runs, monkeypatch):
    monkeypatch.setattr(run_module, "_PAUSE", 0.0)
    autolog()
    with observe("a network"):
        for step in (1, 2):
            current_fit().step(0.5, torch.nn.Identity())
            assert len(history(tracked, runs()[0], "loss")) == step


# What it costs, and what becomes of a fit when MLflow fails


def test_it_changes_no_number(df, make):
    def fitted():
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002  the global state is what is looked at
        forecaster = make().fit(df)
        return forecaster, torch.rand(3), np.random.rand(3)  # noqa: NPY002

    alone, *drawn = fitted()
    autolog()
    logged, *drawn_logged = fitted()
    assert_frame_equal(alone.predict(), logged.predict(), check_exact=True)
    assert torch.equal(drawn[0], drawn_logged[0])
    assert (drawn[1] == drawn_logged[1]).all()
