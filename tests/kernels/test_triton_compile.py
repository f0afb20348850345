"""Every Triton kernel, compiled for GPUs that the machine need not have, keeps all in registers."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("triton")

BENCHMARKS = Path(__file__).resolve().parents[2] / "kernels" / "benchmarks"
KERNELS = {
    "causal_conv_forward",
    "causal_conv_backward",
    "forward_kernel",
    "backward_kernel",
    "segment_kernel",
    "join_kernel",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "dtype"), [(80, "float32"), (90, "bfloat16"), (100, "float32")]
)
def test_no_kernel_spills_registers(capability, dtype, run_python, tmp_path):
    found = tmp_path / "resources.json"
    script = str(BENCHMARKS / "gpu_resources.py")
    options = ["--capability", str(capability), "--dtype", dtype, "--json", str(found)]
    done = run_python(script, *options, timeout=600, TRITON_INTERPRET="0")
    assert done.returncode == 0, done.stderr
    compiled = json.loads(found.read_text(encoding="utf-8"))
    assert {kernel["kernel"] for kernel in compiled} == KERNELS
    assert not any(kernel["spills"] for kernel in compiled), done.stdout
    scans = [kernel for kernel in compiled if kernel["kernel"] == "forward_kernel"]
    assert all(kernel["looped"]["MUFU.EX2"] for kernel in scans)


SPILLING = """
import torch, triton, triton.language as tl
from tsmamba_kernels._triton import compiled_for, resources

@triton.jit
def turned(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    kept = tl.load(x + at)
    tl.store(out + at, kept / tl.sum(kept))

x = torch.ones(16384)
with compiled_for(90) as compiled:
    turned[(1,)](x, x, BLOCK=16384, num_warps=1)
    turned[(1,)](x, x, BLOCK=64, num_warps=1)
print([resources(kernel).spills > 0 for kernel in compiled])
"""


def test_a_kernel_that_spills_is_noticed(run_python, tmp_path):
    script = tmp_path / "spilling.py"
    script.write_text(SPILLING, encoding="utf-8")
    done = run_python(str(script), TRITON_INTERPRET="0")
    assert done.stdout == "[True, False]\n", done.stderr


def test_the_interpreter_compiles_nothing_and_says_so(run_python):
    done = run_python("-c", "import tsmamba_kernels._triton as t; t.compiled_for(90).__enter__()")
    assert "unset TRITON_INTERPRET in a new process" in done.stderr
