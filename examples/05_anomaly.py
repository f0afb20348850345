"""Find the unusual days in seven months of taxi rides, first looking back on them, then live.

The series is one of the Numenta Anomaly Benchmark: rides every half hour in New York, with a
marathon, two holidays, new year and a snow storm in it. Draws `demo-output/anomaly.png`; the
picture needs `tsmamba[plot]`.
"""

# %%
import importlib.util
from pathlib import Path

import polars as pl

from tsmamba import MambaDetector
from tsmamba.metrics import detection_delay, event_f1, vus_pr, window_of
from tsmamba_datasets import load_nab

labelled = load_nab("nyc_taxi")
taxi, labels = labelled.drop("label"), labelled["label"].to_numpy()
N_TRAIN = 5_000  # the first three months, before the first label

# %% Looking back, a row is compared with all that came before and after it.
detector = MambaDetector().fit(taxi.head(N_TRAIN))
scores = detector.anomaly_score(taxi)
episodes = detector.episodes(taxi)
print(episodes.select("start", "end", pl.col("peak").round(2), "n_steps"))

found = event_f1(labels[N_TRAIN:], scores[N_TRAIN:] > 1)
window = window_of(taxi["y"].to_numpy())
print(f"precision {found.precision:.2f}, recall {found.recall:.2f} of the labelled events")
print(f"VUS-PR    {vus_pr(labels[N_TRAIN:], scores[N_TRAIN:], window):.2f}")

# %% Live, a row is known by what came before it; half a period of patience makes it surer.
for delay in (0, "p/2"):
    live = MambaDetector(mode="streaming", delay=delay).fit(taxi.head(N_TRAIN))
    stream = live.stream().seed(taxi.head(N_TRAIN))
    results = stream.score_many(taxi.tail(-N_TRAIN))
    alerts = [result.is_anomaly for result in results]
    late = detection_delay(labels[N_TRAIN:], alerts)
    print(
        f"delay {live.plan_.delay:3} rows: {sum(alerts)} alerts, first in each event after {late}"
    )

# %% A stream is a file away from the next machine.
folder = Path("demo-output")
folder.mkdir(exist_ok=True)
stream.save(folder / "taxi.stream")
again = live.stream().load(folder / "taxi.stream")
print("next row", again.score_one(float("nan")).status, f"{again.nbytes:,} bytes of state")

# %%
if importlib.util.find_spec("matplotlib"):
    detector.plot(taxi, path=folder / "anomaly.png")
    print(f"plot: {folder / 'anomaly.png'}")
