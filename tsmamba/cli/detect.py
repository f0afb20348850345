"""``tsmamba detect``: a table in, scores of its rows and episodes of anomalies out."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsmamba.cli.flags import File, IdCol, Target, TimeCol
from tsmamba.cli.messages import plain_errors, say
from tsmamba.cli.outputs import PANEL, Outputs, Plot

if TYPE_CHECKING:
    import polars as pl

    from tsmamba import MambaDetector
    from tsmamba.cli.columns import Channels, Wanted

app = typer.Typer()

_NORMAL = "Normal rows, one of these"
_DETECTOR = "Detector"
_EPISODES = 20
_STAMP = len("2024-03-31 17:05:00")


class Mode(StrEnum):
    """Where a score looks."""

    offline = "offline"
    streaming = "streaming"


class Preset(StrEnum):
    """What is to be found."""

    auto = "auto"
    alerts = "alerts"
    tiny = "tiny"


# Settings that a preset does without.
_IDLE = {Preset.alerts: ("mode", "period"), Preset.tiny: ("period",)}

# The flags, one type each, so that the command itself stays readable.
_Train = Annotated[
    int | None,
    typer.Option(min=1, help="Rows at the top of FILE to fit on.", rich_help_panel=_NORMAL),
]
_Fit = Annotated[
    Path | None,
    typer.Option(
        help="Table to fit on, with the columns of FILE.",
        exists=True,
        dir_okay=False,
        rich_help_panel=_NORMAL,
    ),
]
_Model = Annotated[
    Path | None,
    typer.Option(
        help="Saved detector to use as it is.",
        exists=True,
        dir_okay=False,
        rich_help_panel=_NORMAL,
    ),
]
_Out = Annotated[
    Path | None,
    typer.Option(help="File for the scores; - writes CSV to stdout.", rich_help_panel=PANEL),
]
_Save = Annotated[
    Path | None, typer.Option(help="File to keep the detector in.", rich_help_panel=PANEL)
]
_Preset = Annotated[
    Preset | None,
    typer.Option(
        help="auto sees shapes, alerts tells when something rare begins, tiny judges every row by "
        "itself; auto if not given.",
        rich_help_panel=_DETECTOR,
    ),
]
_Mode = Annotated[
    Mode | None,
    typer.Option(
        help="offline looks both ways, streaming only back; offline if not given.",
        rich_help_panel=_DETECTOR,
    ),
]
_Delay = Annotated[
    str | None,
    typer.Option(
        help="Rows that streaming waits before it scores one, or p/4, p/2 or p; 0 if not given.",
        rich_help_panel=_DETECTOR,
    ),
]
_Calibration = Annotated[
    str | None,
    typer.Option(
        help="How the threshold is found: quantile, spot, dspot, conformal or rate.",
        rich_help_panel=_DETECTOR,
    ),
]
_Contamination = Annotated[
    float | None,
    typer.Option(help="Share of the rows of the fit to call anomalies.", rich_help_panel=_DETECTOR),
]
_Period = Annotated[
    int | None,
    typer.Option(min=1, help="Period in rows; found if not given.", rich_help_panel=_DETECTOR),
]


@dataclass(frozen=True)
class Normal:
    """Where the normal rows come from.

    Parameters
    ----------
    train : int, optional
        That many rows at the top of the table.
    fit, model : Path, optional
        Another table, or a detector that was fitted before.

    Examples
    --------
    >>> Normal(train=1_000).check()
    """

    train: int | None = None
    fit: Path | None = None
    model: Path | None = None

    def check(self) -> None:
        """Refuse none of them, and more than one."""
        from tsmamba.errors import ParameterError

        flags = {"--train": self.train, "--fit": self.fit, "--model": self.model}
        given = [flag for flag, value in flags.items() if value is not None]
        if not given:
            raise ParameterError(
                "which rows are normal? Give --train N for the first N rows of the table, --fit "
                "FILE for another table, or --model FILE for a saved detector"
            )
        if len(given) > 1:
            raise ParameterError(f"{' and '.join(given)} exclude each other; give one of them")


@app.command()
def detect(
    file: File,
    train: _Train = None,
    fit: _Fit = None,
    model: _Model = None,
    out: _Out = None,
    plot: Plot = None,
    save: _Save = None,
    id_col: IdCol = None,
    time_col: TimeCol = None,
    target: Target = None,
    preset: _Preset = None,
    mode: _Mode = None,
    delay: _Delay = None,
    calibration: _Calibration = None,
    contamination: _Contamination = None,
    period: _Period = None,
) -> None:
    """Find anomalies in the rows of FILE, one series with a column for each channel.

    Scores of 1 and more are alerts; those that belong together are one episode.
    """
    with plain_errors():
        from tsmamba.cli.columns import Wanted

        outputs, normal = Outputs(out, plot, save), Normal(train, fit, model)
        normal.check()
        outputs.check()
        wanted = Wanted(id_col, time_col, tuple(target or ()))
        settings = {
            "--preset": ("preset", preset and preset.value),
            "--mode": ("mode", mode and mode.value),
            "--delay": ("delay", int(delay) if delay and delay.isdigit() else delay),
            "--calibration": ("calibration", calibration),
            "--contamination": ("contamination", contamination),
            "--period": ("period", period),
        }
        given = {flag: pair for flag, pair in settings.items() if pair[1] is not None}
        started = time.perf_counter()
        if model is None:
            run = _fit(file, normal, wanted, dict(given.values()))
        else:
            saving = ["--save"] * (save is not None)
            run = _apply(file, model, [*given, *dict(wanted.flags), *saving])
        _deliver(run, outputs, started)


@dataclass(frozen=True)
class _Run:
    """A detector and what it is to score."""

    channels: "Channels"
    detector: "MambaDetector"


def _fit(file: Path, normal: Normal, wanted: "Wanted", settings: dict[str, Any]) -> _Run:
    """Fit a detector on the normal rows."""
    from tsmamba import MambaDetector
    from tsmamba.cli.columns import TIME
    from tsmamba.errors import ParameterError

    rows = _read(normal.fit or file, wanted)
    known = rows.frame
    if normal.train is not None:
        if normal.train > known.height:
            raise ParameterError(
                f"--train {normal.train}: {file} has {known.height} rows; give a smaller number"
            )
        known = known.head(normal.train)
    _note_idle(settings)
    detector = MambaDetector(time_col=rows.time_col or TIME, **settings).fit(known)
    if normal.fit is not None:
        same = replace(wanted, time_col=rows.time_col, targets=tuple(rows.names))
        rows = _read(file, same, normal.fit)
    return _Run(rows, detector)


def _note_idle(settings: dict[str, Any]) -> None:
    """Say which settings change nothing beside others."""
    preset = settings.get("preset", Preset.auto)
    for name in _IDLE.get(preset, ()):
        if name in settings:
            say("note", f"--{name} has no say with --preset {preset}")
    if preset == Preset.auto and settings.get("delay") and settings.get("mode") != Mode.streaming:
        say("note", "--delay counts in streams only; add --mode streaming to see what it does")


def _apply(file: Path, model: Path, fitting_flags: Sequence[str]) -> _Run:
    """Take a saved detector, which brings its own columns and settings."""
    from tsmamba import MambaDetector
    from tsmamba.cli.columns import Wanted
    from tsmamba.errors import ParameterError

    if fitting_flags:
        raise ParameterError(
            f"{', '.join(fitting_flags)} cannot go with --model: {model} keeps its own settings; "
            "leave one or the other out"
        )
    detector = MambaDetector.load(model)
    names = getattr(detector, "feature_names_in_", ())
    return _Run(_read(file, Wanted(targets=tuple(names)), model, detector.time_col), detector)


def _read(
    file: Path, wanted: "Wanted", source: Path | None = None, usual_time: str | None = None
) -> "Channels":
    """Read a table and say what was guessed of it."""
    from tsmamba.cli.columns import ID, choose_channels
    from tsmamba.cli.tables import read_table

    table = read_table(file, keep_text=wanted.id_col or ID)
    if usual_time in table.columns:
        wanted = replace(wanted, time_col=usual_time)
    channels = choose_channels(table, wanted, file, source)
    for note in channels.notes:
        say("note", note)
    return channels


def _deliver(run: _Run, outputs: Outputs, started: float) -> None:
    """Write what was asked for, and show the episodes."""
    import polars as pl

    from tsmamba.cli.summary import show
    from tsmamba.cli.tables import write_table

    detector, rows = run.detector, run.channels
    if outputs.save is not None:
        detector.save(outputs.save)
    scores = _scores(run)
    episodes = detector.episodes(rows.frame)
    if outputs.out is not None:
        write_table(scores, outputs.out)
    if outputs.plot is not None:
        detector.plot(rows.frame, path=outputs.plot)
    facts = _facts(run, scores, episodes)
    facts["seconds"] = f"{time.perf_counter() - started:.1f}"
    facts |= outputs.places("scores")
    table = episodes.select(
        pl.col("start", "end").cast(pl.String).str.head(_STAMP),
        "peak",
        pl.col("n_steps").alias("rows"),
        pl.col("channels").list.join(", "),
    )
    keys = ["start", "end", "channels"]
    show(table, keys, facts, on_stderr=outputs.on_stdout, rows=_EPISODES)


def _facts(run: _Run, scores: "pl.DataFrame", episodes: "pl.DataFrame") -> dict[str, str]:
    """Sum up what was done and found."""
    detector = run.detector
    facts = {"rows": f"{scores.height:,}", "channels": ", ".join(run.channels.names)}
    idle = _IDLE.get(Preset(detector.preset), ())
    if detector.preset != Preset.auto:
        facts["preset"] = detector.preset
    if "mode" not in idle:
        facts["mode"] = detector.mode
    if "period" not in idle:
        facts["period"] = f"{detector.plan_.period:,} rows"
    facts["alerts"] = f"{scores['is_anomaly'].sum():,} rows in {episodes.height:,} episodes"
    if "mode" not in idle and detector.mode == Mode.streaming:
        facts["delay"] = f"{detector.plan_.delay:,} rows"
    unscored = scores["score"].null_count()
    if unscored:
        facts["no score"] = f"{unscored:,} rows"
    return facts


def _scores(run: _Run) -> "pl.DataFrame":
    """Return the scores of all rows as a table."""
    import polars as pl

    from tsmamba.anomaly.table import score_table

    frame, time_col = run.channels.frame, run.channels.time_col
    times = pl.int_range(frame.height, eager=True) if time_col is None else frame[time_col]
    return score_table(run.detector, frame).insert_column(0, times.alias("time"))
