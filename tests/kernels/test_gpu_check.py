"""The check for machines with a GPU runs, as far as it can, on one without."""

import json
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).resolve().parents[2] / "kernels" / "benchmarks" / "gpu_check.py"


def test_the_interpreter_runs_its_parity_part(triton, run_python, tmp_path):
    found = tmp_path / "check.json"
    done = run_python(str(SCRIPT), "--interpret", "--json", str(found), timeout=600)
    assert done.returncode == 0, done.stderr
    results = json.loads(found.read_text(encoding="utf-8"))
    assert results["environment"]["triton"]
    assert any(name.startswith("scan") for name in results["errors"])
    for name, errors in results["errors"].items():
        assert {"output 0", "output 1", "gradient of A"} <= {*errors} or "gradient of x" in errors
        assert max(errors.values()) < 1e-2, name


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_without_a_gpu_it_says_what_can_be_done(run_python):
    done = run_python(str(SCRIPT))
    assert done.returncode == 1
    assert done.stderr == (
        "there is no CUDA device here; --interpret runs the parity part without one\n"
    )
