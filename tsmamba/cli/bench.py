"""``tsmamba bench``: what articles claim of Mamba, beside what this machine gives."""

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsmamba.benchmark.claims import CLAIMS, Piece
from tsmamba.cli.doctor import examine
from tsmamba.cli.messages import plain_errors, say

if TYPE_CHECKING:
    from tsmamba.benchmark.claims import Finding
    from tsmamba.benchmark.plan import Plan

app = typer.Typer()

_PEERS = ("mambapy", "transformers")

_Only = Annotated[
    list[Piece] | None,
    typer.Option(help=f"One piece alone, repeatable: {', '.join(Piece)}.", metavar="NAME"),
]
_Quick = Annotated[
    bool, typer.Option("--quick", help="An eighth of all lengths, for a first look.")
]
_Json = Annotated[Path | None, typer.Option("--json", help="File for all numbers.", metavar="FILE")]
_Plot = Annotated[Path | None, typer.Option(help="File for a picture.", metavar="FILE")]


@app.command()
def bench(
    only: _Only = None, quick: _Quick = False, json_file: _Json = None, plot: _Plot = None
) -> None:
    """Measure what articles claim of Mamba, and show each claim beside the number of this machine.

    All of it takes some minutes and some gigabytes of memory. Progress goes to stderr.
    """
    with plain_errors():
        _check_outputs(json_file, plot)
        from tsmamba.benchmark.plan import Plan

        plan = Plan().shortened() if quick else Plan()
        started = time.perf_counter()
        findings = _measure(list(dict.fromkeys(only or Piece)), plan)
        environment = _environment()
        _show(findings, environment, time.perf_counter() - started)
        if quick:
            say(
                "note", "--quick divides all lengths by eight; verdicts are for those of a full run"
            )
        if json_file is not None:
            _write(json_file, findings, environment, plan)
        if plot is not None:
            from tsmamba.benchmark.plot import draw

            draw(findings, _place(environment), plot)


def _check_outputs(json_file: Path | None, plot: Path | None) -> None:
    """Refuse what could not be written, before minutes of work."""
    from tsmamba.cli.tables import check_folder

    for path in (json_file, plot):
        if path is not None:
            check_folder(path)
    if plot is not None:
        from tsmamba.benchmark.plot import check_format

        check_format(plot)


def _measure(pieces: list[Piece], plan: "Plan") -> "dict[Piece, Finding]":
    from tsmamba.benchmark.run import measure

    findings = {}
    for number, piece in enumerate(pieces, start=1):
        typer.echo(f"[{number}/{len(pieces)}] {piece}: {CLAIMS[piece].statement}", err=True)
        findings[piece] = measure(piece, plan)
    return findings


def _environment() -> dict[str, Any]:
    """Collect what the numbers hold for."""
    from tsmamba.benchmark.run import SEED

    report = examine()
    peers = {name: metadata.version(name) for name in _PEERS if find_spec(name) is not None}
    return {
        **report,
        "versions": report["versions"] | peers,
        "dtype": "float32",
        "device": "cpu",
        "seed": SEED,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _place(environment: dict[str, Any]) -> str:
    """Say in one line what the numbers hold for."""
    versions = environment["versions"]
    packages = ("tsmamba", "torch", *_PEERS)
    return ", ".join(
        [
            f"{environment['dtype']} on {environment['device']}: {environment['cpu']['model']}",
            f"threads {environment['threads']['torch']}",
            f"kernels {environment['backends']['selective_scan']}",
            *(f"{name} {versions[name]}" for name in packages if name in versions),
            f"seed {environment['seed']}",
            environment["date"],
        ]
    )


def _show(findings: "dict[Piece, Finding]", environment: dict[str, Any], seconds: float) -> None:
    from rich.console import Console
    from rich.text import Text

    from tsmamba.benchmark.report import table

    console = Console(highlight=False)
    console.print(table(findings))
    for piece, finding in findings.items():
        for note in finding.notes:
            # Text, not str: square brackets in a pip command are no markup.
            console.print(Text(f"{piece}: {note}"))
    console.print(Text(f"{_place(environment)}; {seconds:.0f} s in all"))


def _write(
    path: Path, findings: "dict[Piece, Finding]", environment: dict[str, Any], plan: "Plan"
) -> None:
    from tsmamba.benchmark.report import record

    report = {
        "environment": environment,
        "plan": asdict(plan),
        "findings": [record(piece, finding) for piece, finding in findings.items()],
    }
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
