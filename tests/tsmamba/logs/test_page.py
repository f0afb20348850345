"""The code of the page on the log detector runs as it stands, in Python and in a shell."""

import re
import shlex
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tsmamba.cli import app

PAGE = Path(__file__).resolve().parents[3] / "docs" / "logs.md"
FAULTS = {"unseen_template", "silence", "rate", "level", "sequence", "gap"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)


@pytest.mark.slow
def test_the_code_of_the_page_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)
    scores, scored = names["scores"], names["scored"]
    assert isinstance(scores, pl.DataFrame) and isinstance(scored, pl.DataFrame)
    assert set(scores.filter("is_anomaly")["reason"]) >= FAULTS
    assert scored["is_anomaly"].to_list() == [True, True]
    assert names["alert"].reason == "unseen_template"  # type: ignore[attr-defined]

    model = Path("service.tsm").read_bytes()
    commands = [shlex.split(line, comments=True) for line in blocks("sh")[0].splitlines()]
    assert [command[:2] for command in commands] == [["tsmamba", "logs"]] * 5
    for _, *command in commands:
        # What follows a file has no end.
        done = CliRunner().invoke(app, [part for part in command if part != "--follow"])
        assert done.exit_code == 0, done.output
    assert Path("service.tsm").read_bytes() == model
    assert done.stdout.count("\n") == scores.height
