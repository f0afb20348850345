"""Find what went wrong in the log of a web service, and draw the day.

The log is made: three usual days to learn from, and a fourth with five faults at known times. Logs,
model and picture are written to the folder given as argument, `demo-output` by default; the picture
needs `tsmamba[plot]`.
"""

# %%
import importlib.util
import sys
from pathlib import Path

import polars as pl

from tsmamba import LogDetector
from tsmamba.logs.plot import plot_log_scores
from tsmamba_datasets import make_service_logs

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output")
folder.mkdir(exist_ok=True)
usual, today, model = folder / "usual.log", folder / "today.log", folder / "service.tsm"

made = make_service_logs(days=4, faults=True)
fourth = pl.col("line").str.starts_with("ts=2026-03-05")
labelled = made.filter(fourth)
usual.write_text("\n".join(made.filter(~fourth)["line"]) + "\n")
today.write_text("\n".join(labelled["line"]) + "\n")
print(labelled["line"][1])

# %% Learn three days. What follows what is told within a service.
detector = LogDetector(stream_by=("service",)).fit(usual)
detector.save(model)
report = detector.report_
print(f"{report['lines']:,} lines of {report['formats']}, {report['templates']} templates")

# %% Score the fourth: a row for each line, and one for each regular line that did not come.
scores = detector.score(today)

# %% Alerts of one service and one reason, close to each other, are one episode.
episodes = (
    scores.filter("is_anomaly")
    .group_by("episode_id", maintain_order=True)
    .agg(
        pl.col("stream", "reason", "message").first(),
        pl.len().alias("alerts"),
        start=pl.col("time").first(),
        end=pl.col("time").last(),
    )
)
for row in episodes.iter_rows(named=True):
    print("{start:%H:%M:%S}  {alerts:4} × {reason:16} {stream:7} {message}".format(**row))

# %% The same in a shell, and in words with all that a score is made of.
print(f"tsmamba logs fit {usual} --model {model} --stream-key service")
print(f"tsmamba logs score {today} --model {model} --only episodes")
print(f"tsmamba logs explain {today} --model {model}")

# %% Which faults were found, and what else alerted? A fault reaches from the row of its service
# before its first line to its last line: of a silence only the line after it is there.
faults = (
    scores.join(labelled.select("fault", line_no=pl.int_range(1, pl.len() + 1)), on="line_no")
    .with_columns(before=pl.col("time").shift().over("stream"))
    .drop_nulls("fault")
    .group_by(name="fault", service="stream", maintain_order=True)
    .agg(since=pl.col("before").first(), until=pl.col("time").last())
)
hits = episodes.join_where(
    faults,
    pl.col("stream") == pl.col("service"),
    pl.col("start") <= pl.col("until"),
    pl.col("end") >= pl.col("since"),
)
for name in faults["name"]:
    hit = hits.filter(pl.col("name") == name).sort("start")
    if hit.is_empty():
        print(f"{name:10} missed")
    else:
        reasons = ", ".join(hit["reason"].unique(maintain_order=True))
        print(f"{name:10} found at {hit['start'][0]:%H:%M:%S}: {reasons}")
days = (scores["time"].max() - scores["time"].min()).total_seconds() / 86_400
wrong = episodes.join(hits, on="episode_id", how="anti").height
print(f"false episodes a day: {wrong / days:.1f}")

# %%
if importlib.util.find_spec("matplotlib"):
    incidents = faults.rename({"since": "start", "until": "end"})
    plot_log_scores(scores, incidents=incidents, path=folder / "logs.png")
    print(f"plot: {folder / 'logs.png'}")
