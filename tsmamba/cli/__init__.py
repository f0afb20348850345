"""The command ``tsmamba``. Heavy packages are imported inside the commands: help must be quick."""

from collections.abc import Sequence
from typing import Annotated

import typer

from tsmamba import __version__
from tsmamba.cli import advise, bench, detect, doctor, forecast, logs, score_parquet, serve

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    # Python's own traceback for what nobody foresaw.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(forecast.app)
app.add_typer(detect.app)
app.add_typer(advise.app)
app.add_typer(doctor.app)
app.add_typer(bench.app)
app.add_typer(serve.app)
app.add_typer(score_parquet.app)
app.add_typer(logs.app, name="logs", help="Find what is wrong in logs.")


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"tsmamba {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and exit.",
            is_eager=True,
            callback=_show_version,
        ),
    ] = False,
) -> None:
    """Forecasts and anomalies of long time series, on the machine you have."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; the entry point of the installed command.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the name of the command; that of the process by default.

    Examples
    --------
    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    app(None if arguments is None else list(arguments), prog_name="tsmamba")
