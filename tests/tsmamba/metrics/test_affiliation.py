import math

import numpy as np
import pytest

from tsmamba.errors import ParameterError
from tsmamba.metrics import affiliation


def marks(steps, *ranges):
    """Marks on half-open ranges."""
    marked = np.zeros(steps, dtype=bool)
    for start, stop in ranges:
        marked[start:stop] = True
    return marked


def grid_affiliation(labels, alerts, fine=40):
    """The definition on a fine grid: random points of the zone are the other points of the grid."""
    time = (np.arange(len(labels) * fine) + 0.5) / fine
    event, alert = np.repeat(labels, fine), np.repeat(alerts, fine)
    edges = np.flatnonzero(np.diff(labels, prepend=False, append=False))
    middles = (edges[1:-1:2] + edges[2::2]) / 2
    zone = np.searchsorted(middles, time)
    precisions, recalls = [], []
    for j in range(len(middles) + 1):
        in_zone = time[zone == j]
        inside, alerted = time[event & (zone == j)], time[alert & (zone == j)]
        if not len(alerted):
            recalls.append(0.0)
            continue
        distances = np.abs(in_zone[:, None] - inside).min(axis=1)
        gaps = np.abs(alerted[:, None] - inside).min(axis=1)
        chances = (distances[:, None] > gaps).mean(axis=0)
        precisions.append(np.where(np.isin(alerted, inside), 1, chances).mean())
        gaps = np.abs(inside[:, None] - alerted).min(axis=1)
        chances = (np.abs(in_zone[:, None] - inside) > gaps).mean(axis=0)
        recalls.append(np.where(np.isin(inside, alerted), 1, chances).mean())
    return np.mean(precisions), np.mean(recalls)


def test_a_zone_of_the_paper():
    """In minutes: events 0-10, 50-70 and 170-175 in three hours, of which the second zone alone."""
    events = marks(90, (20, 40))
    alerts = marks(90, (10, 30), (85, 90))
    precision, recall, _ = affiliation(events, alerts)
    assert precision == pytest.approx(0.672222222)
    assert recall == pytest.approx(0.944444444)


def test_zones_of_the_paper_count_alike():
    """All three zones, in half minutes, against each zone alone."""
    events = marks(360, (0, 20), (100, 140), (340, 350))
    alerts = marks(360, (10, 12), (14, 20), (22, 24), (80, 120), (230, 260), (270, 280), (330, 340))
    alone = [
        affiliation(events[cut], alerts[cut]) for cut in map(slice, (0, 60, 240), (60, 240, 360))
    ]
    whole = affiliation(events, alerts)
    assert whole.precision == pytest.approx(np.mean([zone.precision for zone in alone]))
    assert whole.recall == pytest.approx(np.mean([zone.recall for zone in alone]))


def test_by_hand():
    """One event [4, 6) in [0, 10), one alert [7, 8): nearer than it on average half of the rest.

    Alerts lie 1 to 2 from the event, so 2 + 2 * 1.5 of 10 are nearer: 0.5. Points of the event lie
    1 to 3 from the alert, t from 4 to 6: twice 7 - t, cut at 10: 2 * 2 of 10 are nearer: 0.6.
    """
    precision, recall, f1 = affiliation(marks(10, (4, 6)), marks(10, (7, 8)))
    assert precision == pytest.approx(0.5)
    assert recall == pytest.approx(0.6)
    assert f1 == pytest.approx(2 * 0.5 * 0.6 / 1.1)


def test_it_equals_the_definition_on_a_fine_grid(rng):
    for _ in range(20):
        steps = int(rng.integers(5, 40))
        labels, alerts = np.zeros((2, steps), dtype=bool)
        for marked, count in ((labels, 3), (alerts, 4)):
            for start in rng.integers(steps, size=count):
                marked[start : start + rng.integers(1, 5)] = True
        precision, recall, _ = affiliation(labels, alerts)
        assert (precision, recall) == pytest.approx(grid_affiliation(labels, alerts), abs=0.01)


@pytest.mark.parametrize("event", [(50, 51), (0, 30), (20, 80), (95, 100)])
def test_a_random_alert_has_the_precision_of_chance(event):
    """A half, and more only by the share of steps inside the event."""
    labels = marks(100, event)
    share = labels.mean()
    precisions = [affiliation(labels, marks(100, (t, t + 1))).precision for t in range(100)]
    assert np.mean(precisions) == pytest.approx((1 + share**2) / 2)


def test_a_random_alert_has_the_recall_of_chance():
    labels = marks(400, (200, 201))
    recalls = [affiliation(labels, marks(400, (t, t + 1))).recall for t in range(400)]
    assert np.mean(recalls) == pytest.approx(0.5, abs=0.005)


def test_time_may_run_backwards(rng):
    labels, alerts = rng.random(200) < 0.05, rng.random(200) < 0.05
    assert affiliation(labels[::-1], alerts[::-1]) == pytest.approx(affiliation(labels, alerts))


def test_the_unit_of_time_does_not_matter(rng):
    for _ in range(20):
        starts = np.cumsum(rng.integers(12, 30, size=8))
        labels = marks(300, *zip(starts, starts + rng.integers(1, 12, size=8), strict=True))
        alerts = rng.random(300) < 0.05
        finer = affiliation(np.repeat(labels, 4), np.repeat(alerts, 4))
        assert finer == pytest.approx(affiliation(labels, alerts))


def test_alerts_at_events_are_perfect(rng):
    labels = rng.random(200) < 0.1
    assert affiliation(labels, labels) == (1, 1, 1)
    assert affiliation(np.ones(5), np.ones(5)) == (1, 1, 1)


def test_without_alerts_there_is_no_precision():
    precision, recall, f1 = affiliation([0, 1, 0], [0, 0, 0])
    assert math.isnan(precision)
    assert (recall, f1) == (0, 0)


def test_a_zone_without_alert_has_no_precision_and_no_recall():
    labels = marks(100, (10, 20), (80, 90))
    assert affiliation(labels, marks(100, (10, 20))) == pytest.approx((1, 0.5, 2 / 3))


def test_a_nearer_alert_is_better(rng):
    labels = marks(300, (150, 160))
    results = [affiliation(labels, marks(300, (t, t + 1))) for t in range(160, 300)]
    assert (np.diff([result.precision for result in results]) < 0).all()
    assert (np.diff([result.recall for result in results]) < 0).all()


def test_it_says_what_it_cannot_use():
    with pytest.raises(ParameterError, match="labels has no 1 in 2 steps"):
        affiliation([0, 0], [0, 1])
    with pytest.raises(ParameterError, match="labels has 1 steps and alerts 2"):
        affiliation([1], [0, 1])
