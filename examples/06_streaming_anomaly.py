"""Watch pumps as their readings come: a fault, a gap, a restart, a new level, and 100 at once.

The readings are made: a daily course by the quarter of an hour. All pumps share one model, and each
has a state of its own, whose size does not grow.
"""

# %%
import tempfile
import time
from collections import Counter
from itertools import groupby
from pathlib import Path

import polars as pl

from tsmamba import MambaDetector
from tsmamba.anomaly import Drift
from tsmamba_datasets import make_seasonal

DAY = 96  # rows
made = make_seasonal(length=60 * DAY, freq="15m", seed=4, trend=0, weekly=0).drop("unique_id")
train, live = made.head(30 * DAY), made.tail(30 * DAY)


def show(results):
    """Print one line for each run of rows with the same answer."""
    for (status, alert), run in groupby(results, lambda one: (one.status, one.is_anomaly)):
        rows = list(run)
        when = rows[0].t.strftime("%b %d %H:%M")
        peak = f"peak {max(one.score for one in rows):.1f}" if status in ("ok", "drift") else ""
        print(f"  {when:12} {len(rows):5} rows  {status:7} {'ALERT' if alert else '':5}  {peak}")


# %% Fit on 30 days. With a delay of a quarter of a period a row is judged six hours later. A new
# level counts as normal once half of the scores of four days reached the threshold.
detector = MambaDetector(delay="p/4", drift=Drift(patience=4 * DAY)).fit(train)
print(f"period {detector.plan_.period} rows, delay {detector.plan_.delay} rows")

# %% On day 3 a value sticks for six hours, on day 6 an hour is not received, from day 12 on the
# level is higher.
row = pl.int_range(pl.len())
live = live.with_columns(
    pl.when(row.is_between(3 * DAY, 3 * DAY + 23)).then(pl.col("y").get(3 * DAY))
    .when(row >= 12 * DAY).then(pl.col("y") + 12).otherwise("y").alias("y")
).filter(~row.is_between(6 * DAY, 6 * DAY + 3))  # fmt: skip
days = live.with_columns(day=row // DAY).partition_by("day", include_key=False)

# %% A stream begins with a warm-up, unless it is told what came before.
cold = detector.stream().score_many(days[0])
print("without a past", dict(Counter(one.status for one in cold)))
past = train.tail(3 * DAY)
stream = detector.stream("pump 7").seed(past)

# %% Rows one by one, a day at once, or all: the numbers are the same. Restart after a week.
results = [stream.score_one(y, t) for t, y in days[0].iter_rows()]
for day in days[1:7]:
    results += stream.score_many(day)
with tempfile.TemporaryDirectory() as folder:
    model, state = Path(folder) / "detector.tsm", Path(folder) / "stream.tsm"
    detector.save(model)
    stream.save(state)
    stream = MambaDetector.load(model).stream("pump 7").load(state)
for day in days[7:]:
    results += stream.score_many(day)
show(results)

# %% Many pumps at once: one call for all of them, and in the last one number 7 is far off.
fleet = detector.stream()
started = time.perf_counter()
for t, y in past.tail(2 * DAY).iter_rows():
    rows = {f"pump {i}": y for i in range(100)}
    if t == past["ds"][-1]:
        rows["pump 7"] += 60
    answers = fleet.score_batch(rows, t)
seconds = time.perf_counter() - started
print(f"alerts {[key for key, one in answers.items() if one.is_anomaly]}")
print(f"{1e6 * seconds / (2 * DAY * 100):.0f} µs a row, {fleet.nbytes / 100:,.0f} bytes a pump")
