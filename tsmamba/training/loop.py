"""A plain training loop: AdamW, one cycle of the learning rate, averaged weights, the best kept."""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor, nn

from tsmamba.callbacks import current_fit
from tsmamba.training.distributed import ALONE, Ranks
from tsmamba.training.settings import Training

_Network = TypeVar("_Network", bound=nn.Module)


@dataclass
class History:
    """What happened during training.

    Parameters
    ----------
    steps, windows : int
        Gradient steps done and windows seen by them.
    seconds : float
        Time spent in them, without validation.
    errors : list of (int, float)
        Validation error after so many steps, of the averaged weights.
    interrupted : bool
        Whether the user stopped training with Ctrl-C; the best weights so far are kept.
    """

    steps: int = 0
    windows: int = 0
    seconds: float = 0.0
    errors: list[tuple[int, float]] = field(default_factory=list)
    interrupted: bool = False


def train(
    network: _Network,
    settings: Training,
    batch_loss: Callable[[_Network], Tensor],
    validation_error: Callable[[_Network], float],
    on_step: Callable[[int, float], None] = lambda step, loss: None,
    ranks: Ranks = ALONE,
) -> History:
    """Train a network in place and leave it with its best averaged weights.

    The fit around it hears of every step and of every look at the validation windows.

    The best are those of least validation error; looking at the average of weights rather than at
    the weights smooths the curve that the choice is made on.

    Parameters
    ----------
    network : Module
        Left in evaluation mode.
    settings : Training
        The knobs.
    batch_loss : callable
        Draws a batch and returns the loss of the network on it: of several ranks the part of each,
        which sum to the loss.
    validation_error : callable
        Returns the error of a network on the validation windows, the same on all ranks.
    on_step : callable
        Told the number and the loss of each step.
    ranks : Ranks, optional
        The processes that share the training; all start from the weights of the first and end with
        the same.

    Returns
    -------
    History
        Steps, time and validation errors.
    """
    ranks.align(network)
    optimizer = torch.optim.AdamW(_parameter_groups(network, settings), lr=settings.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.lr, total_steps=max(settings.steps, 1)
    )
    average = copy.deepcopy(network).eval()
    fit = current_fit()
    best, least = copy.deepcopy(average.state_dict()), validation_error(average)
    fit.tell("on_validation", fit.steps, least)
    history = History(errors=[(0, least)])
    started = time.perf_counter()
    try:
        while history.steps < settings.steps:
            step_started = time.perf_counter()
            network.train()
            optimizer.zero_grad()
            loss = batch_loss(network)
            if loss.requires_grad:  # a batch smaller than the ranks leaves some without a part
                loss.backward()
            late = _is_late(started, settings.max_time)
            loss, late = ranks.sum_gradients(network, loss, late=late)
            nn.utils.clip_grad_norm_(network.parameters(), settings.clip_norm)
            optimizer.step()
            schedule.step()
            history.steps += 1
            _update_average(average, network, history.steps, settings.ema_decay)
            history.windows += settings.batch_size
            history.seconds += time.perf_counter() - step_started
            on_step(history.steps, loss.item())
            fit.step(loss.item(), network)
            last = late or history.steps == settings.steps
            if last or history.steps % settings.eval_every == 0:
                error = validation_error(average)
                history.errors.append((history.steps, error))
                fit.tell("on_validation", fit.steps, error)
                if error < least:
                    best, least = copy.deepcopy(average.state_dict()), error
            if last:
                break
    except KeyboardInterrupt:
        history.interrupted = True
    network.load_state_dict(best)
    network.eval()
    return history


def _is_late(started: float, max_time: float | None) -> bool:
    return max_time is not None and time.perf_counter() - started > max_time


def _parameter_groups(network: nn.Module, settings: Training) -> list[dict[str, object]]:
    """Decay weight matrices only: rates, skips, norms, biases and positions keep their scale."""
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for module in network.modules():
        matrix = isinstance(module, nn.Linear | nn.Conv1d)
        for name, parameter in module.named_parameters(recurse=False):
            (decayed if matrix and name == "weight" else free).append(parameter)
    return [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]


@torch.no_grad()
def _update_average(average: nn.Module, network: nn.Module, step: int, decay: float) -> None:
    """Move the average towards the network; early on faster, to forget the initial weights."""
    weight = 1 - min(decay, (step + 1) / (step + 10))
    for kept, current in zip(average.parameters(), network.parameters(), strict=True):
        kept.lerp_(current, weight)
