"""Why a stay gets its answer: the part of each measurement, beside the same stay with usual values.

The reference is the stay itself with every value replaced by a usual one: what was measured, and
when, stays as it is. So a part says what was unusual in a value, not that somebody measured it,
and the reference is a stay that can be, unlike one without measurements.
"""

from typing import Any

import numpy as np
import polars as pl

from tsmamba.data.frame import FrameKind, frame_kind, to_native, to_polars
from tsmamba.errors import ParameterError
from tsmamba.outcomes.fitting import Ensemble
from tsmamba.outcomes.gradients import integrated_gradients
from tsmamba.outcomes.shapley import shapley_values
from tsmamba.records.events import EventColumns, Events, Repairs, read_events
from tsmamba.records.reader import Reader
from tsmamba.records.summaries import summarise
from tsmamba.records.tokens import bin_of, tokenise
from tsmamba.records.vocabulary import Vocabulary

__all__ = ["as_times", "class_number", "explain_events", "explain_frame", "usual_events"]

_MILLISECONDS = 3_600_000  # of an hour


def class_number(label: Any, classes: np.ndarray) -> int:
    """Return the place of a class.

    Parameters
    ----------
    label : object
        The class; None is the second of two.
    classes : ndarray of shape (K,)
        Of the fit.

    Returns
    -------
    int
        Its place among them.

    Raises
    ------
    ParameterError
        If there is no such class, or none is named where there are more than two.

    Examples
    --------
    >>> class_number("ill", np.array(["ill", "well"]))
    0
    """
    if label is None and len(classes) == 2:
        return 1
    if label not in classes.tolist():
        raise ParameterError(f"label={label!r}; pass one of {', '.join(map(repr, classes))}")
    return int(np.flatnonzero(classes == label)[0])


def usual_events(events: Events, vocabulary: Vocabulary) -> Events:
    """Return the same events with usual values.

    Parameters
    ----------
    events : Events
        Cleaned.
    vocabulary : Vocabulary
        Whose means are usual. A category has none, so it is left out, as if it were not known.

    Returns
    -------
    Events
        At the same times.
    """
    usual = {code: scale.usual for code, scale in vocabulary.codes.items()}
    usual |= {
        code: static.scale.usual
        for code, static in vocabulary.statics.items()
        if not static.categories
    }
    rows = events.rows.filter(pl.col("code").is_in(list(usual)))
    values = pl.col("code").replace_strict(usual, return_dtype=pl.Float64)
    return Events(events.ids, rows.with_columns(value=values), events.from_zero)


def explain_frame(
    events: Any,
    columns: EventColumns,
    reader: Reader,
    ensemble: Ensemble,
    number: int,
    repairs: Repairs,
) -> Any:
    """Share the log odds of a class out among the rows of a frame.

    Parameters
    ----------
    events : DataFrame
        As users send it.
    columns : EventColumns
        Its names.
    reader, ensemble, number
        As in `explain_events`.
    repairs : Repairs
        What was wrong with it is counted there.

    Returns
    -------
    DataFrame
        Of the same library, as `explain_events` says, with the ids and in the times of `events`.
    """
    given = read_events(events, columns, repairs)
    cleaned = reader.clean(given, repairs)
    there = reader.measured(cleaned)
    parts = explain_events(cleaned.only(there), reader, ensemble, number)
    ids, starts = (
        each.filter(pl.Series(there)).gather(parts["stay"])
        for each in (cleaned.ids, reader.rules.starts(given))
    )
    times = as_times(parts["time"] + starts, to_polars(events).schema[columns.time_col])
    rest = parts.select(
        pl.col("code").alias(columns.code_col),
        pl.col("value").alias(columns.value_col),
        "contribution",
    )
    frame = pl.DataFrame([ids.alias(columns.id_col), times.alias(columns.time_col), *rest])
    # Times may have another type than before: days have become stamps.
    kind = frame_kind(events)
    kept = {name: own for name, own in kind.dtypes.items() if name == columns.id_col}
    return to_native(frame, FrameKind(kind.library, kept))


def explain_events(events: Events, reader: Reader, ensemble: Ensemble, number: int) -> pl.DataFrame:
    """Share the log odds of a class out among events.

    Networks share them out by integrated gradients, trees by Shapley values; both between the
    stay and the one with usual values, so that all parts of a stay add up to the difference of
    the two answers. Of more than two classes it is the logarithm of the probability over the
    geometric mean of those of the others.

    Parameters
    ----------
    events : Events
        Cleaned, every stay with a measurement.
    reader : Reader
        Of the fit.
    ensemble : Ensemble
        What is explained.
    number : int
        Place of the class.

    Returns
    -------
    polars.DataFrame
        ``stay``, ``time`` (start of the bin; null for what trees read off the whole stay),
        ``code``, ``value`` (mean) and ``contribution``, the largest first in each stay.
    """
    usual = usual_events(events, reader.vocabulary)
    weights = _weights(ensemble, number)
    tokens, reference = (
        tokenise(each, reader.vocabulary, reader.width) for each in (events, usual)
    )
    of_tokens, statics = np.zeros(tokens.values.shape), np.zeros(tokens.statics.shape)
    for member in ensemble.members:
        parts = integrated_gradients(member.network, tokens, reference, weights[0])
        of_tokens += parts[0]
        statics += parts[1]
    with_trees = ensemble.members[0].trees is not None
    of_stays = _by_code(statics, reader.vocabulary)
    if with_trees:
        of_stays += _of_trees(events, usual, reader, ensemble, weights[1])

    rows = events.rows.with_columns(
        pl.Series("bin", bin_of(events.rows["time"].to_numpy(), reader.width)),
        number=pl.col("code").replace_strict(_numbers(reader.vocabulary), return_dtype=pl.Int64),
    )
    is_static = pl.col("number") >= len(reader.vocabulary.codes)
    measured, known = rows.filter(~is_static), rows.filter(is_static)
    tables = [_each_bin(measured, tokens.offsets.numpy(), of_tokens)]
    tables.append(_each_stay(known, pl.col("bin").first(), of_stays))
    if with_trees:
        tables.append(_each_stay(measured, pl.lit(None, pl.Int64).alias("bin"), of_stays))
    time = (pl.col("bin") * reader.width).alias("time")
    table = pl.concat(tables).select("stay", time, "code", "value", "contribution")
    size = pl.col("contribution").abs()
    return table.sort("stay", size, "code", "time", descending=[False, True, False, False])


def as_times(hours: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return times as a user gave them.

    Parameters
    ----------
    hours : polars.Series
        Of a clock or since the start; numbers stay as they are.
    dtype : polars.DataType
        Of the user's times. Days become stamps, since a bin may start at any hour.

    Returns
    -------
    polars.Series
        To the millisecond, where they are not numbers.

    Examples
    --------
    >>> as_times(pl.Series([1.5]), pl.Duration("us"))[0]
    datetime.timedelta(seconds=5400)
    """
    if dtype.is_numeric():
        return hours
    whole = (hours * _MILLISECONDS).round().cast(pl.Int64)
    if isinstance(dtype, pl.Duration):
        return whole.cast(pl.Duration("ms")).cast(dtype)
    if not isinstance(dtype, pl.Datetime):
        return whole.cast(pl.Datetime("ms"))
    return whole.cast(pl.Datetime("ms", dtype.time_zone)).cast(dtype)


def _weights(ensemble: Ensemble, number: int) -> np.ndarray:
    """Return the weights of the outputs of networks and trees in the log odds of a class.

    Their shape is (models, K); members count alike.
    """
    classes = len(ensemble.offset)
    if classes == 1:
        contrast = np.array([1.0 if number == 1 else -1.0])
    else:
        contrast = np.full(classes, -1 / (classes - 1))
        contrast[number] = 1.0
    shares = ensemble.shares / len(ensemble.members)
    weights: np.ndarray = shares[:, None] * (contrast @ ensemble.slope)
    return weights


def _numbers(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the number of each code; static ones come last."""
    return {code: number for number, code in enumerate([*vocabulary.codes, *vocabulary.statics])}


def _by_code(statics: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """Add up the features, (n, S), of each static code; return all codes, (n, codes)."""
    widths = [static.width for static in vocabulary.statics.values()]
    owners = np.repeat(np.arange(len(widths)), widths) + len(vocabulary.codes)
    shares: np.ndarray = statics @ (owners[:, None] == np.arange(len(_numbers(vocabulary))))
    return shares


def _of_trees(
    events: Events, usual: Events, reader: Reader, ensemble: Ensemble, weights: np.ndarray
) -> np.ndarray:
    """Return the part that trees have of each code, (n, codes)."""
    vocabulary, span = reader.vocabulary, reader.rules.span
    given, reference = (summarise(each, vocabulary, span) for each in (events, usual))
    numbers = _numbers(vocabulary)
    # A summary is named after its code and what it says of it; a static code stands for itself.
    owners = [
        numbers[name if name in vocabulary.statics else name.rpartition(" ")[0]]
        for name in given.columns
    ]
    shares = np.zeros((len(events.ids), len(numbers)))
    for member in ensemble.members:
        if member.trees is not None:
            X = given.to_numpy(), reference.to_numpy()
            shares += shapley_values(member.trees, *X, owners, len(numbers), weights)
    return shares


def _each_bin(rows: pl.DataFrame, offsets: np.ndarray, shares: np.ndarray) -> pl.DataFrame:
    """Return a row for each code and bin of each stay, from the shares of tokens, (total, V)."""
    token = pl.col("bin").rank("dense").over("stay").cast(pl.Int64) - 1
    binned = (
        rows.with_columns(token=token)
        .group_by("stay", "code", "number", "bin", "token")
        .agg(pl.col("value").mean())
    )
    place = offsets[binned["stay"].to_numpy()] + binned["token"].to_numpy()
    parts = pl.Series("contribution", shares[place, binned["number"].to_numpy()])
    return binned.select("stay", "bin", "code", "value", parts)


def _each_stay(rows: pl.DataFrame, when: pl.Expr, shares: np.ndarray) -> pl.DataFrame:
    """Return a row for each code of each stay, from the shares of stays, (n, codes)."""
    whole = rows.group_by("stay", "code", "number").agg(pl.col("value").mean(), when)
    parts = shares[whole["stay"].to_numpy(), whole["number"].to_numpy()]
    return whole.select("stay", "bin", "code", "value", pl.Series("contribution", parts))
