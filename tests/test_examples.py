"""Every example runs as a script, from an empty folder, on data that ship with the package."""

from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_runs(script: Path, run_python) -> None:
    done = run_python(str(script), timeout=300.0, TSMAMBA_QUICK="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr
