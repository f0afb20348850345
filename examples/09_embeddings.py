"""Group sixty long series by how they behave, with one vector for each and k-means.

Five kinds of machine, each reporting 16,384 times, with a level, unit, pace, phase and noise of its
own: a steady wave, a wave that comes and goes, a tank that fills slowly and empties at once, one
that does the reverse, and a switch at random. Two rivals stand beside the vectors: summaries that
anyone would try first, and the values themselves, thinned out. Quality is the adjusted Rand index:
1 if the groups are the kinds, 0 by chance. Draws `demo-output/embeddings.png`, or the path that is
given; the picture needs `tsmamba[plot]`.
"""

# %%
import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import polars as pl
from scipy.signal import sawtooth
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tsmamba import MambaForecaster

quick = os.environ.get("TSMAMBA_QUICK") == "1"  # a run of seconds, to see that it works
STEPS, PER_KIND, SEEDS = (4_096, 4, 1) if quick else (16_384, 12, 5)
KINDS = ["wave", "comes and goes", "fills slowly", "empties slowly", "switch"]


# %% A machine of a kind; noise has half the deviation of the behaviour.
def make_machine(kind: str, rng: np.random.Generator) -> np.ndarray:
    time = np.arange(STEPS)
    period = rng.uniform(80, 200)
    angle = 2 * np.pi * (time / period + rng.random())
    if kind == "wave":
        y = np.sin(angle)
    elif kind == "comes and goes":
        running = rng.random(STEPS // 512 + 1) < 0.5
        y = np.sin(angle) * np.where(np.repeat(running, 512)[:STEPS], 1.3, 0.3)
    elif kind == "switch":
        y = np.cumsum(rng.random(STEPS) < 2 / period) % 2
    else:
        y = sawtooth(angle) * (1 if kind == "fills slowly" else -1)
    y = (y - y.mean()) / y.std() + 0.5 * rng.normal(size=STEPS)
    return np.exp(rng.normal()) * y + 5 * rng.normal()


def make_machines(seed: int) -> tuple[pl.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    kinds = np.repeat(np.arange(len(KINDS)), PER_KIND)
    series = [
        pl.DataFrame({"ds": np.arange(STEPS), "y": make_machine(KINDS[kind], rng)}).with_columns(
            unique_id=pl.lit(f"machine {number:02}")
        )
        for number, kind in enumerate(kinds)
    ]
    return pl.concat(series), kinds


# %% What one would try first.
def summaries(values: np.ndarray) -> np.ndarray:
    mean, deviation = values.mean(1), values.std(1)
    z = (values - mean[:, None]) / deviation[:, None]
    power = np.abs(np.fft.rfft(z)[:, 1:]) ** 2
    power /= power.sum(1, keepdims=True)
    octave = np.log2(np.arange(1, power.shape[1] + 1)).astype(int)
    bands = [power[:, octave == one].sum(1) for one in range(octave.max() + 1)]
    centre = power @ np.arange(power.shape[1])
    entropy = -(power * np.log(power + 1e-12)).sum(1)
    correlation = (z[:, 1:] * z[:, :-1]).mean(1)
    return np.column_stack([mean, deviation, correlation, centre, entropy, *bands])


def thinned(values: np.ndarray) -> np.ndarray:
    z = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
    return z.reshape(len(z), 128, -1).mean(2)


# %% The forecaster is fitted on other machines; its linear part plays no role in the vectors.
forecaster = MambaForecaster(horizon=48, mode="base").fit(make_machines(seed=1_000)[0])

found: dict[str, list[float]] = {}
for seed in range(SEEDS):
    machines, kinds = make_machines(seed)
    vectors = forecaster.embed(machines).drop("unique_id").to_numpy()
    values = machines["y"].to_numpy().reshape(len(kinds), STEPS)
    columns = {"vectors": vectors, "summaries": summaries(values), "values": thinned(values)}
    for name, table in columns.items():
        cluster = make_pipeline(StandardScaler(), KMeans(len(KINDS), n_init=10, random_state=seed))
        score = adjusted_rand_score(kinds, cluster.fit_predict(table))
        found.setdefault(name, []).append(score)
for name, scores in found.items():
    print(f"{name:10} adjusted Rand index {np.mean(scores):.2f}, worst {min(scores):.2f}")

# %% The last set: vectors in the plane of their largest spread, and a stretch of each kind.
if importlib.util.find_spec("matplotlib"):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    picture = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output/embeddings.png")
    picture.parent.mkdir(parents=True, exist_ok=True)
    plane = PCA(2).fit_transform(StandardScaler().fit_transform(vectors))
    figure = plt.figure(figsize=(10, 4.5), layout="constrained")
    left, right = figure.subfigures(1, 2)
    axes = left.subplots()
    rows = right.subplots(len(KINDS), sharex=True)
    for kind, (name, row) in enumerate(zip(KINDS, rows, strict=True)):
        axes.scatter(*plane[kinds == kind].T, s=22, color=f"C{kind}", label=name)
        row.plot(values[kind * PER_KIND, :3_000], color=f"C{kind}", linewidth=0.6)
        row.set_title(name, loc="left", fontsize=9)
        row.set_yticks([])
    axes.legend(fontsize=8)
    axes.set(xlabel="first component", ylabel="second component", title=f"{len(kinds)} series")
    rows[-1].set_xlabel("step")
    figure.savefig(picture, dpi=150)
    print(f"plot: {picture}")
