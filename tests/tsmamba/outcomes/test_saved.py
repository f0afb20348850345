from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from safetensors import safe_open

from tsmamba import MambaClassifier, MambaDetector, Training
from tsmamba.errors import ModelFileError


@pytest.mark.parametrize("of", ["fitted", "causal", "of_three"])
def test_a_loaded_classifier_is_the_saved_one(of, others, tmp_path, request):
    classifier = request.getfixturevalue(of)
    classifier.save(tmp_path / "risk.tsm")
    loaded = MambaClassifier.load(tmp_path / "risk.tsm")
    assert repr(loaded.get_params()) == repr(classifier.get_params())
    assert (loaded.codes_, loaded.report_) == (classifier.codes_, classifier.report_)
    assert (loaded._reader, loaded.classes_.dtype) == (
        classifier._reader,
        classifier.classes_.dtype,
    )
    np.testing.assert_array_equal(loaded.prior_, classifier.prior_)
    for method in ("predict_proba", "predict"):
        found, expected = (getattr(each, method)(others.events) for each in (loaded, classifier))
        assert_frame_equal(found, expected, check_exact=True)


def test_trees_come_back_bit_for_bit(fitted, tmp_path, rng):
    fitted.save(tmp_path / "risk.tsm")
    loaded = MambaClassifier.load(tmp_path / "risk.tsm")
    members = zip(loaded._ensemble.members, fitted._ensemble.members, strict=True)
    for found, expected in members:
        X = rng.normal(80, 30, size=(200, expected.trees.nodes["feature"].max() + 1))
        X[rng.random(X.shape) < 0.3] = np.nan
        np.testing.assert_array_equal(found.trees.sums(X), expected.trees.sums(X))
        for name, part in expected.trees.nodes.items():
            np.testing.assert_array_equal(found.trees.nodes[name], part)


def test_a_classifier_that_was_saved_twice_streams(causal, tmp_path):
    causal.save(tmp_path / "one")
    MambaClassifier.load(tmp_path / "one").save(tmp_path / "two")
    loaded = MambaClassifier.load(tmp_path / "two")
    start = datetime(2024, 1, 1)
    for minutes, value in ((0, 80.0), (50, 90.0), (300, 85.0)):
        event = 7, start + timedelta(minutes=minutes), "HR", value
        found, expected = (each.stream().observe(*event) for each in (loaded, causal))
        np.testing.assert_array_equal(found.probabilities, expected.probabilities)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        (pl.Series(["well", "ill"]), pl.String),
        (pl.Series([False, True]), pl.Boolean),
        (pl.Series([0, 1], dtype=pl.Int8), pl.Int8),
        (pl.Series([0.0, 1.0]), pl.Float64),
    ],
    ids=["text", "boolean", "small", "float"],
)
def test_classes_and_parameters_keep_their_type(records, tmp_path, labels, dtype):
    """Names of columns, knobs and numbers of numpy come along."""
    names = {"id_col": "stay", "label_col": "outcome", "value_col": "v", "time_col": "t"}
    new = {"subject_id": "stay", "label": "outcome", "numeric_value": "v", "time": "t"}
    events = records.events.rename(new, strict=False)
    outcome = records.labels.rename(new, strict=False)
    outcome = outcome.with_columns(labels.gather(outcome["outcome"]).alias("outcome"))
    classifier = MambaClassifier(
        preset="tiny", base=None, training=Training(max_steps=1, lr=1e-3),
        random_state=np.int64(3), n_bins=np.int32(7), **names,
    ).fit(events, outcome)  # fmt: skip
    classifier.save(tmp_path / "risk")
    loaded = MambaClassifier.load(tmp_path / "risk")
    assert loaded.training.get_params() == classifier.training.get_params()
    assert (loaded.n_bins, loaded.random_state) == (7, 3)
    found, expected = loaded.predict(events), classifier.predict(events)
    assert_frame_equal(found, expected)
    assert found.schema == {"stay": pl.Int64, "outcome": dtype}
    assert_frame_equal(loaded.predict_proba(events), classifier.predict_proba(events))


def test_the_file_is_safetensors(fitted, tmp_path):
    fitted.save(tmp_path / "risk")
    with safe_open(tmp_path / "risk", framework="np") as file:
        assert file.metadata()["kind"] == "MambaClassifier"


def test_a_damaged_file_is_refused(causal, tmp_path):
    path = tmp_path / "risk"
    causal.save(path)
    whole = path.read_bytes()
    for data, message in (
        (whole[:-3], "not a whole model file"),
        (whole[: len(whole) // 2], "not a whole model file"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "check sum does not match"),
        (whole.replace(b"tiny", b"auto", 1), "check sum does not match"),
        (b"\x80\x04N.", "not a whole model file"),
        (b"", "not a whole model file"),
    ):
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match=message):
            MambaClassifier.load(path)
    with pytest.raises(ModelFileError, match="there is no model file"):
        MambaClassifier.load(tmp_path / "none")


def test_a_file_of_another_class_is_refused(tmp_path, rng):
    MambaDetector(preset="tiny").fit(rng.normal(size=(300, 2))).save(tmp_path / "d")
    with pytest.raises(ModelFileError, match="holds a MambaDetector; load it with that class"):
        MambaClassifier.load(tmp_path / "d")


def test_a_folder_that_does_not_exist_is_named(causal, tmp_path):
    with pytest.raises(ModelFileError, match=r"cannot write .*none.*: No such file"):
        causal.save(tmp_path / "none" / "risk")
