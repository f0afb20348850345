"""The code of the page on the detector runs as it stands."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "anomaly.md"


def test_the_code_of_the_page_runs():
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(blocks) == 3
    assert names["result"].status == "ok"  # type: ignore[attr-defined]
    assert [str(t) for t in names["told"]] == ["2014-11-02 01:00:00"]  # type: ignore[attr-defined]
