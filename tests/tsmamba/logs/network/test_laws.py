"""Laws of a detector with networks: they hold whatever the networks are."""

import json

import pytest
from polars.testing import assert_frame_equal

from tests.tsmamba.logs.network.conftest import logged
from tsmamba import LogDetector
from tsmamba.errors import GuidanceWarning, ParameterError
from tsmamba.logs.network import training
from tsmamba.logs.stream import LogStream

SESSIONS = {"session": r"job-\d+", "session_timeout": 60.0, "multiline": None}


def test_faults_are_found_and_usual_jobs_are_not(detector, odd):
    scored = detector.score(odd)
    assert set(scored.filter("is_anomaly")["stream"]) == {"job-810", "job-812", "job-820"}
    parts = detector.explain(odd)
    assert parts["network"].min() > 0.0
    assert len(detector.report_["networks"]["kept"]) == 2


def test_lines_one_by_one_score_as_all_at_once(detector, odd):
    stream, other = detector.stream(), detector.stream()
    whole = stream.feed(odd) + stream.close()
    single = [result for line in odd for result in other.feed([line])] + other.close()
    assert single == whole
    assert other.to_dict() == stream.to_dict()


def test_a_restored_stream_goes_on_as_if_nothing_had_happened(detector, odd):
    stream = detector.stream()
    stream.feed(odd[:70])
    other = LogStream(json.loads(json.dumps(stream.to_dict())))
    assert other.feed(odd[70:]) + other.close() == stream.feed(odd[70:]) + stream.close()
    assert other.to_dict() == stream.to_dict()


def test_a_saved_detector_scores_the_same(detector, odd, tmp_path):
    detector.save(tmp_path / "model")
    loaded = LogDetector.load(tmp_path / "model")
    assert_frame_equal(loaded.score(odd), detector.score(odd))
    assert loaded.get_params() == detector.get_params()
    assert loaded.report_ == detector.report_
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_the_order_of_sessions_does_not_matter_where_nothing_is_learned(detector):
    lines = [line for i in (3, 1, 2) for line in logged(1, 900 + i)]
    costs = [
        dict(detector.score(part, learn=False).select("stream", "cost").iter_rows())
        for part in (sorted(lines), lines)
    ]
    assert costs[0] == costs[1]


def test_templates_that_come_later_and_those_that_merge_do_no_harm(detector):
    lines = [line.replace("loads", f"{word} data") for word, line in zip(
        ["opens", "closes", "reads", "checks", "sends", "takes"] * 50, logged(50, 700), strict=False
    )]  # fmt: skip
    scored = detector.score(lines)
    assert scored["score"].is_finite().all()


def test_a_fit_can_be_repeated(monkeypatch):
    monkeypatch.setattr(training, "_STEPS", 100)
    lines = logged(100)
    states = [
        LogDetector(network="mamba", random_state=seed, **SESSIONS).fit(lines)._state
        for seed in (1, 1, 2)
    ]
    assert states[0] == states[1]
    assert states[0]["networks"] != states[2]["networks"]


def test_a_collapsed_network_is_left_out_and_another_one_trained(monkeypatch):
    """One is made to say that nothing comes but the end."""
    monkeypatch.setattr(training, "_STEPS", 100)
    trained, seeds = training._trained, []

    def collapsing(windows, n_numbers, seed):
        network = trained(windows, n_numbers, seed)
        if not seeds:
            network.head.bias.data[0] = 30.0
        seeds.append(seed)
        return network

    monkeypatch.setattr(training, "_trained", collapsing)
    found = LogDetector(network="mamba", **SESSIONS).fit(logged(100)).report_["networks"]
    assert found == {"kept": seeds[1:], "rejected": seeds[:1]}


def test_networks_that_all_collapse_are_told_and_do_without(monkeypatch, odd):
    def collapsed(windows, n_numbers, seed):
        network = training.NextTemplate(n_numbers)
        network.head.bias.data[0] = 30.0
        return network

    monkeypatch.setattr(training, "_trained", collapsed)
    with pytest.warns(GuidanceWarning, match=r"4 of 4 trained networks .* left out, 0 are used"):
        without = LogDetector(network="mamba", **SESSIONS).fit(logged(100))
    assert_frame_equal(without.score(odd), LogDetector(**SESSIONS).fit(logged(100)).score(odd))


def test_long_sessions_are_told_to_do_without(monkeypatch):
    monkeypatch.setattr(training, "_STEPS", 20)
    lines = [f"job-{i} {text}" for i in range(30) for text in ["works", "rests"] * 60]
    with pytest.warns(GuidanceWarning, match=r"most sessions have over a hundred lines; there"):
        detector = LogDetector(network="mamba", **SESSIONS).fit(lines)
    scored = detector.explain(lines[:240])
    assert scored.select("sequence", "network").min().row(0) > (0.0, 0.0)


def test_without_the_option_there_are_no_networks(odd):
    plain = LogDetector(**SESSIONS).fit(logged(100))
    assert (plain._state["networks"], plain.report_["networks"]) == ([], None)
    assert "network" not in plain.explain(odd).columns


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"network": "lstm", "session": "job"}, r"network='lstm': give 'mamba' or None"),
        ({"network": "lstm"}, r"network='lstm': give 'mamba' or None"),
        ({"random_state": -1}, r"random_state=-1: give a whole number, 0 or more"),
        ({"random_state": None}, r"random_state=None: give a whole number, 0 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, reason):
    with pytest.raises(ParameterError, match=reason):
        LogDetector(**options).fit(logged(100))


def test_a_checkpoint_holds_no_weights_and_a_restart_has_them(detector, odd, restarted):
    whole, rest, kept = restarted(detector, odd, after=70)
    assert detector._state["networks"][0].encode() not in kept
    assert len(kept) < 0.2 * len(json.dumps(detector._state))
    assert 0 < len(rest) < len(whole)
    assert rest == whole[-len(rest) :]
    assert any(b'"network"' in record for record in rest)
