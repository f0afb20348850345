"""``tsmamba advise``: a table in, the kind of forecaster that suits it out."""

import json
from typing import Annotated

import typer

from tsmamba.cli.flags import File, Freq, IdCol, Target, TimeCol, parse_freq
from tsmamba.cli.messages import plain_errors, say

app = typer.Typer()

_Horizon = Annotated[int | None, typer.Option("--horizon", "-n", min=1, help="Steps to forecast.")]


@app.command()
def advise(
    file: File,
    horizon: _Horizon = None,
    id_col: IdCol = None,
    time_col: TimeCol = None,
    target: Target = None,
    freq: Freq = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say whether a Mamba is the right tool for the series in FILE, with which preset, and why.

    Nothing is fitted. The columns unique_id, ds and y are found by name.
    """
    with plain_errors():
        from tsmamba.cli.columns import ID, Wanted, choose_columns
        from tsmamba.cli.tables import read_table
        from tsmamba.forecast.advice import advise as look

        wanted = Wanted(id_col, time_col, tuple(target or ()))
        chosen = choose_columns(read_table(file, keep_text=id_col or ID), wanted, file)
        for note in chosen.notes:
            say("note", note)
        advice = look(
            chosen.frame,
            horizon,
            target_col=chosen.target_col,
            id_col=chosen.id_col,
            time_col=chosen.time_col,
            freq=parse_freq(freq),
        )
        typer.echo(json.dumps(advice.to_dict(), indent=2) if as_json else str(advice))
