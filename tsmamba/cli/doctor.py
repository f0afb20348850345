"""``tsmamba doctor``: which kernel runs on this machine, and why not a faster one."""

import json
import os
import platform
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from tsmamba import __version__

app = typer.Typer()

PACKAGES = ("torch", "numpy", "polars", "narwhals", "scikit-learn", "safetensors")
EXTRAS = {
    "plot": ("matplotlib",),
    "datasets": ("pooch",),
    "pytorch-forecasting": ("pytorch_forecasting",),
    "tune": ("optuna",),
    "kafka": ("confluent_kafka",),
    "mlflow": ("mlflow",),
    "serve": ("fastapi", "filelock", "prometheus_client", "uvicorn"),
    "ray": ("ray",),
    "gpu-metrics": ("nvidia_ml_py",),
}

# Of all that a processor can do, what decides the width of the kernels.
_RELEVANT = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512dq", "avx512vl", "asimd", "sve")


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show versions, processor, compute backend and optional packages.

    The exit code is 1 when the compiled kernels cannot be used.
    """
    report = examine()
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        _show(report)
    if not report["native"]:
        raise typer.Exit(1)


def examine() -> dict[str, Any]:
    """Collect everything the doctor tells.

    Returns
    -------
    dict
        JSON types only: ``versions``, ``cpu``, ``threads``, ``backends``, ``library``, ``native``
        (whether the compiled kernels can be used) and ``extras``.

    Examples
    --------
    >>> examine()["backends"]["reference"]
    'available'
    """
    import torch

    backends = _backends()
    spec = find_spec("tsmamba_kernels._tsm_cpu")
    return {
        "versions": {
            "tsmamba": __version__,
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
        },
        "cpu": {"model": _cpu_model(), "instruction_sets": _instruction_sets()},
        "threads": {"torch": torch.get_num_threads(), "processors": os.cpu_count()},
        "backends": backends,
        "library": spec.origin if spec is not None else None,
        "native": backends["native"].startswith("available"),
        "extras": {extra: _extra(extra) for extra in EXTRAS},
    }


def _backends() -> dict[str, str]:
    """Ask the kernels, after one call of each, so that the report says what really ran."""
    import torch

    import tsmamba_kernels as kernels
    from tsmamba_kernels.errors import KernelError

    x = torch.ones(1, 4, 2)
    state = torch.ones(1, 4, 3)
    failures = {}
    calls: dict[str, Callable[[], object]] = {
        "causal_conv1d": lambda: kernels.causal_conv1d(x, torch.ones(2, 3)),
        "selective_scan": lambda: kernels.selective_scan(x, x, -torch.ones(2, 3), state, state),
    }
    for name, call in calls.items():
        try:
            call()
        except KernelError as error:
            failures[name] = f"failed: {error}"
    return {**kernels.backend_report(), **failures}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extra(extra: str) -> str:
    versions = {package: _version(package) for package in EXTRAS[extra]}
    if None in versions.values():
        return f'not installed: pip install "tsmamba[{extra}]"'
    return ", ".join(f"{package} {version}" for package, version in versions.items())


def _cpu_fields() -> dict[str, str]:
    """Read the first processor from Linux; other systems have no such file."""
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return {}
    first = info.read_text(encoding="utf-8").split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _cpu_model() -> str:
    return _cpu_fields().get("model name") or platform.processor() or platform.machine()


def _instruction_sets() -> list[str]:
    fields = _cpu_fields()
    seen = set((fields.get("flags") or fields.get("Features") or "").split())
    return [name for name in _RELEVANT if name in seen]


def _show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    threads = report["threads"]
    groups = {
        "versions": {k: v or "not installed" for k, v in report["versions"].items()},
        "processor": {
            "model": report["cpu"]["model"],
            "instructions": " ".join(report["cpu"]["instruction_sets"]) or "unknown",
            "threads": f"{threads['torch']} used by torch, {threads['processors']} processors",
        },
        "kernels": {**report["backends"], "library": report["library"] or "not built"},
        "extras": report["extras"],
    }
    for group, entries in groups.items():
        for number, (name, value) in enumerate(entries.items()):
            # Text, not str: square brackets in a pip command are no markup.
            table.add_row(group if number == 0 else "", name, Text(value))
    console = Console()
    console.print(table)
    ran = report["backends"]["selective_scan"]
    if not report["native"]:
        verdict = "The compiled kernels cannot be used; forecasts work, but training is slower."
    elif ran.startswith("native"):
        verdict = "The compiled kernels are in use."
    else:
        verdict = "The compiled kernels are there, but TSMAMBA_BACKEND asks for another backend."
    console.print(f"\n{verdict}")
