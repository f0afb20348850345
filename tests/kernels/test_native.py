"""The compiled library: opening it, the layout of its structures, instruction sets, threads."""

import ctypes
import re
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tsmamba_kernels import _native
from tsmamba_kernels.errors import KernelError, ShapeError
from tsmamba_kernels.selective_scan import cpu_plan

HEADER = Path(__file__).resolve().parents[2] / "kernels" / "csrc" / "tsm_cpu.h"
C_TYPES = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "double": ctypes.c_double}
LEVELS = ("generic", "avx2", "avx512")


def fields_of(struct):
    """Read the fields of a C structure off the header, as ctypes would declare them."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    body = re.search(rf"typedef struct {struct} {{(.*?)}} {struct};", text, re.DOTALL).group(1)
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, names = declaration.removeprefix("const ").split(maxsplit=1)
        for name in re.split(r",\s*", names):
            if name.startswith("*"):
                yield name[1:], ctypes.c_void_p
            else:
                yield name, _native.View if kind == "tsm_view" else C_TYPES[kind]


@pytest.mark.parametrize(
    ("struct", "mirror"),
    [
        ("tsm_view", _native.View),
        ("tsm_scan_args", _native.ScanArgs),
        ("tsm_conv_args", _native.ConvArgs),
    ],
)
def test_a_structure_mirrors_the_header(struct, mirror):
    assert list(fields_of(struct)) == [(name, kind) for name, kind in mirror._fields_]


def test_a_series_is_a_row_of_an_integer_tensor():
    (second,) = cpu_plan.cut(2, 2 * cpu_plan.CHUNK, 1)[1].tolist()
    named = {"row": 1, "start": 0, "length": 2 * cpu_plan.CHUNK, "piece": 2}
    assert list(fields_of("tsm_series")) == [(name, ctypes.c_int64) for name in named]
    assert second == list(named.values())


def test_the_version_mirrors_the_header():
    found = re.search(r"#define TSM_ABI_VERSION (\d+)", HEADER.read_text(encoding="utf-8"))
    assert int(found.group(1)) == _native.ABI_VERSION


def test_every_symbol_of_the_header_is_exported(native):
    symbols = re.findall(r"\b(tsm_\w+)\((?:const|void)", HEADER.read_text(encoding="utf-8"))
    kernels = product(("selective_scan", "causal_conv"), ("fwd", "bwd"), _native.DTYPES.values())
    assert {f"tsm_{'_'.join(kernel)}" for kernel in kernels} <= set(symbols)
    library = _native.LIBRARY
    assert all(hasattr(library, symbol) for symbol in symbols)


def test_a_library_that_was_not_built_is_a_reason(monkeypatch):
    monkeypatch.setattr(_native, "find_spec", lambda name: None)
    reason = _native.open_library()
    assert reason == "the CPU library was not built; install with a C++ compiler present"


@pytest.mark.parametrize("content", [b"", b"not a library"])
def test_a_library_that_cannot_be_opened_is_a_reason(monkeypatch, tmp_path, content):
    file = tmp_path / "broken.so"
    file.write_bytes(content)
    monkeypatch.setattr(_native, "find_spec", lambda name: SimpleNamespace(origin=str(file)))
    reason = _native.open_library()
    assert reason.startswith(f"the CPU library at {file} cannot be opened: ")


def test_a_library_of_another_version_is_a_reason(native, monkeypatch):
    monkeypatch.setattr(_native, "ABI_VERSION", 99)
    reason = _native.open_library()
    assert re.fullmatch(
        r"the CPU library has ABI version \d+, this package needs 99; reinstall", reason
    )


def test_without_a_library_a_call_raises_the_reason(monkeypatch):
    monkeypatch.setattr(_native, "LIBRARY", None)
    monkeypatch.setattr(_native, "REASON_AGAINST", "no library")
    with pytest.raises(KernelError, match="no library"):
        _native.call("causal_conv_fwd", torch.float32, _native.ConvArgs(), [])
    assert _native.isa() is None


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (1, KernelError, "could not allocate its scratch memory; free some memory"),
        (2, ShapeError, r"A has a positive entry.*pass A <= 0, for example A = -exp\(A_log\)"),
    ],
)
def test_a_return_code_becomes_an_error(monkeypatch, code, error, message):
    library = SimpleNamespace(tsm_op_f32=lambda args: code)
    monkeypatch.setattr(_native, "LIBRARY", library)
    with pytest.raises(error, match=message):
        _native.call("op", torch.float32, _native.ConvArgs(), [])


def test_a_reversed_view_starts_at_the_last_row():
    x = torch.arange(24.0).view(2, 4, 3)
    view = _native.view(x, reverse=True)
    assert view.data == x[:, -1].data_ptr()
    assert (view.batch_stride, view.time_stride) == (12, -3)
    assert _native.view(x[:, :0], reverse=True).time_stride == 3
    assert _native.view(None).data is None


PARITY = """
import torch
from tsmamba_kernels import causal_conv1d, selective_scan
from tsmamba_kernels.testing import check_parity, conv_inputs, scan_inputs

for dtype in (torch.float32, torch.float64):
    for states in (5, 16, 17):
        for channels in (2, 8, 34):
            inputs = scan_inputs(1, 34, channels, states, groups=2, dtype=dtype)
            check_parity(selective_scan, inputs)
    check_parity(causal_conv1d, conv_inputs(length=300, channels=13, dtype=dtype))
x = scan_inputs(length=9, options=())
x["A"][0, 0] = -torch.nan
assert selective_scan(**x)[0].isnan().any()
"""


NAME = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.tsm_isa.restype = ctypes.c_char_p
print(library.tsm_isa().decode())
"""


@pytest.mark.parametrize("level", LEVELS)
def test_a_lesser_instruction_set_can_be_asked_for_and_a_greater_one_cannot(
    native, run_python, level
):
    done = run_python("-c", NAME, _native.LIBRARY._name, TSMAMBA_ISA=level)
    best = LEVELS.index(_native.isa())
    assert done.stdout.strip() == LEVELS[min(LEVELS.index(level), best)], done.stderr


@pytest.mark.parametrize("level", LEVELS[:-1])
def test_a_lesser_instruction_set_agrees(native, run_python, level):
    if LEVELS.index(level) >= LEVELS.index(_native.isa()):
        pytest.skip(f"all other tests run {_native.isa()}")
    done = run_python("-c", PARITY, TSMAMBA_ISA=level)
    assert done.returncode == 0, done.stderr


POOLS = """
import os, torch
from tsmamba_kernels import selective_scan
from tsmamba_kernels.testing import run_with_gradients, scan_inputs

def threads():
    return len(os.listdir("/proc/self/task"))

def scan():
    return run_with_gradients(selective_scan, inputs, backend="native")[0][0]

torch.set_num_threads(2)
inputs = scan_inputs(2, 200, 64, 16)
torch.rand(1 << 20).exp().sum()
counts = [threads()]
expected = scan()
counts.append(threads())
torch.rand(1 << 20).exp().sum()
counts.append(threads())
maps = open("/proc/self/maps").read().split()
runtimes = {x for x in maps if "omp" in os.path.basename(x) and ".so" in x}
pid = os.fork()
if pid == 0:
    torch.set_num_threads(1)
    os._exit(0 if torch.equal(scan(), expected) else 1)
print(len(set(counts)), len(runtimes), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_the_threads_are_those_of_torch_and_a_forked_worker_does_without(native, run_python):
    """A second OpenMP runtime would bring a second pool, and both would fight for the cores."""
    done = run_python("-W", "ignore", "-c", POOLS)
    assert done.stdout.split() == ["1", "1", "0"], done.stderr
