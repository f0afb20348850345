"""Risk of death in intensive care: fit, judge, watch one stay hour by hour, and see why.

400 stays of the PhysioNet 2012 challenge come with the package: 48 hours of vital signs and
laboratory values at uneven times. Draws `demo-output/records.png`, which needs `tsmamba[plot]`. A
demonstration of the method on public data, not a medical device.
"""

# %%
import importlib.util
import os
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import train_test_split

from tsmamba import MambaClassifier
from tsmamba.errors import FrameWarning
from tsmamba.outcomes.plot import plot_explanation
from tsmamba_datasets import load_icu_stays

quick = os.environ.get("TSMAMBA_QUICK") == "1"  # a run of seconds, to see that it works
preset = "tiny" if quick else "auto"
warnings.simplefilter("ignore", FrameWarning)  # what was mended is printed below

events, labels = load_icu_stays()  # subject_id, time in hours, code, numeric_value
train, test = train_test_split(labels, test_size=0.3, stratify=labels["label"], random_state=0)
of_train, of_test = (events.join(part, on="subject_id", how="semi") for part in (train, test))
print(f"{len(train)} stays to fit on, {len(test)} to judge by, {test['label'].sum()} of them fatal")

# %% Fit. Nothing is resampled or filled in beforehand; what is impossible is set aside and told.
classifier = MambaClassifier(preset=preset, random_state=0).fit(of_train, train)
for what, count in classifier.report_["repairs"].items():
    print(f"{count:6,} × {what}")


# %% Judge. With so few deaths the interval says more than the figure.
def interval(score, truth, risk):
    """Return the middle 95 % of a score over stays drawn again and again."""
    rng = np.random.default_rng(0)
    draws = (rng.integers(len(truth), size=len(truth)) for _ in range(2_000))
    return np.quantile([score(truth[i], risk[i]) for i in draws if truth[i].any()], [0.025, 0.975])


truth = test["label"].to_numpy()
risk = test.join(classifier.predict_proba(of_test), on="subject_id", maintain_order="left")
severity = test["saps_i"].fill_null(labels["saps_i"].median()).to_numpy()
for name, said in (("MambaClassifier", risk["p_1"].to_numpy()), ("SAPS-I score", severity)):
    for figure, score in (("AUROC", roc_auc_score), ("AUPRC", average_precision_score)):
        low, high = interval(score, truth, said)
        print(f"{name:16} {figure} {score(truth, said):.2f}  [{low:.2f}, {high:.2f}]")

# %% Watch. Networks that look back only tell the risk after every event, in constant time.
watcher = MambaClassifier(preset=preset, causal=True, base=None, random_state=0)
watcher.fit(of_train, train)
patient = watcher.predict_proba(of_test).sort("p_1")["subject_id"][-1]
stay = of_test.filter(pl.col("subject_id") == patient)
stream = watcher.stream()
told = stay.with_columns(
    risk=pl.Series(stream.observe(*row).probabilities[1] for row in stay.iter_rows())
)
print(f"stay {patient}, {'died' if test.filter(subject_id=patient)['label'][0] else 'survived'}")
by_hours = told.group_by((pl.col("time") // 6 * 6).cast(pl.Int64), maintain_order=True)
for hour, last in by_hours.agg(pl.col("risk").last()).iter_rows():
    print(f"  by hour {hour + 6:2}: {last:5.1%}  {'#' * round(50 * last)}")

# %% Why? The same stay with usual values is what each value is compared with.
parts = classifier.explain(stay)
print(parts.group_by("code").agg(pl.sum("contribution")).top_k(5, by=pl.col("contribution").abs()))

# %%
if importlib.util.find_spec("matplotlib"):
    folder = Path("demo-output")
    folder.mkdir(exist_ok=True)
    plot_explanation(watcher, stay, patient, path=folder / "records.png")
    print(f"plot: {folder / 'records.png'}")
