"""Laws of a detector of lines with networks: they hold whatever the networks are."""

import json
import random

import pytest
from polars.testing import assert_frame_equal

from tsmamba import LogDetector
from tsmamba.errors import GuidanceWarning
from tsmamba.logs.network import training
from tsmamba.logs.stream import LogStream

LINES = {"stream_by": ("service",), "multiline": None, "false_alarm_rate": 1e-3}


def batches(count, seed=0, start=0):
    """Return lines of two services that do one job after the other: each ends as it began."""
    draw, lines = random.Random(seed), []
    rows = {"a": [], "b": []}
    for told in rows.values():
        for _ in range(count):
            kind = draw.choice(("reads", "writes"))
            told += [f"{kind} begin", "loads", *["waits"] * draw.randrange(2, 4), f"{kind} end"]
    for second, pair in enumerate(zip(*rows.values(), strict=False), start=start):
        for service, text in zip(rows, pair, strict=True):
            stamp = f"2026-03-01T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
            lines.append(f'ts={stamp} level=info service={service} msg="{text}"')
    return lines


@pytest.fixture(scope="module")
def detector():
    """A detector with networks; nobody may fit it again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_STEPS", 250)
        patch.setattr(training, "_LINES", 1_024)
        return LogDetector(network="mamba", **LINES).fit(batches(600))


@pytest.fixture(scope="module")
def odd():
    """Lines of which one says that a job ends that did not begin, and one is new."""
    lines = batches(60, seed=1, start=9_000)
    ends = [i for i, line in enumerate(lines) if "reads end" in line and "service=a" in line]
    lines[ends[10]] = lines[ends[10]].replace("reads", "writes")
    lines[-1] = lines[-1].split("msg=")[0] + 'msg="sleeps instead"'
    return lines


def test_what_the_networks_alone_see_is_told_for_that_reason(detector, odd):
    alerts = detector.score(odd).filter("is_anomaly")
    assert alerts["reason"].to_list() == ["network", "unseen_template"]
    assert "writes end" in alerts["message"][0]
    parts = detector.explain(odd).filter("is_anomaly")
    assert parts["network"][0] == parts["score"][0] > 1.0
    assert parts["network"][1] == 0.0
    without = LogDetector(**LINES).fit(batches(600))
    assert without.score(odd).filter("is_anomaly")["reason"].to_list() == ["unseen_template"]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_lines_in_any_cut_score_as_all_at_once(detector, odd, size):
    stream, other = detector.stream(), detector.stream()
    whole = stream.feed(odd) + stream.close()
    cut = [r for i in range(0, len(odd), size) for r in other.feed(odd[i : i + size])]
    assert cut + other.close() == whole
    assert other.to_dict() == stream.to_dict()


@pytest.mark.parametrize("cut", [0, 1, 177])
def test_a_restored_stream_goes_on_as_if_nothing_had_happened(detector, odd, cut):
    stream = detector.stream()
    stream.feed(odd[:cut])
    other = LogStream(json.loads(json.dumps(stream.to_dict())))
    assert other.feed(odd[cut:]) + other.close() == stream.feed(odd[cut:]) + stream.close()
    assert other.to_dict() == stream.to_dict()


def test_a_saved_detector_scores_the_same(detector, odd, tmp_path):
    detector.save(tmp_path / "model")
    loaded = LogDetector.load(tmp_path / "model")
    assert_frame_equal(loaded.explain(odd), detector.explain(odd))
    assert loaded.get_params() == detector.get_params()


def test_a_checkpoint_holds_states_and_no_weights(detector, odd, restarted, tmp_path):
    whole, rest, kept = restarted(detector, odd, after=100)
    state = json.loads(kept)
    assert "networks" not in state
    assert detector._state["networks"][0].encode() not in kept
    path = str(tmp_path / "log")
    streams = state["model"]["network"]["streams"]
    assert [(source, name) for source, name, *_ in streams] == [(path, "a"), (path, "b")]
    assert 0 < len(rest) < len(odd)
    assert rest == whole[-len(rest) :]


def test_kinds_of_lines_that_come_later_are_not_told_again_and_again(detector):
    lines = batches(300, seed=2, start=9_000)
    later = [line.replace("waits", "rests a while") for line in lines]
    scored = detector.explain(later)
    assert scored["score"].is_finite().all()
    rests = scored.filter(scored["message"] == "rests a while")
    assert rests["network"].max() == 0.0


def test_a_template_that_merges_is_followed(detector, odd):
    stream = detector.stream()
    stream.feed(odd[:100])
    model = stream._model
    number = next(number for number, text in stream.templates() if text == "loads")
    known = model.network.committee.numbers.copy()
    model.rename(number, 900)
    assert model.network.committee.numbers.pop(900) == known.pop(number)
    assert model.network.committee.numbers == known


def test_a_rest_begins_all_streams_anew(detector, odd):
    stream = detector.stream()
    stream.feed(odd)
    model = stream._model
    assert len(model.to_dict()["network"]["streams"]) == 2
    model.rest()
    assert model.to_dict()["network"]["streams"] == []


def test_a_fit_can_be_repeated(monkeypatch):
    monkeypatch.setattr(training, "_STEPS", 40)
    monkeypatch.setattr(training, "_LINES", 1_024)
    states = [
        LogDetector(network="mamba", random_state=seed, **LINES).fit(batches(100))._state
        for seed in (1, 1, 2)
    ]
    assert states[0] == states[1]
    assert states[0]["networks"] != states[2]["networks"]


def test_networks_that_all_collapse_are_told_and_do_without(monkeypatch, odd):
    def collapsed(windows, n_numbers, seed):
        network = training.NextTemplate(n_numbers)
        network.head.bias.data[2] = 30.0
        return network

    monkeypatch.setattr(training, "_trained", collapsed)
    with pytest.warns(GuidanceWarning, match=r"4 of 4 trained networks .* left out, 0 are used"):
        left = LogDetector(network="mamba", **LINES).fit(batches(100))
    plain = LogDetector(**LINES).fit(batches(100))
    assert left._state["model"] == plain._state["model"]
    assert "network" not in plain.explain(odd).columns
    assert_frame_equal(left.explain(odd), plain.explain(odd))
