"""The knobs of training, as a nested estimator."""

from numbers import Integral, Real

from sklearn.base import BaseEstimator

from tsmamba.errors import ParameterError

# What each knob accepts: its kind, its least value, whether that is accepted itself, and the end.
_ACCEPTED: dict[str, tuple[type, float, bool, float]] = {
    "max_steps": (Integral, 0, True, float("inf")),
    "max_time": (Real, 0, False, float("inf")),
    "batch_size": (Integral, 1, True, float("inf")),
    "lr": (Real, 0, False, float("inf")),
    "weight_decay": (Real, 0, True, float("inf")),
    "ema_decay": (Real, 0, True, 1),
    "clip_norm": (Real, 0, False, float("inf")),
    "eval_every": (Integral, 1, True, float("inf")),
}

_DEFAULT_STEPS = 400
_LOSSES = ("absolute", "squared", "student-t")


class Training(BaseEstimator):
    """How long and how fast to train.

    Pass one to an estimator to change its training; being an estimator itself, its parameters are
    reached by ``set_params(training__lr=...)`` and by a grid search.

    Parameters
    ----------
    max_steps : int >= 0, optional
        Gradient steps of each training; 400 by default, 200 where a forecaster trains four times.
    max_time : float > 0, optional
        Seconds after which training ends early, whatever the steps; trainings of one fit share
        them. The result then depends on the speed of the machine.
    batch_size : int >= 1, default 64
        Windows of a step.
    lr : float > 0, default 3e-3
        Greatest learning rate; it rises and falls once over the steps.
    weight_decay : float >= 0, default 0.05
        Decay of weight matrices; step sizes, decay rates, norms and biases have none.
    ema_decay : float in [0, 1), default 0.98
        Smoothing of the weights over steps; the smoothed weights are kept.
    clip_norm : float > 0, default 1.0
        Greatest norm of a gradient.
    eval_every : int >= 1, default 50
        Steps between two looks at the validation windows.
    loss : {"absolute", "squared", "student-t"}, default "absolute"
        What to minimise: the absolute or the squared error, or the negative log likelihood of
        Student's t. The last one also learns how wide errors spread in each situation, which
        intervals then follow where that makes them better.

    Examples
    --------
    >>> from tsmamba import MambaForecaster, Training
    >>> MambaForecaster(training=Training(max_steps=50)).set_params(training__lr=1e-3).training
    Training(lr=0.001, max_steps=50)
    """

    def __init__(
        self,
        *,
        max_steps: int | None = None,
        max_time: float | None = None,
        batch_size: int = 64,
        lr: float = 3e-3,
        weight_decay: float = 0.05,
        ema_decay: float = 0.98,
        clip_norm: float = 1.0,
        eval_every: int = 50,
        loss: str = "absolute",
    ) -> None:
        self.max_steps = max_steps
        self.max_time = max_time
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.ema_decay = ema_decay
        self.clip_norm = clip_norm
        self.eval_every = eval_every
        self.loss = loss

    @property
    def steps(self) -> int:
        """Gradient steps to do."""
        return _DEFAULT_STEPS if self.max_steps is None else self.max_steps

    def check(self) -> None:
        """Refuse knobs out of range, before any work.

        Raises
        ------
        ParameterError
            Naming the knob, what came and what is accepted.

        Examples
        --------
        >>> Training(max_steps=10).check()
        """
        if self.loss not in _LOSSES:
            accepted = ", ".join(map(repr, _LOSSES))
            raise ParameterError(f"training: loss={self.loss!r}; pass one of {accepted}")
        for name, (kind, least, included, end) in _ACCEPTED.items():
            value = getattr(self, name)
            if value is None and name in ("max_steps", "max_time"):
                continue
            whole = kind is Integral
            usable = isinstance(value, kind) and not isinstance(value, bool)
            if usable and least <= value < end and (included or value > least):
                continue
            number = "a whole number" if whole else "a number"
            bound = f"of at least {least}" if included else f"above {least}"
            below = "" if end == float("inf") else f" and below {end}"
            raise ParameterError(f"training: {name}={value!r}; pass {number} {bound}{below}")
