"""What a fit tells whoever listens: its start, each step of training, its end or its error.

Subclass `Callback`, override what you want to hear, and hand it to `register`. The registry is that
of the process: every estimator tells it, in every thread, and nothing is handed to an estimator.

A call made inside another one is part of it. `cross_validation` with ``refit=True`` fits a clone
for each origin, and still is one `Fit`: one start, steps that are counted on from network to
network, one end. `observe` makes one `Fit` of whatever else fits several times, such as a search of
scikit-learn. A callback that fails is told as a warning and fails no fit.
"""

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from torch import nn

from tsmamba.errors import CallbackWarning, ParameterError

__all__ = ["Callback", "Fit", "current_fit", "observe", "observed", "register"]

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Callback:
    """What listens to fits; each method does nothing until it is overridden.

    Methods are called in the thread of the fit, which waits for them. What they raise becomes a
    warning, the first time in each fit; ``KeyboardInterrupt`` alone goes through and, from a step
    on, ends the training with the best weights so far.

    Examples
    --------
    >>> import numpy as np
    >>> from tsmamba import MambaDetector
    >>> class Says(Callback):
    ...     def on_fit_end(self, fit):
    ...         print(type(fit.estimator).__name__, fit.call, len(fit.data))
    >>> with register(Says()):
    ...     detector = MambaDetector(preset="tiny").fit(np.zeros((10, 1)))
    MambaDetector fit 10
    """

    def on_fit_start(self, fit: "Fit") -> None:
        """Hear that a fit begins, before its arguments are checked.

        Parameters
        ----------
        fit : Fit
            The same object in all calls about one fit.
        """

    def on_step(self, fit: "Fit", step: int, loss: float, network: nn.Module) -> None:
        """Hear of a training step.

        Parameters
        ----------
        fit : Fit
            The fit.
        step : int >= 1
            Steps of the fit so far, this one included.
        loss : float
            Of the batch of this step.
        network : Module
            What is being trained, after the step, with the gradients of the step.
        """

    def on_validation(self, fit: "Fit", step: int, error: float) -> None:
        """Hear of a look at the validation windows.

        Parameters
        ----------
        fit : Fit
            The fit.
        step : int >= 0
            Steps of the fit so far; the first look is taken before any.
        error : float
            Of the averaged weights.
        """

    def on_backtest(self, fit: "Fit", table: Any) -> None:
        """Hear the forecasts of a cross-validation.

        Parameters
        ----------
        fit : Fit
            The fit, whose call is "cross_validation".
        table : frame
            What the call will return.
        """

    def on_fit_end(self, fit: "Fit") -> None:
        """Hear that a fit succeeded; its estimator is fitted.

        Parameters
        ----------
        fit : Fit
            The fit.
        """

    def on_fit_error(self, fit: "Fit", error: BaseException) -> None:
        """Hear that a fit failed, in place of `on_fit_end`.

        Parameters
        ----------
        fit : Fit
            The fit.
        error : BaseException
            What it raises.
        """


@dataclass(eq=False)
class Fit:
    """One call that fits, and everything that it did.

    Parameters
    ----------
    estimator : object
        What was called.
    data : object
        What it was given.
    call : str
        Name of the method: "fit", "partial_fit" or "cross_validation".
    callbacks : tuple of Callback
        Who hears of it: those that were registered when it began, to the end.
    steps : int
        Training steps so far, of all networks.
    """

    estimator: Any
    data: Any = None
    call: str = "fit"
    callbacks: tuple[Callback, ...] = ()
    steps: int = 0
    _failed: set[int] = field(default_factory=set, init=False, repr=False)

    def step(self, loss: float, network: nn.Module) -> None:
        """Tell that a network was trained for one more step.

        Parameters
        ----------
        loss : float
            Of the step.
        network : Module
            After it.
        """
        self.steps += 1
        self.tell("on_step", self.steps, loss, network)

    def tell(self, event: str, *about: Any) -> None:
        """Call a method of each callback.

        Parameters
        ----------
        event : str
            Its name.
        *about
            Arguments after the fit.
        """
        for callback in self.callbacks:
            try:
                getattr(callback, event)(self, *about)
            except Exception as error:
                if id(callback) in self._failed:
                    continue
                self._failed.add(id(callback))
                warnings.warn(
                    f"{type(callback).__name__}.{event} failed, and the fit goes on without it: "
                    f"{type(error).__name__}: {error}",
                    CallbackWarning,
                    stacklevel=2,
                )


_registered: dict[object, Callback] = {}
_current: ContextVar[Fit | None] = ContextVar("current fit", default=None)


def register(callback: Callback) -> ExitStack:
    """Let a callback hear of all fits that begin from now on, in all threads.

    Parameters
    ----------
    callback : Callback
        What listens.

    Returns
    -------
    ExitStack
        Its ``close()`` unregisters the callback, and so does the end of a ``with`` block.

    Raises
    ------
    ParameterError
        If it is no `Callback`.

    Examples
    --------
    >>> registered = register(Callback())
    >>> registered.close()
    """
    if not isinstance(callback, Callback):
        raise ParameterError(
            f"callback={callback!r}; pass an instance of a subclass of tsmamba.callbacks.Callback"
        )
    key, undo = object(), ExitStack()
    _registered[key] = callback
    undo.callback(_registered.pop, key)
    return undo


def current_fit() -> Fit:
    """Return the fit that this thread is in; outside of any, one that nobody hears of.

    Examples
    --------
    >>> current_fit().callbacks
    ()
    """
    return _current.get() or Fit(None)


@contextmanager
def observe(estimator: Any, data: Any = None, call: str = "fit") -> Iterator[Fit]:
    """Make one `Fit` of everything that this thread fits inside.

    Parameters
    ----------
    estimator : object
        What to name as its estimator.
    data : object, optional
        What is fitted on.
    call : str, default "fit"
        What is called.

    Yields
    ------
    Fit
        The new one, or the one around it.

    Examples
    --------
    >>> import numpy as np
    >>> from tsmamba import MambaDetector
    >>> class Count(Callback):
    ...     fits = 0
    ...     def on_fit_end(self, fit):
    ...         self.fits += 1
    >>> with register(Count()) as _, observe("all channels") as fit:
    ...     for x in np.zeros((3, 10, 1)):
    ...         detector = MambaDetector(preset="tiny").fit(x)
    >>> fit.callbacks[0].fits
    1
    """
    around = _current.get()
    if around is not None:
        yield around
        return
    fit = Fit(estimator, data, call, tuple(_registered.values()))
    token = _current.set(fit)
    try:
        fit.tell("on_fit_start")
        yield fit
    except BaseException as error:
        fit.tell("on_fit_error", error)
        raise
    else:
        fit.tell("on_fit_end")
    finally:
        _current.reset(token)


def observed(method: _Method) -> _Method:
    """Make each call of a method a `Fit`: of its object, and of its first argument as the data.

    Parameters
    ----------
    method : callable
        A method that fits.

    Returns
    -------
    callable
        The method, of the same signature.
    """
    first = list(inspect.signature(method).parameters)[1]

    @functools.wraps(method)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        data = args[0] if args else kwargs.get(first)
        with observe(self, data, method.__name__):
            return method(self, *args, **kwargs)

    return cast(_Method, told)
