import polars as pl
import torch

from tsmamba.forecast.events.record import Record, Targets
from tsmamba.records.cleaning import Rules
from tsmamba.records.reader import Reader
from tsmamba.records.vocabulary import Scale, Vocabulary

PLAIN = Scale(-100.0, 100.0, False, 0.0, 1.0)
NONE = frozenset()
READER = Reader(
    Rules(24.0, NONE, NONE, NONE, NONE), Vocabulary({"a": PLAIN, "b": PLAIN}, {}), width=1.0
)


def record_of(rows, read_frame):
    frame = pl.DataFrame(rows, ["subject_id", "time", "code", "numeric_value"], orient="row")
    events, repairs = read_frame(frame)
    return Record.of(READER.clean(events, repairs), READER)


ROWS = [
    (1, 0.2, "a", 1.0),
    (1, 0.4, "a", 3.0),
    (1, 1.5, "b", 5.0),
    (1, 3.5, "a", 7.0),
    (2, 0.5, "b", 9.0),
    (2, 1.5, "b", 2.0),
]


def test_steps_are_bins_of_time_and_not_tokens(read_frame):
    targets = Targets.of(record_of(ROWS, read_frame), 3)
    values, seen = targets.at(torch.arange(5))
    # Tokens of stay 1 lie in bins 0, 1 and 3: two and three bins after the first are 2 and 3.
    assert seen[0].tolist() == [[False, True], [False, False], [True, False]]
    assert values[0, 0, 1] == 5 and values[0, 2, 0] == 7
    assert seen[1].tolist() == [[False, False], [True, False], [False, False]]
    assert not seen[2].any()


def test_nothing_follows_from_another_stay(read_frame):
    targets = Targets.of(record_of(ROWS, read_frame), 3)
    _, seen = targets.at(torch.arange(5))
    assert not seen[2].any() and not seen[4].any()
    assert seen[3].tolist() == [[False, True], [False, False], [False, False]]


def test_of_a_bin_the_mean_and_the_last_value_are_kept(read_frame):
    record = record_of(ROWS, read_frame)
    assert record.tokens.values[:3, 0].tolist() == [2, 2, 7]
    assert record.latest[:3, 0].tolist() == [3, 3, 7]


def test_last_values_are_padded_as_tokens_are(read_frame):
    batch, latest = record_of(ROWS, read_frame).batch(torch.tensor([1, 0]))
    assert latest.shape == batch.values.shape
    assert latest[0, :, 1].tolist() == [9, 2, 0]
    assert latest[1, :, 0].tolist() == [3, 3, 7]
