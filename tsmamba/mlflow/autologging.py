"""`autolog`: every fit becomes an MLflow run, without a further line of code."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from tsmamba._optional import require
from tsmamba.callbacks import Callback, Fit, register
from tsmamba.errors import ParameterError
from tsmamba.mlflow.run import Contents, FitRun, impatient
from tsmamba.training import process_rank

# Holds the callback that is on.
_registration = ExitStack()


def autolog(
    *,
    log_models: bool = True,
    log_datasets: bool = True,
    disable: bool = False,
    silent: bool = False,
    registered_model_name: str | None = None,
) -> None:
    """Log every fit that begins from now on to MLflow, until it is disabled.

    A fit is logged into the active run of its thread, or else into a run of its own, which ends
    with it: as ``FAILED`` if the fit raises. Trouble with MLflow is told as one warning and fails
    no fit. Of several processes started by ``torchrun`` the first one logs.

    Parameters
    ----------
    log_models : bool, default True
        Whether to log the fitted estimator.
    log_datasets : bool, default True
        Whether to log the name, schema and digest of the frame.
    disable : bool, default False
        Switch off what an earlier call switched on.
    silent : bool, default False
        Whether to keep quiet about trouble with MLflow, too.
    registered_model_name : str, optional
        Register each model as a new version under this name.

    Raises
    ------
    MissingExtraError
        Without MLflow.
    ParameterError
        If a name for models is given and they are not logged.

    Examples
    --------
    >>> autolog(log_models=False)
    >>> autolog(disable=True)
    """
    if registered_model_name is not None and not log_models:
        raise ParameterError(
            f"registered_model_name={registered_model_name!r} with log_models=False registers "
            "nothing; leave one of them out"
        )
    if not disable:
        require("mlflow", "mlflow")
    _registration.close()
    if not disable:
        contents = Contents(log_models, log_datasets, registered_model_name)
        _registration.enter_context(register(MlflowCallback(contents, silent=silent)))


@dataclass(eq=False)
class MlflowCallback(Callback):
    """Logs fits to MLflow; `autolog` registers one.

    Parameters
    ----------
    contents : Contents
        What to log beside parameters and numbers.
    silent : bool
        Whether to say nothing of what fails.
    """

    contents: Contents
    silent: bool = False
    _runs: dict[Fit, FitRun] = field(default_factory=dict, init=False, repr=False)

    def on_fit_start(self, fit: Fit) -> None:
        """Open a run, or use the active one, and log parameters and data."""
        if process_rank() == 0:
            self._runs[fit] = FitRun(fit, self.contents)
            self._attempt(fit, FitRun.start)

    def on_step(self, fit: Fit, step: int, loss: float, network: nn.Module) -> None:
        """Log the loss."""
        self._add(fit, "loss", loss, step)

    def on_validation(self, fit: Fit, step: int, error: float) -> None:
        """Log the error."""
        self._add(fit, "validation_loss", error, step)

    def on_backtest(self, fit: Fit, table: Any) -> None:
        """Log the table, a picture and the mean errors."""
        self._attempt(fit, lambda run: run.log_backtest(table))

    def on_fit_end(self, fit: Fit) -> None:
        """Log the report and the model, and end the run."""
        self._attempt(fit, FitRun.log_result)
        self._attempt(fit, lambda run: run.end("FINISHED"))
        self._runs.pop(fit, None)

    def on_fit_error(self, fit: Fit, error: BaseException) -> None:
        """End the run as failed."""
        status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        self._attempt(fit, lambda run: run.log_error(error))
        self._attempt(fit, lambda run: run.end(status))
        self._runs.pop(fit, None)

    def _add(self, fit: Fit, name: str, value: float, step: int) -> None:
        run = self._runs.get(fit)
        if run is not None and run.add(name, value, step):
            self._attempt(fit, FitRun.send)

    def _attempt(self, fit: Fit, action: Callable[[FitRun], None]) -> None:
        """Do something with the run of a fit; after the first failure, nothing more.

        Another call would only let the fit wait again.
        """
        run = self._runs.get(fit)
        if run is None:
            return
        with impatient():
            try:
                action(run)
            except Exception:
                del self._runs[fit]
                with suppress(Exception):
                    run.end("FAILED")
                if not self.silent:
                    raise
