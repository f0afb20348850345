"""What a GPU would run, found without one: kernels are compiled for it instead of launched.

Triton derives the code of a kernel from the arguments of its launch: their types, which of them are
absent, one, or a multiple of sixteen. `compiled_for` therefore lets real calls run, on CPU tensors,
and keeps what their launches compile. What it hands out is what a GPU of that kind would run.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from tsmamba_kernels.errors import BackendUnavailableError

# Groups: address, predicate, opcode with its modifiers, operands.
_INSTRUCTION = re.compile(
    r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_]+(?:\.\w+)*)\s*([^;]*);"
)


class _AbsentGPU:
    """What Triton asks of a device before it compiles a kernel."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        # Triton keeps compiled kernels by device; no machine has so many.
        return 1000 + self.capability

    def get_current_stream(self, device: int) -> int:
        return 0


@contextmanager
def compiled_for(capability: int) -> Iterator[list[Any]]:
    """Compile the kernels that are launched inside the ``with`` block, and launch none.

    Parameters
    ----------
    capability : int
        Compute capability of the GPU, as 90 for sm_90.

    Yields
    ------
    list of CompiledKernel
        Grows with each launch, in order. What the calls return is meaningless.

    Raises
    ------
    BackendUnavailableError
        If Triton's interpreter is on: it has replaced the compiler.
    """
    if knobs.runtime.interpret:
        raise BackendUnavailableError(
            "Triton's interpreter compiles nothing; unset TRITON_INTERPRET in a new process"
        )
    compiled: list[Any] = []
    run = JITFunction.run

    def compile_only(kernel: Any, *args: Any, warmup: bool, **options: Any) -> None:
        compiled.append(run(kernel, *args, warmup=True, **options))

    with (
        patch.object(JITFunction, "run", compile_only),
        patch.object(driver, "_active", _AbsentGPU(capability)),
    ):
        yield compiled


@dataclass(frozen=True)
class Resources:
    """What one compiled kernel takes of a GPU.

    Attributes
    ----------
    kernel : str
        Its name.
    constants : dict of str to object
        The compile-time arguments, tile sizes among them.
    warps, shared : int
        Of one program; shared memory in bytes.
    registers, spills : int
        Of one thread; spills in bytes of local memory.
    instructions : dict of str to int
        How often each opcode stands in the code of one thread. Only MUFU, the unit for exponentials
        and reciprocals, keeps its modifier.
    looped : dict of str to int
        Those of them that stand inside a loop.
    """

    kernel: str
    constants: dict[str, Any]
    warps: int
    shared: int
    registers: int
    spills: int
    instructions: dict[str, int]
    looped: dict[str, int]


def resources(kernel: Any) -> Resources:
    """Read off a compiled kernel's machine code what it takes of a GPU.

    Parameters
    ----------
    kernel : CompiledKernel
        One that `compiled_for` gave.

    Returns
    -------
    Resources
    """
    with TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(kernel.asm["cubin"])
        listing = subprocess.run(
            [knobs.nvidia.cuobjdump.path, "-res-usage", "-sass", str(cubin)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    code = [(int(at, 16), op, operands) for at, op, operands in _INSTRUCTION.findall(listing)]
    names = [_short(op) for _, op, _ in code]
    inside = _inside_loops(code)
    used = {key: int(n) for key, n in re.findall(r"(REG|STACK|LOCAL):(\d+)", listing)}
    return Resources(
        kernel=kernel.name,
        constants={
            kernel.src.fn.arg_names[path[0]]: value
            for path, value in kernel.src.constants.items()
            if len(path) == 1 and value is not None
        },
        warps=kernel.metadata.num_warps,
        shared=kernel.metadata.shared,
        registers=used["REG"],
        spills=used["STACK"] + used["LOCAL"],
        instructions=dict(Counter(names).most_common()),
        looped=dict(Counter(n for n, there in zip(names, inside, strict=True) if there)),
    )


def _short(op: str) -> str:
    parts = op.split(".")
    return ".".join(parts[:2]) if parts[0] == "MUFU" else parts[0]


def _inside_loops(code: list[tuple[int, str, str]]) -> list[bool]:
    """Tell for each instruction whether a branch that leads back passes over it."""
    spans = []
    for at, op, operands in code:
        target = re.search(r"0x([0-9a-f]+)$", operands.strip())
        if op.startswith("BRA") and target and int(target[1], 16) < at:
            spans.append((int(target[1], 16), at))
    return [any(first <= at <= last for first, last in spans) for at, _, _ in code]
