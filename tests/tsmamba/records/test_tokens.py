import numpy as np
import polars as pl
import pytest
import torch

from tsmamba.records.events import Events
from tsmamba.records.tokens import NEVER, bin_of, latest_values, tokenise
from tsmamba.records.vocabulary import Scale, Vocabulary

PARTS = ("values", "since", "elapsed")
PLAIN = Scale(-1e9, 1e9, log=False, mean=0.0, sd=1.0)


def slowly(rows, vocabulary, width):
    """Return values, bins since and bins elapsed of each token of one stay, event by event."""
    bins = {}
    for time, code, value in rows:
        if code in vocabulary.codes:
            place = 0
            while time > (place + 1) * width * (1 + 1e-12):
                place += 1
            bins.setdefault(place, {}).setdefault(code, []).append(vocabulary.codes[code](value))
    tokens, carried, last, before = [], {}, {}, None
    for place in sorted(bins):
        for code, measured in bins[place].items():
            carried[code], last[code] = sum(measured) / len(measured), place
        values = [carried.get(code, 0.0) for code in vocabulary.codes]
        since = [
            min(place - last[code], NEVER - 1) if code in last else NEVER
            for code in vocabulary.codes
        ]
        tokens.append((values, since, 1 if before is None else place - before))
        before = place
    return tokens


def events_of(rows, stays=1):
    schema = {"stay": pl.UInt32, "time": pl.Float64, "code": pl.String, "value": pl.Float64}
    frame = pl.DataFrame(rows, schema, orient="row").sort("stay", "time", "code", "value")
    return Events(pl.Series(range(stays)), frame, from_zero=True)


def as_list(tokens, stay):
    part = slice(*tokens.offsets[stay : stay + 2].tolist())
    return [getattr(tokens, name)[part].tolist() for name in PARTS]


@pytest.mark.parametrize("width", [0.25, 0.7, 1.0, 5.0])
def test_tokens_are_those_of_a_loop_over_events(cleaned, reader, width):
    tokens = tokenise(cleaned, reader.vocabulary, width)
    for stay in range(len(cleaned.ids)):
        rows = cleaned.rows.filter(pl.col("stay") == stay).drop("stay").rows()
        values, since, elapsed = zip(*slowly(rows, reader.vocabulary, width), strict=True)
        found = as_list(tokens, stay)
        np.testing.assert_allclose(found[0], values, rtol=1e-6, atol=1e-6)
        assert found[1:] == [list(since), list(elapsed)]


@pytest.mark.parametrize("width", [0.1, 1 / 3, 0.7, 2.0, 47.98333333333333 / 24])
def test_a_bin_reaches_up_to_and_with_its_end(width):
    ends = np.arange(1, 2_000) * width
    np.testing.assert_array_equal(bin_of(ends, width), np.arange(1_999))
    np.testing.assert_array_equal(bin_of(ends + 1e-4 * width, width), np.arange(1, 2_000))
    np.testing.assert_array_equal(bin_of(np.array([0.0, width / 2]), width), [0, 0])


def test_values_are_carried_on_and_gaps_are_counted():
    vocabulary = Vocabulary({"a": PLAIN, "b": PLAIN}, {})
    rows = [(0, 0.5, "a", 1.0), (0, 1.0, "a", 3.0), (0, 4.5, "b", 7.0), (0, 600.0, "a", 5.0)]
    tokens = tokenise(events_of(rows), vocabulary, 1.0)
    assert as_list(tokens, 0) == [
        [[2, 0], [2, 7], [5, 7]],
        [[0, NEVER], [4, 0], [0, NEVER - 1]],
        [1, 4, 595],
    ]


def test_the_first_token_does_not_tell_how_long_it_took_to_come():
    vocabulary = Vocabulary({"a": PLAIN}, {})
    late, early = (tokenise(events_of([(0, t, "a", 1.0)]), vocabulary, 1.0) for t in (0.0, 40.0))
    assert as_list(late, 0) == as_list(early, 0)


def test_stays_together_are_the_stays_alone(cleaned, reader):
    together = reader.stays(cleaned, summaries=False).tokens
    for stay in (0, 7, len(cleaned.ids) - 1):
        alone = reader.stays(cleaned.only(np.arange(len(cleaned.ids)) == stay), summaries=False)
        assert as_list(alone.tokens, 0) == as_list(together, stay)
        assert alone.tokens.statics[0].equal(together.statics[stay])


def test_a_stay_may_be_empty():
    vocabulary = Vocabulary({"a": PLAIN}, {})
    tokens = tokenise(events_of([(1, 0.0, "a", 1.0), (3, 0.0, "a", 2.0)], stays=5), vocabulary, 1.0)
    assert tokens.offsets.tolist() == [0, 0, 1, 1, 2, 2]
    assert len(tokens) == 5
    assert as_list(tokens, 3) == [[[2]], [[0]], [1]]
    assert len(tokenise(events_of([], stays=2), vocabulary, 1.0).values) == 0


def test_a_batch_holds_the_stays_in_their_order_padded_at_their_ends(cleaned, reader):
    tokens = reader.stays(cleaned, summaries=False).tokens
    stays = torch.tensor([5, 2, 9, 2])
    batch = tokens.batch(stays)
    for row, stay in enumerate(stays.tolist()):
        there = batch.mask[row]
        length = int(there.sum())
        assert there[:length].all()
        assert [getattr(batch, name)[row, :length].tolist() for name in PARTS] == as_list(
            tokens, stay
        )
        assert not batch.values[row, length:].any()
        assert batch.statics[row].equal(tokens.statics[stay])
    assert batch.mask.shape[1] == batch.mask.sum(1).max()


def test_codes_that_are_not_read_make_no_tokens():
    vocabulary = Vocabulary({"a": PLAIN}, {})
    rows = [(0, 0.0, "a", 1.0), (0, 3.0, "other", 1.0)]
    assert len(tokenise(events_of(rows), vocabulary, 1.0).values) == 1


def test_many_bins_pass_without_many_tokens():
    vocabulary = Vocabulary({"a": PLAIN}, {})
    tokens = tokenise(events_of([(0, 0.0, "a", 1.0), (0, 1e9, "a", 1.0)]), vocabulary, 1.0)
    assert tokens.elapsed.tolist() == [1, np.float32(1e9 - 1)]


def test_the_last_single_value_of_a_bin_is_carried_on(cleaned, reader):
    tokens = tokenise(cleaned, reader.vocabulary, 2.0)
    latest = latest_values(cleaned, reader.vocabulary, 2.0)
    table = {}
    for stay, time, code, value in cleaned.rows.select("stay", "time", "code", "value").rows():
        if code in reader.vocabulary.codes:
            scale = reader.vocabulary.codes[code]
            table[stay, int(bin_of(np.array([time]), 2.0)[0]), code] = float(scale(np.array(value)))
    owners = tokens.owners()
    assert latest.shape == tokens.values.shape
    carried = {}
    places = sorted({(stay, place) for stay, place, _ in table})
    assert [stay for stay, _ in places] == owners.tolist()
    for token, (stay, place) in enumerate(places):
        for number, code in enumerate(reader.vocabulary.codes):
            carried[stay, code] = table.get((stay, place, code), carried.get((stay, code), 0.0))
            assert latest[token, number] == pytest.approx(carried[stay, code], abs=1e-6)


def test_bins_of_a_stay_are_counted_from_its_first_token(cleaned, reader):
    tokens = tokenise(cleaned, reader.vocabulary, 0.5)
    bins, owners = tokens.bins(), tokens.owners()
    for stay in range(3):
        here = owners == stay
        since = tokens.elapsed[here].clone()
        since[0] = 0
        assert bins[here].tolist() == since.cumsum(0).tolist()
