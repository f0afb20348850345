"""The risk after every event: the causal networks of a classifier, one event at a time."""

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tsmamba.errors import FrameError
from tsmamba.nn import FusedStack
from tsmamba.outcomes.classes import as_probabilities
from tsmamba.outcomes.fitting import Ensemble
from tsmamba.outcomes.network import RecordNetwork
from tsmamba.records.events import LARGEST, MICROSECONDS, read_time
from tsmamba.records.reader import Reader
from tsmamba.records.tokens import NEVER, bin_of

__all__ = ["Risk", "RiskStream"]

Status = Literal["ok", "prior", "late", "repeated", "out of range", "unknown code"]


class Risk(NamedTuple):
    """What is known of a stay after an event.

    Parameters
    ----------
    probabilities : ndarray of shape (K,)
        Of each class.
    status : str
        "ok"; "prior" while nothing was measured; or why the event changed nothing: "late" (before
        the bin of the event before; what is known at the start, after it), "repeated", "out of
        range" (the value, or the time before the start), "unknown code".
    """

    probabilities: np.ndarray
    status: Status


@dataclass
class _Pool:
    """The state of one network after the closed bins of a stay."""

    state: Tensor
    total: Tensor  # (1, D)
    most: Tensor  # (1, D)


@dataclass
class _Stay:
    """All that is kept of a stay; of past events, those of the open bin only."""

    carried: np.ndarray  # (V,)
    last: np.ndarray  # (V,), bin of the last measurement
    pools: list[_Pool]
    statics: dict[str, float] = field(default_factory=dict)
    start: float | None = None
    open: int | None = None
    before: int | None = None
    closed: int = 0
    values: dict[int, list[float]] = field(default_factory=dict)
    seen: set[tuple[float, str, float]] = field(default_factory=set)
    risk: np.ndarray | None = None


class RiskStream:
    """Tells the probabilities of a stay after each of its events.

    Made by `MambaClassifier.stream`. It keeps of each stay one state of fixed size and the events
    of the bin of time that is open, so an event costs the same at the end of a long stay as at its
    start, and says what `predict_proba` says of the events so far. Events of a stay must come in
    the order of time, those of one bin in any; where times are stamps, the first starts the stay.

    Parameters
    ----------
    reader : Reader
        Of the classifier.
    ensemble : Ensemble
        Its members, without trees.
    prior : ndarray of shape (K,)
        The answer before the first measurement.
    max_stays : int >= 1, default 10,000
        Of so many stays the state is kept; beyond, that which was quiet for longest is forgotten.
    """

    def __init__(
        self, reader: Reader, ensemble: Ensemble, prior: np.ndarray, max_stays: int = 10_000
    ) -> None:
        self.max_stays = max_stays
        self._reader = reader
        self._ensemble = ensemble
        self._prior = prior
        self._numbers = {code: number for number, code in enumerate(reader.vocabulary.codes)}
        self._scales = list(reader.vocabulary.codes.values())
        self._stacks = [FusedStack(member.network.stack) for member in ensemble.members]
        self._stays: OrderedDict[Any, _Stay] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of stays that are known."""
        return len(self._stays)

    def forget(self, subject_id: Any) -> None:
        """Drop a stay that has ended; one that is not known is no mistake."""
        self._stays.pop(subject_id, None)

    @torch.inference_mode()
    def observe(
        self,
        subject_id: Any,
        time: float | timedelta | datetime | date | None,
        code: str,
        numeric_value: float | None = None,
    ) -> Risk:
        """Take in an event and tell the probabilities.

        Parameters
        ----------
        subject_id : hashable
            The stay.
        time : float, timedelta, datetime or date
            As in the column of times of the fit: a stamp, or the time since the start of the stay.
            None for codes that came without a time there.
        code : str
            What was measured or happened.
        numeric_value : float, optional
            Its value, in the units of the fit.

        Returns
        -------
        Risk
            Of the stay after the event.

        Raises
        ------
        FrameError
            If the value or the time is not a finite number; nothing is changed then.
        """
        value = self._value(code, numeric_value)
        at_start = time is None and code in self._reader.rules.untimed
        clock, from_zero = (0.0, True) if at_start else read_time(time)
        stay = self._stays.get(subject_id) or self._new_stay()
        self._stays[subject_id] = stay
        self._stays.move_to_end(subject_id)
        if len(self._stays) > self.max_stays:
            self._stays.popitem(last=False)
        status = self._take(stay, clock, code, value, from_zero=from_zero)
        if status == "ok":
            stay.risk = self._risk(stay)
        if stay.risk is None:
            return Risk(self._prior, "prior" if status == "ok" else status)
        return Risk(stay.risk, status)

    def _new_stay(self) -> _Stay:
        count = len(self._scales)
        pools = []
        for stack, member in zip(self._stacks, self._ensemble.members, strict=True):
            width = member.network.config.d_model
            least = torch.full((1, width), -torch.inf)
            pools.append(_Pool(stack.init_state(1), torch.zeros(1, width), least))
        return _Stay(np.zeros(count, np.float32), np.full(count, -1), pools)

    def _value(self, code: str, given: float | None) -> float:
        """Return the value of an event as a number."""
        if given is None and code in self._reader.rules.happenings:
            return 1.0
        try:
            value = float(given)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not abs(value) <= LARGEST:
            raise FrameError(f"{code!r} has the value {given!r}; pass a finite number")
        return value

    def _take(
        self, stay: _Stay, clock: float, code: str, given: float, *, from_zero: bool
    ) -> Status:
        """Take an event in, or say why not."""
        rules = self._reader.rules
        since = clock
        if not from_zero:
            stay.start = clock if stay.start is None else stay.start
            since = round((clock - stay.start) * MICROSECONDS) / MICROSECONDS
        value = rules.mend(code, given)
        if value is None or not rules.is_possible(since):
            return "out of range"
        if code in self._reader.vocabulary.statics:
            late = since > 0 or stay.closed > 0
            if not late:
                stay.statics[code] = min(value, stay.statics.get(code, value))
            return "late" if late else "ok"
        if code not in self._numbers:
            return "unknown code"
        place = int(bin_of(np.array(since), self._reader.width))
        if stay.open is not None and place < stay.open:
            return "late"
        if stay.open is not None and place > stay.open:
            self._close(stay)
        stay.open = place
        if (since, code, given) in stay.seen:
            return "repeated"
        stay.seen.add((since, code, given))
        number = self._numbers[code]
        scaled = float(self._scales[number](np.array(value)))
        stay.values.setdefault(number, []).append(scaled)
        return "ok"

    def _token(self, stay: _Stay) -> tuple[Tensor, Tensor, float]:
        """Return values, bins since each was measured, and the bins that the open one took."""
        values = stay.carried.copy()
        last = stay.last.copy()
        for number, measured in stay.values.items():
            values[number] = sum(measured) / len(measured)
            last[number] = stay.open
        since = np.where(last < 0, NEVER, np.minimum((stay.open or 0) - last, NEVER - 1))
        elapsed = 1 if stay.before is None else (stay.open or 0) - stay.before
        return torch.from_numpy(values), torch.from_numpy(since.astype(np.uint8)), float(elapsed)

    def _statics(self, stay: _Stay) -> Tensor:
        parts = [np.zeros((1, 0), np.float32)]
        for code, static in self._reader.vocabulary.statics.items():
            parts.append(static.features(np.array([stay.statics.get(code, np.nan)])))
        return torch.from_numpy(np.concatenate(parts, 1))

    def _encoded(
        self, network: RecordNetwork, stack: FusedStack, state: Tensor, stay: _Stay
    ) -> tuple[Tensor, Tensor | None]:
        """Advance `state` by the open bin; return what the stack says there, and the statics."""
        values, since, elapsed = self._token(stay)
        statics = None
        if network.embed_statics is not None:
            statics = network.embed_statics(self._statics(stay))
        token = network.tokens(values[None, None], since[None, None], statics)[:, 0]
        passed = network.passed(torch.tensor([elapsed]))
        return stack.step(token, state, delta_scale=passed), statics

    def _close(self, stay: _Stay) -> None:
        """Take the open bin into the states."""
        for member, stack, pool in zip(
            self._ensemble.members, self._stacks, stay.pools, strict=True
        ):
            encoded, _ = self._encoded(member.network, stack, pool.state, stay)
            pool.total += encoded
            torch.maximum(pool.most, encoded, out=pool.most)
        for number, measured in stay.values.items():
            stay.carried[number] = sum(measured) / len(measured)
            stay.last[number] = stay.open
        stay.before = stay.open
        stay.closed += 1
        stay.values.clear()
        stay.seen.clear()

    def _risk(self, stay: _Stay) -> np.ndarray | None:
        """Return the probabilities with the open bin as it is; None if nothing was measured."""
        if stay.open is None:
            return None
        outputs = []
        for member, stack, pool in zip(
            self._ensemble.members, self._stacks, stay.pools, strict=True
        ):
            network = member.network
            encoded, statics = self._encoded(network, stack, pool.state.clone(), stay)
            mean = (pool.total + encoded) / (stay.closed + 1)
            pooled = torch.cat([mean, torch.maximum(pool.most, encoded), encoded], -1)
            outputs.append(network.answer(pooled, statics).double().numpy())
        risk: np.ndarray = as_probabilities(self._ensemble.settled(np.mean(outputs, 0)))[0]
        return risk
