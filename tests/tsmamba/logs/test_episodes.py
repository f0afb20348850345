import json

import pytest

from tsmamba.logs.episodes import Episodes
from tsmamba.logs.result import LogResult

SECOND = 10**9


def result(seconds, score=2.0, stream="web", reason="value", name=None):
    time = None if seconds is None else int(seconds * SECOND)
    return LogResult(
        event_id=name or f"{stream}:{reason}:{seconds}",
        time=time,
        source="app.log",
        stream=stream,
        line_no=1,
        message="took 9 s",
        severity=None,
        template_id=0,
        template="took <*> s",
        score=score,
        cost=10.0 * (score or 0.0),
        p_value=None,
        reason=reason,
    )


def run(episodes, results):
    """Return the episode of each result, and what was told."""
    found, told = [], []
    for one in results:
        episode, news = episodes.step(one)
        found.append(episode)
        told += [(each.state, each.episode_id, each.alerts) for each in news]
    return found, told


def test_alerts_close_to_each_other_are_one_episode():
    episodes = Episodes(cool_down=60.0)
    seconds = (0, 30, 89, 149.5, 300)
    found, told = run(episodes, [result(second) for second in seconds])
    assert found == ["web:value:0"] * 3 + ["web:value:149.5", "web:value:300"]
    assert told == [
        ("open", "web:value:0", 1),
        ("close", "web:value:0", 3),
        ("open", "web:value:149.5", 1),
        ("close", "web:value:149.5", 1),
        ("open", "web:value:300", 1),
    ]
    (last,) = episodes.close()
    assert (last.state, last.start, last.end) == ("close", 300 * SECOND, 300 * SECOND)
    assert episodes.close() == []


def test_it_keeps_its_highest_score_and_its_times():
    episodes = Episodes()
    run(episodes, [result(1, 1.5), result(2, 7.0), result(3, 2.0)])
    (last,) = episodes.close()
    assert (last.peak, last.alerts, last.start, last.end) == (7.0, 3, SECOND, 3 * SECOND)
    told = json.loads(last.to_json())
    assert told["start"] == "1970-01-01T00:00:01.000000Z"
    assert (told["state"], told["message"]) == ("close", "took 9 s")


def test_what_does_not_alert_belongs_to_none_but_ends_them():
    episodes = Episodes(cool_down=60.0)
    quiet = [result(1, 1.0), result(2, None), result(61, 0.0), result(62, 0.5)]
    found, told = run(episodes, [result(0), *quiet])
    assert found == ["web:value:0", None, None, None, None]
    assert told[-1] == ("close", "web:value:0", 1)


def test_streams_and_reasons_have_their_own():
    found, _ = run(
        Episodes(),
        [
            result(0),
            result(1, stream="db"),
            result(2, reason="gap"),
            result(3),
            result(4, stream="db"),
        ],
    )
    assert found == ["web:value:0", "db:value:1", "web:gap:2", "web:value:0", "db:value:1"]


def test_one_without_a_time_keeps_no_other_open():
    episodes = Episodes(cool_down=60.0)
    run(episodes, [result(None, name="no time"), result(0)])
    _, told = run(episodes, [result(100, 0.0)])
    assert told == [("close", "no time", 2)]
    run(episodes, [result(None, stream="db"), result(200)])
    _, told = run(episodes, [result(300, 0.0)])
    assert told == [("close", "web:value:200", 1)]


def test_a_wrong_stamp_keeps_none_open():
    episodes = Episodes(cool_down=60.0)
    _, told = run(
        episodes, [result(10**9, stream="db"), result(0), result(1, 0.0), result(99, 0.0)]
    )
    assert [state for state, *_ in told] == ["open", "close", "open", "close"]


@pytest.mark.parametrize("seconds", [None, 5])
def test_the_open_ones_are_bounded(seconds):
    episodes = Episodes()
    _, told = run(episodes, [result(seconds, stream=f"s{i}", name=f"s{i}") for i in range(5_000)])
    left = len(episodes.close())
    assert left == 1_000
    closed = [name for state, name, _ in told if state == "close"]
    assert closed == [f"s{i}" for i in range(4_000)]


def test_saved_episodes_go_on_as_if_nothing_had_happened():
    results = [
        result(
            i * 20, 2.0 if i % 5 < 2 else 0.1, stream=f"s{i % 3}", reason=("gap", "value")[i % 2]
        )
        for i in range(200)
    ]
    episodes = Episodes(cool_down=70.0)
    run(episodes, results[:90])
    other = Episodes.from_dict(json.loads(json.dumps(episodes.to_dict())))
    assert run(other, results[90:]) == run(episodes, results[90:])
    assert other.close() == episodes.close()
