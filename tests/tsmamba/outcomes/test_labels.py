from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tsmamba.errors import FrameError
from tsmamba.outcomes.labels import as_classes, known_classes, read_labels

IDS = pl.Series([3, 1, 2])


def labels_of(ids=(1, 2, 3), labels=(0, 1, 0), **types):
    frame = {"subject_id": list(ids), "label": list(labels)}
    return pl.DataFrame(frame, schema_overrides=types, strict=False)


def read(labels, ids=IDS):
    return read_labels(labels, ids, "subject_id", "label")


def test_labels_come_in_the_order_of_the_stays_and_others_are_left_out():
    assert read(labels_of((9, 2, 3, 1), (5, 1, 0, 7))).to_list() == [0, 7, 1]


def test_the_same_label_may_be_there_twice():
    assert read(labels_of((1, 2, 3, 3), (0, 1, 0, 0))).to_list() == [0, 0, 1]


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int32, pl.UInt64])
def test_whole_numbers_of_any_width_are_the_same_ids(dtype):
    assert read(labels_of(subject_id=dtype)).to_list() == [0, 0, 1]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["ill", "well", "ill"], ["ill", "ill", "well"]),
        ([True, False, True], [True, True, False]),
        ([0.0, 1.0, 0.0], [0.0, 0.0, 1.0]),
    ],
)
def test_labels_are_numbers_text_or_booleans(labels, expected):
    assert read(labels_of(labels=labels)).to_list() == expected


def test_categories_are_text():
    categories = pl.Enum(["well", "ill"])
    found = read(labels_of(labels=["ill", "well", "ill"], label=categories))
    classes, numbers = as_classes(found, np.arange(3), 1)
    assert (classes.tolist(), numbers.tolist()) == (["ill", "well"], [0, 0, 1])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (labels_of().drop("label"), "labels have no column 'label', but 'subject_id'; rename"),
        (labels_of().drop("subject_id"), "no column 'subject_id', but 'label'.*id_col=, label"),
        (labels_of((1, 2), (0, 1)), "1 of 3 stays have no label: 3; label them, or leave"),
        (labels_of(labels=(0, None, 1)), "1 of 3 stays have no label: 2"),
        (pd.DataFrame({"subject_id": [1, 2, 3], "label": [0, np.nan, 1]}), "no label: 2;"),
        (labels_of((7, 8, 9)), "3 of 3 stays have no label: 3, 1, 2"),
        (labels_of((1, 2, 3, 2), (0, 1, 0, 0)), "stay 2 has 2 labels in 'label'; keep one"),
        (labels_of(subject_id=pl.String), "ids are of type Int64 in the events and String in the"),
        (labels_of(subject_id=pl.Float64), r'Float64 in the labels; cast one, e.g. pl.col\("sub'),
        (labels_of(labels=[date(2024, 1, 1)] * 3), "column 'label' of the labels is of type Date"),
        (labels_of(labels=[Decimal(1)] * 3), "is of type Decimal.*pass numbers, text or booleans"),
        ({1: 0, 2: 1, 3: 0}, "expected a polars DataFrame"),
    ],
    ids=range(12),
)  # fmt: skip
def test_labels_that_cannot_be_used_are_refused(labels, message):
    with pytest.raises(FrameError, match=message):
        read(labels)


def test_a_long_list_of_stays_without_label_is_cut():
    with pytest.raises(FrameError, match="400 of 500 stays have no label") as caught:
        read(labels_of(range(100), [0] * 100), pl.Series(range(500)))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("labels", "least", "message"),
    [
        ([1, 1, 1], 1, "all labels are 1; a classifier needs two classes"),
        (["a", "a"], 1, "all labels are 'a'; "),
        ([0, 0, 0, 1], 2, "class 1 has 1 stays with measurements; every class needs 2"),
    ],
)
def test_too_few_labels_are_refused(labels, least, message):
    with pytest.raises(FrameError, match=message):
        as_classes(pl.Series(labels), np.arange(len(labels)), least)


def test_classes_are_sorted_and_found_again():
    labels = pl.Series(["c", "a", "b", "a"])
    classes, numbers = as_classes(labels, np.arange(4), 1)
    assert classes.tolist() == ["a", "b", "c"]
    assert numbers.tolist() == known_classes(labels, classes).tolist() == [2, 0, 1, 0]


@pytest.mark.parametrize(
    ("label", "message"),
    [(2, "label 2 is not one of the fit: 0, 1"), ("ill", "label 'ill' is not one")],
)
def test_a_label_that_the_fit_did_not_see_is_refused(label, message):
    with pytest.raises(FrameError, match=message):
        known_classes(pl.Series([label]), np.array([0, 1]))
