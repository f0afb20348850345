"""``tsmamba forecast``: a table in, forecasts out."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsmamba.cli.flags import File, Freq, IdCol, Target, TimeCol, parse_freq
from tsmamba.cli.messages import plain_errors, say
from tsmamba.cli.outputs import PANEL, Outputs, Plot

if TYPE_CHECKING:
    import polars as pl

    from tsmamba import MambaForecaster
    from tsmamba.cli.columns import Chosen, Wanted

app = typer.Typer()

_COVARIATES = "Covariates"
_MODEL = "Model"


class Mode(StrEnum):
    """What to fit."""

    fast = "fast"
    full = "full"
    base = "base"


@dataclass(frozen=True)
class Forecasts(Outputs):
    """What to write, and with which intervals.

    Parameters
    ----------
    levels, quantiles : list of float
        Levels of the intervals in percent, or quantiles; the default of the forecaster if empty.

    Examples
    --------
    >>> Forecasts(levels=[80.0]).bands
    {'level': [80.0], 'quantiles': None}
    """

    levels: list[float] = field(default_factory=list)
    quantiles: list[float] = field(default_factory=list)

    @property
    def bands(self) -> dict[str, Any]:
        """Arguments of `predict`."""
        return {"level": self.levels or None, "quantiles": self.quantiles or None}

    def check(self) -> None:
        """Refuse what could not be written, before any work."""
        from tsmamba.errors import ParameterError
        from tsmamba.forecast.columns import Bands

        if self.levels and self.quantiles:
            raise ParameterError("--level cannot go with --quantile; leave one or the other out")
        Bands.of(**self.bands)
        super().check()


# The flags, one type each, so that the command itself stays readable.
_Horizon = Annotated[
    int | None,
    typer.Option("--horizon", "-n", min=1, help="Steps to forecast; one season if not given."),
]
_Out = Annotated[
    Path | None,
    typer.Option(help="File for the forecast; - writes CSV to stdout.", rich_help_panel=PANEL),
]
_Level = Annotated[
    list[float] | None,
    typer.Option(help="Interval in percent, 90 if not given; repeatable.", rich_help_panel=PANEL),
]
_Quantile = Annotated[
    list[float] | None,
    typer.Option(help="Quantile, in place of intervals; repeatable.", rich_help_panel=PANEL),
]
_Save = Annotated[Path | None, typer.Option(help="File to keep the fit in.", rich_help_panel=PANEL)]
_Weight = Annotated[
    str | None, typer.Option(help="Weights of the rows in the fit.", rich_help_panel="Columns")
]
_Past = Annotated[
    list[str] | None,
    typer.Option(
        "--past-covariate", help="Column known up to now; repeatable.", rich_help_panel=_COVARIATES
    ),
]
_Future = Annotated[
    list[str] | None,
    typer.Option(
        "--future-covariate",
        help="Column known ahead as well; repeatable.",
        rich_help_panel=_COVARIATES,
    ),
]
_Static = Annotated[
    list[str] | None,
    typer.Option(
        "--static-covariate",
        help="Column with one value a series; repeatable.",
        rich_help_panel=_COVARIATES,
    ),
]
_Ahead = Annotated[
    Path | None,
    typer.Option(
        "--future",
        help="Table of the rows ahead, with what is known of them.",
        exists=True,
        dir_okay=False,
        rich_help_panel=_COVARIATES,
    ),
]
_Season = Annotated[
    int | None,
    typer.Option(min=1, help="Season in steps; found if not given.", rich_help_panel=_MODEL),
]
_Context = Annotated[
    int | None,
    typer.Option(min=1, help="Steps of history a forecast sees.", rich_help_panel=_MODEL),
]
_Mode = Annotated[
    Mode | None,
    typer.Option(
        help="fast, full (trains the Mamba) or base (none); fast if not given.",
        rich_help_panel=_MODEL,
    ),
]
_Preset = Annotated[
    str | None,
    typer.Option(
        help="Kind of data, such as energy; see `tsmamba advise`.", rich_help_panel=_MODEL
    ),
]
_MaxTime = Annotated[
    float | None,
    typer.Option(min=0.0, help="Most seconds of training in mode full.", rich_help_panel=_MODEL),
]
_Seed = Annotated[
    int | None, typer.Option(min=0, help="Makes the fit repeatable.", rich_help_panel=_MODEL)
]
_Model = Annotated[
    Path | None,
    typer.Option(
        help="Use this saved fit and fit nothing.",
        exists=True,
        dir_okay=False,
        rich_help_panel=_MODEL,
    ),
]


@app.command()
def forecast(
    file: File,
    horizon: _Horizon = None,
    out: _Out = None,
    plot: Plot = None,
    level: _Level = None,
    quantile: _Quantile = None,
    save: _Save = None,
    id_col: IdCol = None,
    time_col: TimeCol = None,
    target: Target = None,
    freq: Freq = None,
    weight: _Weight = None,
    past: _Past = None,
    known: _Future = None,
    static: _Static = None,
    future: _Ahead = None,
    season: _Season = None,
    context: _Context = None,
    mode: _Mode = None,
    preset: _Preset = None,
    max_time: _MaxTime = None,
    seed: _Seed = None,
    model: _Model = None,
) -> None:
    """Forecast the series in FILE.

    The columns unique_id, ds and y are found by name. Without unique_id it is one series.
    """
    with plain_errors():
        from tsmamba.cli.columns import Wanted

        outputs = Forecasts(out, plot, save, level or [], quantile or [])
        outputs.check()
        covariates = _names(past), _names(known), _names(static)
        wanted = Wanted(id_col, time_col, _names(target), *covariates, weight)
        settings = {
            "--horizon": ("horizon", horizon),
            "--season": ("season_length", season),
            "--context": ("context_length", context),
            "--freq": ("freq", parse_freq(freq)),
            "--preset": ("preset", preset),
            "--mode": ("mode", mode and mode.value),
            "--max-time": ("max_time", max_time),
            "--seed": ("random_state", seed),
        }
        given = {flag: pair for flag, pair in settings.items() if pair[1] is not None}
        started = time.perf_counter()
        if model is None:
            run = _fit(_Tables(file, future), wanted, dict(given.values()), outputs)
        else:
            flags = [*given, *dict(wanted.flags)]
            run = _apply(_Tables(file, future), model, flags, outputs)
        _deliver(run, outputs, time.perf_counter() - started)


@dataclass(frozen=True)
class _Tables:
    """The table of the series, and that of the rows ahead."""

    file: Path
    future: Path | None

    def check(self, known_ahead: Sequence[str]) -> None:
        """Refuse one without the other, before any work."""
        from tsmamba.errors import ParameterError

        if known_ahead and self.future is None:
            raise ParameterError(
                f"{', '.join(map(repr, known_ahead))} must be known ahead; give the rows ahead "
                "with --future FILE"
            )
        if self.future is not None and not known_ahead:
            raise ParameterError(
                "--future names rows ahead, and no column is known ahead; name some with "
                "--future-covariate"
            )

    def ahead(self, chosen: "Chosen") -> "pl.DataFrame | None":
        """Read the rows ahead, if there are any."""
        from tsmamba.cli.columns import read_ahead

        return None if self.future is None else read_ahead(self.future, chosen)


@dataclass(frozen=True)
class _Run:
    """A forecast and where it came from."""

    history: "pl.DataFrame"
    forecaster: "MambaForecaster"
    forecast: "pl.DataFrame"
    fitted: bool


def _fit(tables: _Tables, wanted: "Wanted", settings: dict[str, Any], outputs: Forecasts) -> _Run:
    """Fit a forecaster on the table and let it continue every series."""
    import sys

    from tsmamba import MambaForecaster, Training
    from tsmamba.cli.columns import ID, choose_columns
    from tsmamba.cli.tables import read_table

    tables.check(wanted.future)
    table = read_table(tables.file, keep_text=wanted.id_col or ID)
    chosen = choose_columns(table, wanted, tables.file)
    future = tables.ahead(chosen)
    for note in chosen.notes:
        say("note", note)
    max_time = settings.pop("max_time", None)
    forecaster = MambaForecaster(
        id_col=chosen.id_col,
        time_col=chosen.time_col,
        target_col=chosen.target_col,
        past_covariates=wanted.past or None,
        future_covariates=wanted.future or None,
        static_covariates=wanted.static or None,
        weight_col=wanted.weight,
        training=None if max_time is None else Training(max_time=max_time),
        verbose=int(sys.stderr.isatty()),
        **settings,
    )
    forecaster.fit(chosen.frame)
    answer = forecaster.predict(future=future, **outputs.bands)
    if outputs.save is not None:
        forecaster.save(outputs.save)
    return _Run(chosen.frame, forecaster, answer, fitted=True)


def _apply(tables: _Tables, model: Path, fitting_flags: list[str], outputs: Forecasts) -> _Run:
    """Forecast the table with a saved fit, which brings its own columns and sizes."""
    from tsmamba import MambaForecaster
    from tsmamba.cli.columns import Wanted, choose_columns
    from tsmamba.cli.tables import read_table
    from tsmamba.errors import ParameterError

    if outputs.save is not None:
        fitting_flags = [*fitting_flags, "--save"]
    if fitting_flags:
        raise ParameterError(
            f"{', '.join(fitting_flags)} cannot go with --model: {model} keeps its own settings; "
            "leave one or the other out"
        )
    f = MambaForecaster.load(model)
    known = _names(f.future_covariates)
    covariates = _names(f.past_covariates), known, _names(f.static_covariates)
    tables.check(known)
    table = read_table(tables.file, keep_text=f.id_col)
    own_id = f.id_col if f.id_col in table.columns else None
    wanted = Wanted(own_id, f.time_col, _names(f.target_col), *covariates)
    chosen = choose_columns(table, wanted, tables.file)
    answer = f.predict(chosen.frame, future=tables.ahead(chosen), **outputs.bands)
    return _Run(chosen.frame, f, answer, fitted=False)


def _names(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns or ())


def _deliver(run: _Run, outputs: Forecasts, seconds: float) -> None:
    """Write what was asked for, and show the head of it."""
    from tsmamba.cli.summary import show
    from tsmamba.cli.tables import write_table

    f = run.forecaster
    if outputs.out is not None:
        write_table(run.forecast, outputs.out)
    if outputs.plot is not None:
        from tsmamba.plotting import plot_forecast

        plot_forecast(
            run.history,
            run.forecast,
            id_col=f.id_col,
            time_col=f.time_col,
            target_col=f.target_col,
            path=outputs.plot,
        )
    facts = _facts(run, seconds)
    facts |= outputs.places("forecast")
    show(run.forecast, [f.id_col, f.time_col, "target"], facts, on_stderr=outputs.on_stdout)


def _facts(run: _Run, seconds: float) -> dict[str, str]:
    """Say in a line each what was forecast and how."""
    f, history = run.forecaster, run.history
    series = history.n_unique(f.id_col) if f.id_col in history.columns else 1
    targets = 1 if isinstance(f.target_col, str) else len(f.target_col)
    report = getattr(f, "report_", {})
    facts = {
        "series": f"{series * targets:,}",
        "rows": f"{history.height:,}",
        "frequency": str(f.freq_),
        "horizon": f"{f.horizon_:,} steps",
        "context": f"{f.context_length_:,} steps",
        "season": f"{f.season_length_:,} steps",
    }
    if run.fitted:
        facts["corrector"] = str(report.get("corrector", "unknown"))
        if report.get("backend", "none") != "none":
            facts["backend"] = str(report["backend"])
    facts["seconds"] = f"{seconds:.1f}"
    return facts
