"""Training shared among the processes that ``torchrun`` started, with the numbers of one process.

Every process holds all series and draws the same batch. Each works on its own part of it, divides
by the weights of the whole, and the sum of all gradients is then that of the batch, whatever is
missing where. Gradients are summed here and not by ``DistributedDataParallel``, which takes the
mean of means and sees only calls of ``forward``.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from importlib import import_module
from itertools import count
from types import FrameType

import torch
from torch import Tensor, distributed, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from tsmamba.errors import ParameterError

# What torchrun sets, and whoever starts the processes in another way.
_LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# Longer than processes that began together wait for each other: their bases take seconds.
_TIMEOUT = timedelta(minutes=10)
# Machines of other makes round the same series differently.
_ALIKE = 1e-7
_JOINED = count()


class Ranks:
    """The processes that share one training.

    Parameters
    ----------
    rank : int >= 0, default 0
        Number of this process.
    size : int >= 1, default 1
        How many there are; one alone has nobody to talk to.

    Examples
    --------
    >>> Ranks(rank=1, size=2).share(5).tolist()
    [2, 3, 4]
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size
        self._own_state: Tensor | None = None
        self._interrupted = False

    def check_alike(self, facts: Mapping[str, float]) -> None:
        """Refuse processes that were given different things to train on.

        Parameters
        ----------
        facts : mapping of str to float
            What must agree, with its value here.

        Raises
        ------
        ParameterError
            On every rank, naming what differs.
        """
        if self.size == 1:
            return
        own = torch.tensor(list(facts.values()), dtype=torch.float64)
        every = [torch.empty_like(own) for _ in range(self.size)]
        distributed.all_gather(every, own)
        for name, values in zip(facts, torch.stack(every).T, strict=True):
            if not torch.allclose(values, values[0], rtol=_ALIKE, atol=0):
                seen = ", ".join(f"{value:.8g} on rank {n}" for n, value in enumerate(values))
                raise ParameterError(
                    f"the processes of this training differ in {name}: {seen}; give each of them "
                    "all series and the same parameters, the work is shared among them here"
                )

    def align(self, network: nn.Module) -> None:
        """Start everywhere from the weights and the random state of rank zero.

        Parameters
        ----------
        network : Module
            Changed in place.
        """
        if self.size == 1:
            return
        for tensor in network.state_dict().values():
            distributed.broadcast(tensor, 0)
        state = torch.get_rng_state()
        distributed.broadcast(state, 0)
        torch.set_rng_state(state)
        own = torch.Generator().manual_seed(torch.initial_seed() + 1 + self.rank)
        self._own_state = own.get_state()

    def share(self, n: int) -> Tensor:
        """Return the positions of this rank's part of ``n`` things; parts differ by one at most."""
        return torch.arange(self.rank * n // self.size, (self.rank + 1) * n // self.size)

    @contextmanager
    def own_draws(self) -> Iterator[None]:
        """Draw what belongs to a rank's part alone, such as dropout, from a stream of its own.

        What all draw alike goes on afterwards as if nothing had been drawn. A process alone has
        one stream for everything.
        """
        if self._own_state is None:
            yield
            return
        common = torch.get_rng_state()
        torch.set_rng_state(self._own_state)
        try:
            yield
        finally:
            self._own_state = torch.get_rng_state()
            torch.set_rng_state(common)

    def summed(self, values: Tensor) -> Tensor:
        """Return the sum over all ranks; ``values`` is overwritten."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def sum_gradients(
        self, network: nn.Module, loss: Tensor, *, late: bool = False
    ) -> tuple[Tensor, bool]:
        """Give the network the gradients of the whole batch; return its loss and who is late.

        All that ranks tell each other in a step goes in one message, as each costs a wait for the
        slowest.

        Parameters
        ----------
        network : Module
            After the backward pass of this rank's part of the loss.
        loss : scalar Tensor
            That part; without any windows it has no gradient, and counts as none.
        late : bool, default False
            Whether time is up here.

        Returns
        -------
        loss : scalar Tensor
            The sum of all parts.
        late : bool
            Whether time is up on any rank.

        Raises
        ------
        KeyboardInterrupt
            On every rank, if the user stopped any of them.
        """
        if self.size == 1:
            return loss.detach(), late
        trained = [each for each in network.parameters() if each.requires_grad]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
        flags = loss.new_tensor([late, self._interrupted])
        every = self.summed(parameters_to_vector([*gradients, loss.detach(), flags]))
        vector_to_parameters(every, gradients)
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.grad = gradient
        total, any_late, interrupted = every[-3:]
        if interrupted:
            raise KeyboardInterrupt
        return total, bool(any_late)

    @contextmanager
    def noting_interrupts(self) -> Iterator[None]:
        """Leave Ctrl-C to `sum_gradients`: a rank that stops alone would leave others waiting.

        Python hears signals in its main thread only; a fit in another one is not stopped.
        """
        if self.size == 1 or threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            self._interrupted = True

        before = signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


ALONE = Ranks()


def process_rank() -> int:
    """Return the number of this process among those started together, 0 for one alone.

    Examples
    --------
    >>> process_rank()
    0
    """
    if distributed.is_initialized():
        return distributed.get_rank()
    return int(os.environ["RANK"]) if _is_launched() else 0


@contextmanager
def joined(timeout: timedelta = _TIMEOUT) -> Iterator[Ranks]:
    """Join the processes that were started together, and leave them at the end.

    A process group that the user joined before is used, with its timeout, and kept.

    Parameters
    ----------
    timeout : timedelta, default 10 minutes
        How long to wait for another process.

    Yields
    ------
    Ranks
        A process alone, if there are no others.

    Examples
    --------
    >>> with joined() as ranks:
    ...     ranks.size
    1
    """
    ours = not distributed.is_initialized()
    if ours and not _is_launched():
        yield Ranks()
        return
    if ours:
        _join(timeout)
    ranks = Ranks(distributed.get_rank(), distributed.get_world_size())
    try:
        with ranks.noting_interrupts():
            yield ranks
    except RuntimeError as error:
        error.add_note(
            f"This is rank {ranks.rank} of {ranks.size} that share a training; where the "
            "connection was closed or time ran out, another one failed or is stuck: see its message"
        )
        raise
    finally:
        if ours:
            distributed.destroy_process_group()


def _join(timeout: timedelta) -> None:
    """Make the process group; a name of its own each time, as torch finds traces of the last."""
    store, rank, size = _meeting_point(timeout)
    store = PrefixStore(f"tsmamba-{next(_JOINED)}", store)
    # The first import of this module keeps the group of that moment in the defaults of its
    # functions, and an optimizer imports it. A group that lives on has threads, and one of them
    # that frees a tensor while Python ends aborts the process.
    import_module("torch.distributed.nn.functional")
    # Without a backend torch takes gloo for tensors of the CPU and nccl for those of CUDA.
    distributed.init_process_group(store=store, rank=rank, world_size=size, timeout=timeout)


@cache
def _meeting_point(timeout: timedelta) -> tuple[Store, int, int]:
    """Return the store where the processes meet, this one's number and how many there are."""
    store, rank, size = next(rendezvous("env://", timeout=timeout))
    store.set_timeout(timeout)
    return store, rank, size


def _is_launched() -> bool:
    return all(name in os.environ for name in _LAUNCHED) and int(os.environ["WORLD_SIZE"]) > 1
