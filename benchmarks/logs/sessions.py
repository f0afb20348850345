"""How well sessions of public logs are told apart, beside the trivial rules.

    python -m benchmarks.logs.sessions

reads ``hdfs_sessions`` and ``log_sequences`` under ``TSMAMBA_DATA`` and prints one table for each
protocol. One configuration for all; what differs is what a user would know: ``trim=0`` where the
training sessions were chosen to be normal, the default where they are as they were logged.
"""

import gzip
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.forecast.run import environment
from benchmarks.logs.rules import Rules, Sessions
from tsmamba import LogDetector
from tsmamba_datasets import fetch_hdfs_sessions

SESSION = "session"
RATE = 1e-3
# Share of abnormal sessions in the whole HDFS log: the normal ones here are weighted to it.
HDFS_ABNORMAL = 0.0293
FOLDS = 4
NETWORKS: dict[str, dict[str, Any]] = {
    f"LogDetector(network='mamba', random_state={seed})": {"network": "mamba", "random_state": seed}
    for seed in range(3)
}


def frame(sessions: Sessions) -> pl.DataFrame:
    """Sessions as a log of templates."""
    names = [f"s{i}" for i, session in enumerate(sessions) for _ in session]
    return pl.DataFrame(
        {SESSION: names, "template": [f"E{event}" for session in sessions for event in session]}
    )


def scored(detector: LogDetector, sessions: Sessions) -> pl.DataFrame:
    """Scores of sessions, each by the training log alone, in the order in which they are given."""
    found = detector.score(frame(sessions), learn=False)
    number = pl.col("stream").str.slice(1).cast(pl.Int64)
    return found.sort(number)


def f1_within(
    score: NDArray[np.float64], abnormal: NDArray[np.bool_], weight: NDArray[np.float64]
) -> tuple[float, float]:
    """Best F1 with no more than the target share of false alarms, and that share."""
    normal = ~abnormal
    best = (0.0, 0.0)
    for threshold in np.unique(score[normal])[::-1]:
        share = weight[normal & (score > threshold)].sum() / weight[normal].sum()
        if share > RATE:
            break
        best = max(best, (f1(score > threshold, abnormal, weight), float(share)))
    return best


def f1(alert: NDArray[np.bool_], abnormal: NDArray[np.bool_], weight: NDArray[np.float64]) -> float:
    """F1 of weighted sessions."""
    hits = weight[alert & abnormal].sum()
    return float(2 * hits / (weight[alert].sum() + weight[abnormal].sum()))


def hdfs_clean() -> Iterator[str]:
    """HDFS, training sessions chosen to be normal (the split of DeepLog)."""
    train = fetch_hdfs_sessions("train")["events"].to_list()
    robust = pl.concat([fetch_hdfs_sessions("robust_train"), fetch_hdfs_sessions("robust_valid")])
    usual = robust.filter(~pl.col("label"))["events"].to_list()
    strange = fetch_hdfs_sessions("test_abnormal")["events"].to_list()
    abnormal = np.array([False] * len(usual) + [True] * len(strange))
    ratio = len(strange) * (1 - HDFS_ABNORMAL) / HDFS_ABNORMAL / len(usual)
    weight = np.where(abnormal, 1.0, ratio)
    yield (f"\nHDFS, clean training sessions: {len(train):,} train, {len(usual):,} normal and")
    yield (f"{len(strange):,} abnormal test sessions\n")
    yield (
        "| score | AP | AP, distinct sessions | F1 at <= .1 % false alarms (share) "
        "| F1, own threshold (false alarms) | fit, score in s |"
    )
    yield ("| --- | --- | --- | --- | --- | --- |")
    kinds = {tuple(session): i for i, session in enumerate(usual + strange)}
    once = np.array(sorted(kinds.values()))

    def row(name: str, score: NDArray[np.float64]) -> str:
        best, share = f1_within(score, abnormal, weight)
        whole = average_precision_score(abnormal, score, sample_weight=weight)
        distinct = average_precision_score(abnormal[once], score[once])
        return f"| {name} | {whole:.3f} | {distinct:.3f} | {best:.3f} ({share:.2%})"

    for name, options in {"LogDetector": {}, **NETWORKS}.items():
        started = time.process_time()
        detector = LogDetector(session=SESSION, session_timeout=None, trim=0.0, **options)
        detector.fit(frame(train))
        fitted = time.process_time()
        found = scored(detector, usual + strange)
        seconds = f"{fitted - started:.1f}, {time.process_time() - fitted:.1f}"
        alert = found["is_anomaly"].to_numpy()
        false = weight[alert & ~abnormal].sum() / weight[~abnormal].sum()
        own = f"{f1(alert, abnormal, weight):.3f} ({false:.2%})"
        yield (f"{row(name, found['score'].to_numpy())} | {own} | {seconds} |")
    for name, score in Rules(train).scores(usual + strange).items():
        yield (f"{row(f'rule: {name}', score)} | | |")


def hdfs_chronological() -> Iterator[str]:
    """HDFS, raw messages in the order of time, training log as it was."""
    folder = Path(os.environ["TSMAMBA_DATA"]) / "hdfs_sessions" / "loglead"
    events = pl.read_parquet(folder / "hdfs_events_2percent.parquet")
    labels = pl.read_parquet(folder / "hdfs_seqs_2percent.parquet")
    times = events.group_by("seq_id", maintain_order=True).agg(
        pl.col("m_timestamp").first().alias("start"), pl.col("m_timestamp").last().alias("end")
    )
    variants: dict[str, dict[str, Any]] = {"LogDetector": {}, "LogDetector(trim=0)": {"trim": 0.0}}
    variants |= NETWORKS
    yield ("\nHDFS, chronological, training log as it was (30 % of the sessions)\n")
    yield ("| order | detector | AP of cost | AP of score | F1, own threshold | false alarms |")
    yield ("| --- | --- | --- | --- | --- | --- |")
    for order in ("end", "start"):
        names = times.sort(order, maintain_order=True)["seq_id"]
        split = int(0.3 * len(names))
        log = events.join(times, on="seq_id").sort(order, maintain_order=True)
        log = log.select(
            pl.col("m_message").alias("message"),
            pl.col("seq_id").alias(SESSION),
            pl.col("m_timestamp").alias("time"),
            pl.col(order),
        )
        train = log.filter(pl.col(SESSION).is_in(names[:split].implode()))
        test = log.filter(~pl.col(SESSION).is_in(names[:split].implode()))
        for title, options in {
            "LogDetector": {},
            "LogDetector(trim=0)": {"trim": 0.0},
            **NETWORKS,
        }.items():
            detector = LogDetector(session=SESSION, session_timeout=None, **options)
            found = detector.fit(train.drop(order)).score(test.drop(order))
            found = found.join(labels, left_on="stream", right_on="seq_id")
            abnormal = found["anomaly"].to_numpy()
            alert = found["is_anomaly"].to_numpy()
            own = f1(alert, abnormal, np.ones(len(abnormal)))
            cost, score = (
                average_precision_score(abnormal, found[name].to_numpy())
                for name in ("cost", "score")
            )
            false = alert[~abnormal].mean()
            yield (f"| {order} | {title} | {cost:.3f} | {score:.3f} | {own:.3f} | {false:.2%} |")


def adfa() -> Iterator[str]:
    """ADFA: system calls, four folds of the normal traces."""
    folder = Path(os.environ["TSMAMBA_DATA"]) / "log_sequences" / "adfa"
    usual = _sequences(folder / "adfa_train.gz")
    strange = _sequences(folder / "adfa_test_abnormal.gz")
    yield (f"\nADFA, {len(usual)} normal and {len(strange)} abnormal traces, {FOLDS} folds\n")
    yield ("| score | mean AUROC | of the folds |")
    yield ("| --- | --- | --- |")
    order = np.random.default_rng(0).permutation(len(usual))
    results: dict[str, list[float]] = {}
    for fold in range(FOLDS):
        held = [usual[i] for i in order[fold::FOLDS]]
        train = [usual[i] for k, i in enumerate(order) if k % FOLDS != fold]
        abnormal = [False] * len(held) + [True] * len(strange)
        rows = {}
        for name, options in {"LogDetector": {}, **NETWORKS}.items():
            detector = LogDetector(session=SESSION, session_timeout=None, trim=0.0, **options)
            detector.fit(frame(train))
            rows[name] = scored(detector, held + strange)["score"].to_numpy()
        rows |= {f"rule: {k}": v for k, v in Rules(train).scores(held + strange).items()}
        for name, score in rows.items():
            results.setdefault(name, []).append(float(roc_auc_score(abnormal, score)))
    for name, values in results.items():
        each = ", ".join(f"{value:.3f}" for value in values)
        yield (f"| {name} | {np.mean(values):.3f} | {each} |")


def openstack() -> Iterator[str]:
    """OpenStack, 50 training sessions: whether virtual machines fail."""
    folder = Path(os.environ["TSMAMBA_DATA"]) / "log_sequences" / "openstack_kalaki"
    train = _sequences(folder / "openstack_train.gz")
    usual = _sequences(folder / "openstack_test_normal.gz")
    strange = _sequences(folder / "openstack_test_abnormal.gz")
    abnormal = np.array([False] * len(usual) + [True] * len(strange))
    detector = LogDetector(session=SESSION, session_timeout=None, trim=0.0).fit(frame(train))
    found = scored(detector, usual + strange)
    yield (f"\nOpenStack (Kalaki), {len(train)} training sessions\n")
    yield ("| score | AP | F1 at <= .1 % false alarms (share) |")
    yield ("| --- | --- | --- |")
    rows = {"LogDetector": found["score"].to_numpy()}
    rows |= {f"rule: {k}": v for k, v in Rules(train).scores(usual + strange).items()}
    for name, score in rows.items():
        best, share = f1_within(score, abnormal, np.ones(len(abnormal)))
        yield (
            f"| {name} | {average_precision_score(abnormal, score):.3f} "
            f"| {best:.3f} ({share:.2%}) |"
        )


def _sequences(path: Path) -> Sessions:
    """Read ``id,e1 e2 e3 ...`` lines; events are numbered in the order in which they are met."""
    lines: Iterable[str] = gzip.decompress(path.read_bytes()).decode().splitlines()
    return [[int(event) for event in line.rpartition(",")[2].split()] for line in lines if line]


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "hdfs_clean": hdfs_clean,
    "hdfs_chronological": hdfs_chronological,
    "adfa": adfa,
    "openstack": openstack,
}


def main(names: list[str]) -> None:
    """Write the tables of these names, all by default."""
    sys.stdout.write(f"{environment()}\n")
    for name in names or TABLES:
        for line in TABLES[name]():
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
