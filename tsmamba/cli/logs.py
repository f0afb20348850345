"""``tsmamba logs``: learn a log, score another one as it grows."""

import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tsmamba.cli.kafka import Config, Group, KafkaOptions, OutputTopic, Partitions, Place
from tsmamba.cli.messages import plain_errors, say
from tsmamba.cli.signals import signals_to

if TYPE_CHECKING:
    from tsmamba.logs.checkpoint import Checkpoint
    from tsmamba.logs.result import LogResult
    from tsmamba.logs.service import Output, Scorer
    from tsmamba.logs.sources import Source

app = typer.Typer(no_args_is_help=True)

_ALERTED = 3

_Sources = Annotated[
    list[str] | None,
    typer.Argument(help="Files, or - for standard input, the default.", metavar="SOURCE"),
]
_Model = Annotated[Path, typer.Option("--model", "-m", help="Model file.", dir_okay=False)]
_Only = Annotated[Literal["all", "alerts", "episodes"], typer.Option(help="What to write.")]
_Follow = Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, over rotations.")]
_ReadFrom = Annotated[Literal["beginning", "end"], typer.Option(help="Where to start in a file.")]
_Checkpoint = Annotated[
    Path | None, typer.Option(help="File that keeps how far it came; goes on from there.")
]
_Every = Annotated[float, typer.Option(help="Seconds between two commits.", min=0.0)]
_Fail = Annotated[bool, typer.Option("--fail-on-alert", help="Exit with 3 if there was an alert.")]
_Port = Annotated[
    int | None, typer.Option(help="Serve counters for Prometheus on loopback.", min=0)
]

_WORDS = {
    "unseen_template": "a kind of line that was never seen",
    "rare_template": "a kind of line that is rarely seen",
    "sequence": "not what follows here",
    "value": "a number far out",
    "level": "numbers whose level has moved",
    "gap": "came too late",
    "rate": "too many a minute",
    "silence": "comes regularly, and did not come",
    "counts": "lines in numbers that were not seen",
    "transition": "two lines in an order that was not seen",
    "distance": "far from every session that was seen",
    "network": "not what the networks expect here",
}


@app.command()
def fit(
    sources: _Sources = None,
    *,
    model: _Model,
    session: Annotated[
        str | None, typer.Option(help="Field, or regular expression, that tells sessions apart.")
    ] = None,
    session_timeout: Annotated[
        float, typer.Option(help="Seconds without a line that end a session; 0 is never.", min=0)
    ] = 3_600.0,
    stream_key: Annotated[
        str, typer.Option(help="Fields that tell streams apart, such as service,host.")
    ] = "",
    false_alarm_rate: Annotated[
        float | None, typer.Option(help="Share of normal records that may alert.")
    ] = None,
    trim: Annotated[
        float | None, typer.Option(help="Share of the sessions to leave out, the rarest.")
    ] = None,
    network: Annotated[
        str | None, typer.Option(help="mamba: networks that read the order of lines as well.")
    ] = None,
    format: Annotated[
        str, typer.Option(help="auto, raw, json, logfmt, syslog, cri, docker or otlp.")
    ] = "auto",
    time_format: Annotated[
        str | None, typer.Option(help="Format of time stamps, as for strptime.")
    ] = None,
    time_zone: Annotated[str, typer.Option(help="Zone of stamps that name none.")] = "UTC",
) -> None:
    """Learn what is usual from logs, and write a model file."""
    with plain_errors():
        from tsmamba.cli.tables import check_folder
        from tsmamba.logs.fitting import fitted_state
        from tsmamba.logs.saved import save_state
        from tsmamba.logs.settings import LogSettings

        settings = LogSettings(
            session=session,
            session_timeout=session_timeout or None,
            stream_by=tuple(name for name in stream_key.split(",") if name),
            false_alarm_rate=false_alarm_rate,
            trim=trim,
            network=network,
            format=format,
            time_format=time_format,
            time_zone=time_zone,
        )
        check_folder(model)
        paths = [Path(name) for name in sources or ["-"]]
        with _progress() as advance:
            state = fitted_state(paths, settings, advance)
        save_state(model, state)
        report = state["report"]
        say("note", f"{_learned(report)}; the model is in {model}")
        _say_unparsed(report["unparsed"])


@app.command()
def score(
    sources: _Sources = None,
    *,
    model: _Model,
    only: _Only = "all",
    follow: _Follow = False,
    read_from: _ReadFrom = "beginning",
    checkpoint: _Checkpoint = None,
    checkpoint_every: _Every = 5.0,
    fail_on_alert: _Fail = False,
    metrics_port: _Port = None,
    kafka: Place = None,
    kafka_output: OutputTopic = None,
    kafka_group: Group = "tsmamba",
    kafka_partitions: Partitions = "",
    kafka_config: Config = None,
) -> None:
    """Score lines as they come, and write one JSON object for each on standard output."""
    topics = KafkaOptions(kafka, kafka_output, kafka_group, kafka_partitions, kafka_config)
    with plain_errors(), ExitStack() as stack:
        from tsmamba.logs.monitor import Monitor
        from tsmamba.logs.service import Scorer

        topics.check(sources)
        stop = Event()
        source, out, committed = _ends(sources, topics, follow, read_from, stop)
        stack.callback(source.close)
        # After all that may be refused, so that such a call leaves no file behind.
        state, kept = _opened(model, checkpoint, stack)
        scorer = Scorer(
            source,
            state,
            out,
            only=only,
            checkpoint=kept,
            every=checkpoint_every,
            tell=partial(say, "warning"),
            committed=committed,
            stop=stop,
        )
        # The model lives as long as the process: nothing in it is garbage.
        gc.freeze()
        stack.enter_context(signals_to(stop))
        if metrics_port is not None:
            stack.enter_context(Monitor(scorer.counters, metrics_port))
        with _quiet_pipe():
            scorer.run()
        _say_done(scorer)
        if scorer.counters.alerts and fail_on_alert:
            raise typer.Exit(_ALERTED)


@app.command()
def templates(model: _Model) -> None:
    """List the templates of a model, one JSON object a line."""
    with plain_errors():
        for number, text in _stream(model).templates():
            typer.echo(json.dumps({"template_id": number, "template": text}))


@app.command()
def explain(
    sources: _Sources = None,
    *,
    model: _Model,
    everything: Annotated[bool, typer.Option("--all", help="Not the alerts alone.")] = False,
) -> None:
    """Say in words why the lines of a log alert."""
    with plain_errors():
        for result in _scored(model, sources):
            if everything or result.is_anomaly:
                typer.echo(_sentence(result))


@app.command()
def replay(sources: _Sources = None, *, model: _Model) -> None:
    """Score a log of the past, and say how many alerts there would have been."""
    with plain_errors():
        from tsmamba.logs.result import iso

        reasons: Counter[str] = Counter()
        days: Counter[str] = Counter()
        total = alerts = 0
        for result in _scored(model, sources):
            total += 1
            if result.is_anomaly:
                alerts += 1
                reasons[result.reason] += 1
                days["no time" if result.time is None else iso(result.time)[:10]] += 1
        typer.echo(f"{total:,} results, {alerts:,} alerts")
        for reason, count in reasons.most_common():
            typer.echo(f"  {count:>7,}  {reason}: {_WORDS[reason]}")
        for day, count in sorted(days.items()):
            typer.echo(f"  {day}  {count:,}")


def _opened(
    model: Path, checkpoint: Path | None, stack: ExitStack
) -> "tuple[dict[str, Any], Checkpoint | None]":
    """Return the state of a model, and the checkpoint that goes with it if there is a file."""
    from tsmamba.logs.checkpoint import Checkpoint
    from tsmamba.logs.saved import digest_of, load_state

    state = load_state(model)
    if checkpoint is None:
        return state, None
    return state, stack.enter_context(Checkpoint(checkpoint, model=digest_of(state)))


def _ends(
    sources: list[str] | None,
    topics: KafkaOptions,
    follow: bool,
    read_from: Literal["beginning", "end"],
    stop: Event,
) -> "tuple[Source, Output, Callable[[], None]]":
    """Return what is read, what is written to, and what is to be told of commits."""
    from tsmamba.logs.sources import open_sources

    if topics.place is None:
        source = open_sources(sources or ["-"], follow=follow, read_from=read_from)
        return source, sys.stdout.buffer, lambda: None
    topic, output = topics.open(
        follow=follow, read_from=read_from, stop=stop, tell=partial(say, "warning")
    )
    return topic, output or sys.stdout.buffer, topic.commit


def _stream(model: Path) -> Any:
    from tsmamba.logs.saved import load_state
    from tsmamba.logs.stream import LogStream

    return LogStream(load_state(model))


def _scored(model: Path, sources: list[str] | None) -> "Iterator[LogResult]":
    stream = _stream(model)
    yield from stream.results_of([Path(name) for name in sources or ["-"]])


def _sentence(result: "LogResult") -> str:
    from tsmamba.logs.result import iso

    parts = sorted(result.parts.items(), key=lambda part: -part[1])
    shares = ", ".join(f"{name} {value:.2f}" for name, value in parts if value >= 0.01)
    place = f"{result.source}:{result.line_no}"
    score = "warm-up" if result.score is None else f"{result.score:.2f}"
    what = result.message or result.template
    when = "-" if result.time is None else iso(result.time)
    return (
        f"{when}  {place}  {result.stream}\n"
        f"  {what}\n"
        f"  score {score}, {_WORDS[result.reason]} ({shares})"
    )


def _say_done(scorer: "Scorer") -> None:
    say("note", f"{scorer.counters.lines:,} lines, {scorer.counters.alerts:,} alerts")
    _say_unparsed(scorer.stream.unparsed)


def _learned(report: dict[str, Any]) -> str:
    sessions = "" if report["sessions"] is None else f", {report['sessions']:,} sessions"
    formats = ", ".join(report["formats"])
    return f"{report['lines']:,} lines ({formats}), {report['templates']:,} templates{sessions}"


def _say_unparsed(unparsed: dict[str, int]) -> None:
    if unparsed:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in sorted(unparsed.items()))
        say("note", f"lines that did not fit: {counts}")


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Count the lines on a terminal; say nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda lines: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} lines"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda lines: bar.update(task, advance=lines)


@contextmanager
def _quiet_pipe() -> Iterator[None]:
    """End without a word when nobody reads standard output any more."""
    try:
        yield
    except BrokenPipeError:
        # Python flushes standard output once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
