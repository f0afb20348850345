"""Findings as a table for people and as records for programs."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from tsmamba.benchmark.claims import CLAIMS, Claim, Finding, Measurement, Piece, Quantity

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "\N{MICRO SIGN}s"), (1e-9, "ns"))
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_STYLES = {"holds": "green", "higher": "green", "not reached here": "yellow"}


def table(findings: Mapping[Piece, Finding]) -> Table:
    """Return one row for each measurement, under the claim that it is held against.

    Parameters
    ----------
    findings : dict of Piece to Finding
        What was found.

    Returns
    -------
    rich.table.Table
        Claim and source, what was measured with both quantities, the result, and the verdict.

    Examples
    --------
    >>> table({Piece.loop: Finding([])}).row_count
    0
    """
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column("claim and source", ratio=3)
    shown.add_column("measured here: ours, baseline", ratio=5)
    shown.add_column("result", justify="right", no_wrap=True)
    shown.add_column("verdict", no_wrap=True)
    for piece, finding in findings.items():
        claim = CLAIMS[piece]
        for number, measurement in enumerate(finding.measurements):
            verdict = claim.verdict(measurement)
            shown.add_row(
                Text.assemble((claim.statement, "bold"), f"\n{claim.source}")
                if number == 0
                else "",
                _both(measurement),
                Text(result(claim, measurement), style="bold"),
                Text(verdict, style=_STYLES.get(verdict, "dim")),
                end_section=number == len(finding.measurements) - 1,
            )
    return shown


def record(piece: Piece, finding: Finding) -> dict[str, Any]:
    """Return a finding in JSON types.

    Parameters
    ----------
    piece : Piece
        Which piece found it.
    finding : Finding
        What it found.

    Returns
    -------
    dict
        ``piece``, ``claim``, ``source``, ``unit``, ``claimed``, ``measurements``, ``curves`` and
        ``notes``.

    Examples
    --------
    >>> record(Piece.loop, Finding([]))["claimed"]
    [47, 47]
    """
    claim = CLAIMS[piece]
    return {
        "piece": piece.value,
        "claim": claim.statement,
        "source": claim.source,
        "unit": claim.unit,
        "claimed": None if claim.claimed is None else list(claim.claimed),
        "measurements": [
            asdict(m) | {"value": claim.value(m), "verdict": claim.verdict(m)}
            for m in finding.measurements
        ],
        "curves": {
            name: [list(point) for point in curve] for name, curve in finding.curves.items()
        },
        "notes": finding.notes,
    }


def quantity(shown: Quantity) -> str:
    """Return a quantity with a unit that suits its size.

    Examples
    --------
    >>> quantity(Quantity("loop", 0.8521, "s")), quantity(Quantity("state", 19456, "B"))
    ('852 ms', '19.0 KiB')
    """
    scales = _TIMES if shown.unit == "s" else _SIZES
    scale, unit = next((s for s in scales if shown.value >= s[0]), scales[-1])
    return f"{_digits(shown.value / scale)} {unit}"


def result(claim: Claim, measurement: Measurement) -> str:
    """Return the measured value as it stands beside the claim.

    Examples
    --------
    >>> ours, theirs = Quantity("scan", 0.02, "s"), Quantity("loop", 0.8, "s")
    >>> result(CLAIMS[Piece.latency], Measurement("forward", ours, theirs))
    '97.5 % lower'
    """
    value = claim.value(measurement)
    if claim.unit == "exponent":
        return f"L^{value:.2f}"
    if claim.unit == "%":
        return f"{abs(value):.1f} % {'lower' if value >= 0 else 'higher'}"
    return f"{_digits(value)}x"


def _both(measurement: Measurement) -> Text:
    sides = (measurement.ours, measurement.baseline)
    lines = [f"{side.name} {quantity(side)}" for side in sides if side is not None]
    return Text("\n".join([measurement.what, *lines]))


def _digits(value: float) -> str:
    """Three digits, and all of those before the point."""
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{decimals}f}"
