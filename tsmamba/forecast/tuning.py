"""What training may change of a corrector: all of it, or a part."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from sklearn.base import clone

from tsmamba.errors import ParameterError
from tsmamba.forecast.defaults import check_parameters
from tsmamba.forecast.network import Corrector
from tsmamba.nn import Mamba, add_lora, merge_lora
from tsmamba.nn.lora import check_lora
from tsmamba.training import History, Training

Method = Literal["full", "head", "ssm-frozen", "lora"]
Progress = Callable[[int, float], None]
# Trains what is not frozen.
Train = Callable[[Corrector, Training, Progress], History]

_WARMUP_LR = 1e-5


@dataclass(frozen=True)
class Tuning:
    """Which weights of a corrector are trained.

    Parameters
    ----------
    method : {"full", "head", "ssm-frozen", "lora"}, default "full"
        All; the output heads; all but rates, skips, step sizes and selection of the scans; or
        low-rank matrices beside the selection, and the output heads.
    warmup_steps : int >= 0, default 0
        Steps before the others in which the decay rates alone are trained, at a greatest learning
        rate of 1e-5. Only with "full": the other methods freeze them.
    rank : int >= 1, default 8
        Of the low-rank matrices.
    alpha : float > 0, default 16
        They count by ``alpha / rank``.

    Examples
    --------
    >>> Tuning("lora", rank=4).check()
    """

    method: Method = "full"
    warmup_steps: int = 0
    rank: int = 8
    alpha: float = 16.0

    def check(self) -> None:
        """Refuse what makes no sense, before any work.

        Raises
        ------
        ParameterError
            Naming the parameter, what came and what is accepted.
        """
        if self.method not in get_args(Method):
            accepted = ", ".join(map(repr, get_args(Method)))
            raise ParameterError(f"method={self.method!r}; pass one of {accepted}")
        check_lora(self.rank, self.alpha)
        check_parameters(least=0, warmup_steps=self.warmup_steps)
        if self.warmup_steps and self.method != "full":
            raise ParameterError(
                f"warmup_steps={self.warmup_steps} trains the decay rates, which "
                f"method={self.method!r} freezes; leave it out or pass method='full'"
            )

    def train(
        self, corrector: Corrector, settings: Training, train: Train, on_step: Progress
    ) -> History:
        """Train a corrector in place.

        Parameters
        ----------
        corrector : Corrector
            Where to start from; it has the same parameters afterwards.
        settings : Training
            Knobs of the training.
        train : callable
            Trains what is not frozen.
        on_step : callable
            Told the number and the loss of each step, those of the warm-up first.

        Returns
        -------
        History
            Of the training after the warm-up, unless the user ended that.
        """
        mixers = [module for module in corrector.modules() if isinstance(module, Mamba)]
        if self.warmup_steps:
            corrector.requires_grad_(False)
            for mixer in mixers:
                mixer.A_log.requires_grad_(True)
            warmup = clone(settings).set_params(max_steps=self.warmup_steps, lr=_WARMUP_LR)
            history = train(corrector, warmup, on_step)
            if history.interrupted:
                return history
        self._freeze(corrector, mixers)
        history = train(
            corrector, settings, lambda step, loss: on_step(self.warmup_steps + step, loss)
        )
        merge_lora(corrector)
        return history

    def _freeze(self, corrector: Corrector, mixers: list[Mamba]) -> None:
        """Leave open to training what the method trains."""
        corrector.requires_grad_(self.method in ("full", "ssm-frozen"))
        if self.method == "ssm-frozen":
            for mixer in mixers:
                frozen = [*mixer.x_proj.parameters(), *mixer.dt_proj.parameters()]
                for parameter in (mixer.A_log, mixer.D, *frozen):
                    parameter.requires_grad_(False)
        if self.method == "lora":
            add_lora(corrector, self.rank, self.alpha)
        if self.method in ("head", "lora"):
            for parameter in corrector.head_parameters():
                parameter.requires_grad_(True)
