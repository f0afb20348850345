"""Where the corrector of a fit comes from."""

from dataclasses import dataclass, field, replace

from sklearn.base import clone

from tsmamba.forecast.network import Corrector, CorrectorConfig
from tsmamba.forecast.tuning import Tuning
from tsmamba.training import Training

# By default. The mean of several networks has as much of the data in it as one of twice the steps.
_STEPS_OF_SEVERAL = 200


@dataclass(frozen=True)
class Recipe:
    """Where the corrector comes from.

    Parameters
    ----------
    config : CorrectorConfig, optional
        Its shape; without one only the base is fitted.
    pretrained : Corrector, optional
        Used as it is if ``training`` is None. Otherwise the one trained starts from it, if their
        shapes agree, and has to be better than it.
    training : Training, optional
        Knobs of its training.
    tuning : Tuning
        Which weights that trains; all by default.
    """

    config: CorrectorConfig | None = None
    pretrained: Corrector | None = None
    training: Training | None = None
    tuning: Tuning = field(default_factory=Tuning)

    def as_it_came(self) -> "Recipe":
        """Return the same without training, which leaves a pretrained corrector as it is."""
        config = None if self.pretrained is None else self.pretrained.config
        return replace(self, config=config, training=None)

    def starting_from(self, present: Corrector | None) -> "Recipe":
        """Return the same with another corrector to start from, if both have one."""
        if self.config is None or present is None:
            return self
        config = replace(present.config, spread=self.config.spread)
        return replace(self, config=config, pretrained=present)

    def steps(self, n_trainings: int) -> int:
        """Gradient steps of some trainings."""
        return (
            0
            if self.training is None
            else n_trainings * (self.tuning.warmup_steps + self.settings(n_trainings).steps)
        )

    def settings(self, n_trainings: int) -> Training:
        """Return the knobs of each of some trainings, which share the time."""
        settings: Training = clone(self.training or Training())
        if settings.max_steps is None and n_trainings > 1:
            settings.set_params(max_steps=_STEPS_OF_SEVERAL)
        if settings.max_time is not None:
            settings.set_params(max_time=settings.max_time / n_trainings)
        return settings
