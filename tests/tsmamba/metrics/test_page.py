"""The page on metrics shows numbers of random scores; they are what its code prints."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "anomaly-metrics.md"


def test_the_table_of_the_page_is_what_its_code_prints(capsys):
    code, table = re.search(
        r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE.read_text(), re.S
    ).groups()
    exec(compile(code, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == table
