"""What a fit on events keeps, and how it answers."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tsmamba.data.frame import frame_kind, to_native, to_polars
from tsmamba.errors import FrameError
from tsmamba.forecast.columns import POINT, Bands
from tsmamba.forecast.events.blending import LEVELS
from tsmamba.forecast.events.fitting import Ensemble, HeldOut, fit_ensemble
from tsmamba.forecast.events.network import EventConfig
from tsmamba.forecast.events.questions import Origins, Questions, ask_all, read_questions
from tsmamba.forecast.events.record import Record, Targets
from tsmamba.records.events import EventColumns, Events, Repairs, brief, read_events
from tsmamba.records.reader import Reader
from tsmamba.training import Training
from tsmamba.training.drawing import training_of

__all__ = ["EventModel", "fit_events"]

_BINS = 24
_MOST_CODES = 128
_FOLDS = 5
_EPOCHS = 8
_USUAL = Training(lr=3e-3, ema_decay=0.99)
_SHOWN = 5


@dataclass(frozen=True)
class EventModel:
    """A fitted forecaster of events.

    Parameters
    ----------
    reader : Reader
        How frames become tokens.
    ensemble : Ensemble
        What forecasts them.
    usual : ndarray of shape (V, len(LEVELS))
        Quantiles of the values of each code, standardised, for stays without a measurement.
    """

    reader: Reader
    ensemble: Ensemble
    usual: NDArray[np.float64]

    @property
    def horizon(self) -> int:
        """Bins ahead."""
        return self.ensemble.members[0].network.config.horizon

    @property
    def codes(self) -> list[str]:
        """What can be forecast."""
        return list(self.reader.vocabulary.codes)

    def answer(
        self, df: Any, X_df: Any, columns: EventColumns, bands: Bands, horizon: int
    ) -> tuple[Any, Repairs]:
        """Forecast stays.

        Parameters
        ----------
        df : frame
            Their events.
        X_df : frame or None
            Rows to answer; by default every code at the end of each bin.
        columns : EventColumns
            Names of the columns.
        bands : Bands
            Quantiles.
        horizon : int
            Bins ahead, at most those of the fit.

        Returns
        -------
        frame
            Of the library of `df`.
        Repairs
            What there is to warn of.

        Raises
        ------
        FrameError
            If a frame cannot be used.
        """
        repairs = Repairs()
        given = read_events(df, columns, repairs)
        cleaned = self.reader.clean(given, repairs)
        origins = self._origins(given, cleaned, df, columns.time_col)
        if X_df is None:
            questions = ask_all(origins, columns, self.codes, horizon)
        else:
            questions = read_questions(X_df, origins, columns, self.codes, horizon, repairs)
        bare = cleaned.ids.filter(pl.Series(origins.last < 0))
        names = ", ".join(brief(repr(name)) for name in bare.head(_SHOWN))
        told = "a stay without measurement, answered with usual values"
        repairs.note(told, len(bare), names, grave=True)
        found = self._columns(cleaned, origins, questions, bands)
        frame = questions.rows.with_columns(
            pl.Series(name, values, nan_to_null=True) for name, values in found.items()
        )
        kind = frame_kind(df)
        if origins.like == pl.Date:  # a stamp within a day is none
            kind = type(kind)(kind.library)
        return to_native(frame, kind), repairs

    def _origins(self, given: Events, cleaned: Events, df: Any, time_col: str) -> Origins:
        measured = cleaned.rows.filter(pl.col("code").is_in(self.codes))
        latest = measured.group_by("stay").agg(pl.col("time").max())
        last = np.full(len(cleaned.ids), -1.0)
        last[latest["stay"].to_numpy()] = latest["time"].to_numpy()
        return Origins(
            given.ids,
            self.reader.rules.starts(given).to_numpy(),
            last,
            self.reader.width,
            to_polars(df, [time_col])[time_col].dtype,
        )

    def _columns(
        self, cleaned: Events, origins: Origins, asked: Questions, bands: Bands
    ) -> dict[str, NDArray[np.float64]]:
        """Return the forecasts and their quantiles, row by row."""
        there = origins.last >= 0
        shape = len(there), self.horizon, len(self.codes)
        tables = {POINT: np.zeros(shape), **{name: np.zeros(shape) for name, _ in bands.columns}}
        for name, level in bands.columns:
            tables[name][:] = [np.interp(level, LEVELS, row) for row in self.usual]
        if there.any():
            said = self.ensemble.said(Record.of(cleaned.only(there), self.reader))
            points = self.ensemble.blend.points(said.values, said.age)
            tables[POINT][there] = points
            for name, level in bands.columns:
                tables[name][there] = points + self.ensemble.blend.away(said.age, level)
        answered = asked.step > 0
        place = asked.stay, np.maximum(asked.step, 1) - 1, asked.code
        found = {}
        for name, table in tables.items():
            values = table[place]
            for number, scale in enumerate(self.reader.vocabulary.codes.values()):
                here = asked.code == number
                values[here] = scale.undo(values[here])
            found[name] = np.where(answered, values, np.nan)
        return found


def fit_events(
    df: Any,
    columns: EventColumns,
    horizon: int,
    training: Training | None,
    on_step_of: Callable[[int], AbstractContextManager[Callable[[int, float], None]]],
) -> tuple[EventModel, dict[str, Any], Repairs]:
    """Fit on a frame of events.

    Parameters
    ----------
    df : frame
        Events of many stays.
    columns : EventColumns
        Names of its columns.
    horizon : int >= 1
        Bins ahead.
    training : Training, optional
        Knobs of the user.
    on_step_of : callable
        Makes a context manager of a number of steps, which gives what is told of each.

    Returns
    -------
    EventModel
        Fitted.
    dict
        The report.
    Repairs
        What there is to warn of.

    Raises
    ------
    FrameError
        If the frame cannot be used, holds too few stays, or nothing is measured again in time.
    """
    started = time.perf_counter()
    repairs = Repairs()
    given = read_events(df, columns, repairs)
    reader, cleaned = Reader.learn(given, _BINS, _MOST_CODES, repairs)
    there = reader.measured(cleaned)
    if there.sum() < 2 * _FOLDS:
        raise FrameError(
            f"stays with a measurement: {there.sum()}; a forecast of events is learned from "
            f"{2 * _FOLDS} and more, so pass the events of more stays"
        )
    record = Record.of(cleaned.only(there), reader)
    tokens = record.tokens
    config = EventConfig(tokens.values.shape[1], tokens.statics.shape[1], horizon)
    learned = len(tokens) * (_FOLDS - 1) // _FOLDS
    knobs = training_of(training, _USUAL, learned, _EPOCHS * learned)
    targets = _targets(record, horizon, reader.width)
    with on_step_of(_FOLDS * knobs.steps) as on_step:
        ensemble, held_out = fit_ensemble(targets, config, knobs, _FOLDS, on_step)
    new = (tokens.since == 0).numpy()
    values = tokens.values.numpy()
    usual = np.stack([np.quantile(values[new[:, v], v], LEVELS) for v in range(new.shape[1])])
    model = EventModel(reader, ensemble, usual)
    report = {
        "stays": len(there),
        "without_measurement": int((~there).sum()),
        "model": "mamba, linear and the last value",
        "bin": reader.width,
        "repairs": repairs.counts,
        "held_out": _told(held_out, model.codes),
        "seconds": time.perf_counter() - started,
    }
    return model, report, repairs


def _targets(record: Record, horizon: int, width: float) -> Targets:
    """Return what follows each token, or say that nothing does."""
    targets = Targets.of(record, horizon)
    if (targets.place >= 0).any():
        return targets
    gaps = record.tokens.bins().diff()[record.tokens.owners().diff() == 0]
    repair = "a stay needs measurements in two bins of time"
    if len(gaps):
        repair = f"pass horizon={int(gaps.min())} or more"
    raise FrameError(
        f"nothing is measured again within {horizon} bins of {width:.4g}, so there is nothing to "
        f"learn from; {repair}"
    )


def _told(held_out: HeldOut, codes: list[str]) -> dict[str, Any]:
    """Return errors in standard deviations, of all values and by code."""
    share = held_out.count / max(held_out.count.sum(), 1)
    return {
        "mae": float(held_out.error @ share),
        "mae_carried_forward": float(held_out.carried @ share),
        "codes": {
            code: {
                "mae": float(held_out.error[number]),
                "mae_carried_forward": float(held_out.carried[number]),
                "values": int(held_out.count[number]),
            }
            for number, code in enumerate(codes)
        },
    }
