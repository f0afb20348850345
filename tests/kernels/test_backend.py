"""Which backend runs a call, and what is said where it is not the fastest."""

import pytest
import torch

from tsmamba_kernels import _backend, _native, backend_report, causal_conv1d, use_backend
from tsmamba_kernels.errors import BackendUnavailableError

UNKNOWN = "^no backend 'fast'; choose one of auto, triton, native, reference$"
X, WEIGHT = torch.ones(1, 3, 2), torch.ones(2, 2)
ELSEWHERE = torch.empty(1, device="meta")


class OnCuda:
    """All that a choice looks at of a tensor on a GPU, which the machine need not have."""

    device = torch.device("cuda", 0)


ON_CUDA = OnCuda()


@pytest.fixture(autouse=True)
def _nothing_asked_or_called(monkeypatch):
    monkeypatch.delenv(_backend.VARIABLE, raising=False)
    monkeypatch.setattr(_backend, "_last", {})


@pytest.fixture
def without_library(monkeypatch):
    reason = "the CPU library was not built; install with a C++ compiler present"
    monkeypatch.setattr(_native, "REASON_AGAINST", reason)
    return reason


def used(**arguments):
    causal_conv1d(X, WEIGHT, **arguments)
    return backend_report()["causal_conv1d"]


def test_the_fastest_is_the_default(native):
    assert used() == "native"


def test_the_environment_overrides_the_default(monkeypatch):
    monkeypatch.setenv("TSMAMBA_BACKEND", "reference")
    assert used() == "reference"


def test_a_with_block_overrides_the_environment(native, monkeypatch):
    monkeypatch.setenv("TSMAMBA_BACKEND", "reference")
    with use_backend("native"):
        assert used() == "native"
    assert used() == "reference"


def test_the_argument_overrides_the_with_block(native):
    with use_backend("reference"):
        assert used(backend="native") == "native"


def test_with_blocks_nest_and_end_with_an_exception(native):
    with use_backend("reference"):
        with pytest.raises(KeyError), use_backend("native"):
            assert used() == "native"
            raise KeyError
        assert used() == "reference"
    assert used() == "native"


def test_auto_inside_a_with_block_lifts_an_outer_one(native):
    with use_backend("reference"), use_backend("auto"):
        assert used() == "native"


def test_an_unknown_name_is_refused_wherever_it_is_given(monkeypatch):
    with pytest.raises(BackendUnavailableError, match=UNKNOWN):
        used(backend="fast")
    with pytest.raises(BackendUnavailableError, match=UNKNOWN), use_backend("fast"):
        pytest.fail("entered")
    monkeypatch.setenv("TSMAMBA_BACKEND", "fast")
    with pytest.raises(BackendUnavailableError, match=UNKNOWN):
        used()


def test_without_the_library_the_reference_runs_and_the_report_says_why(without_library):
    assert used() == f"reference (not a faster one: {without_library})"
    report = backend_report()
    assert report["native"] == without_library
    assert report["reference"] == "available"


def test_without_the_library_the_native_backend_is_refused_by_name(without_library):
    message = f"^backend 'native' cannot run causal_conv1d: {without_library}$".replace("+", r"\+")
    with pytest.raises(BackendUnavailableError, match=message):
        used(backend="native")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("triton", "the Triton kernels run on CUDA tensors, not on meta"),
        ("native", "the native kernels run on CPU tensors, not on meta"),
    ],
)
def test_a_tensor_elsewhere_is_refused_by_name(name, reason, monkeypatch):
    monkeypatch.setattr(_backend, "_HAS_TRITON", True)
    with pytest.raises(BackendUnavailableError, match=f"'{name}' cannot run op: {reason}$"):
        _backend.choose("op", ELSEWHERE, name)


def test_a_tensor_elsewhere_runs_on_the_reference_and_the_report_says_why():
    assert _backend.choose("op", ELSEWHERE, "auto") == "reference"
    reason = "the native kernels run on CPU tensors, not on meta"
    assert backend_report()["op"] == f"reference (not a faster one: {reason})"


def test_a_cuda_tensor_runs_on_triton(monkeypatch):
    monkeypatch.setattr(_backend, "_HAS_TRITON", True)
    assert _backend.choose("op", ON_CUDA, "auto") == "triton"
    assert backend_report()["op"] == "triton"


def test_without_triton_a_cuda_tensor_runs_on_the_reference_and_the_report_says_why(monkeypatch):
    monkeypatch.setattr(_backend, "_HAS_TRITON", False)
    assert _backend.choose("op", ON_CUDA, "auto") == "reference"
    reason = "triton is not installed; pip install triton"
    assert backend_report()["op"] == f"reference (not a faster one: {reason})"
    assert backend_report()["triton"] == reason
    with pytest.raises(BackendUnavailableError, match=f"'triton' cannot run op: {reason}$"):
        _backend.choose("op", ON_CUDA, "triton")


def test_the_interpreter_runs_cpu_tensors_only_when_asked_by_name(native, triton, monkeypatch):
    assert used() == "native"
    assert used(backend="triton") == "triton"
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(BackendUnavailableError, match="run on CUDA tensors, not on cpu"):
        used(backend="triton")


def test_the_package_does_not_import_triton(triton, run_python):
    done = run_python("-c", "import sys, tsmamba_kernels; print('triton' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_the_report_names_the_instruction_set(native):
    assert backend_report()["native"] == f"available ({_native.isa()})"


def test_the_report_lists_only_what_was_called():
    assert set(backend_report()) == {"triton", "native", "reference"}
