"""The code of the page on records runs as it stands, with models of seconds."""

import re
from pathlib import Path

import pytest

from tsmamba.forecast.events import model as events
from tsmamba.outcomes.presets import PRESETS

pytest.importorskip("matplotlib")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "records.md"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tsmamba.errors.FrameWarning")  # real data, with real mistakes
def test_the_code_of_the_page_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PRESETS, "auto", PRESETS["tiny"])
    monkeypatch.setattr(events, "_EPOCHS", 1)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(blocks) == 9
    assert names["risks"].height == 4 * names["risk"].height  # type: ignore[attr-defined]
    assert names["told"].status == "ok"  # type: ignore[attr-defined]
    for name in ("as_wide", "as_durations"):
        assert set(names[name]["subject_id"]) == set(names["risk"]["subject_id"])  # type: ignore[index]
    assert {"risk.tsm", "why.png", "next.tsm"} <= {path.name for path in tmp_path.iterdir()}
