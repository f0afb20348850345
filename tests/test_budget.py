"""A budget for size and form, read off the syntax tree, so that the code cannot rot unseen.

Each rule walks every file of the three packages and lists what breaks it as ``file:line name``.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {
    "benchmarks": ROOT / "benchmarks",
    "tsmamba": ROOT / "tsmamba",
    "tsmamba_datasets": ROOT / "datasets" / "tsmamba_datasets",
    "tsmamba_kernels": ROOT / "kernels" / "tsmamba_kernels",
}

FILE_LINES = 500
FUNCTION_LINES = 60
DEVICE_KERNEL_LINES = 120
PARAMETERS = 8
CONSTRUCTOR_PARAMETERS = 20
CONSTRUCTOR_POSITIONAL = 5

# Files that may catch ImportError: one in tsmamba, and one in the package that must not import it.
OPTIONAL_IMPORT_FILES = {"tsmamba/_optional.py", "datasets/tsmamba_datasets/_fetch.py"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One source file, parsed."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def is_op(self) -> bool:
        """One op is one folder in tsmamba_kernels: launchers and registered ops live there."""
        return self.path.parent.parent == SOURCES["tsmamba_kernels"]

    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def where(self, node: ast.AST, name: str = "") -> str:
        return f"{self.name}:{getattr(node, 'lineno', 1)} {name}".rstrip()


def load(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    return Module(path, text, ast.parse(text, filename=str(path)))


MODULES = [load(path) for folder in SOURCES.values() for path in sorted(folder.rglob("*.py"))]


def decorators(node: Function | ast.ClassDef) -> set[str]:
    calls = (item.func if isinstance(item, ast.Call) else item for item in node.decorator_list)
    return {ast.unparse(call) for call in calls}


def is_device_kernel(node: Function) -> bool:
    return "triton.jit" in decorators(node)


def is_command(node: Function) -> bool:
    """Every option of a command is a parameter."""
    return "app.command" in decorators(node)


def is_overload(node: Function) -> bool:
    return not decorators(node).isdisjoint({"overload", "typing.overload"})


def parameters(node: Function) -> list[ast.arg]:
    """Every parameter but ``self`` and ``cls``."""
    listed = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    extra = [arg for arg in (node.args.vararg, node.args.kwarg) if arg is not None]
    return [arg for arg in (*listed, *extra) if arg.arg not in ("self", "cls")]


def long_files(module: Module) -> Iterator[str]:
    lines = len(module.text.splitlines())
    if lines > FILE_LINES:
        yield f"{module.name} has {lines} lines"


def long_functions(module: Module) -> Iterator[str]:
    """Docstrings do not count: a full one should cost nothing."""
    for node in module.functions():
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if ast.get_docstring(node) is not None:
            docstring = node.body[0]
            lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
        limit = DEVICE_KERNEL_LINES if is_device_kernel(node) else FUNCTION_LINES
        if lines > limit:
            yield module.where(node, f"{node.name} has {lines} lines")


def wide_signatures(module: Module) -> Iterator[str]:
    """Ops and launchers may take more, and constructors whose further arguments have names.

    Five arguments of a constructor may be positional: ``Mamba(d_model, d_state, d_conv, expand)``
    is how the block is called everywhere, and a stack adds its depth.
    """
    for node in module.functions():
        count = len(parameters(node))
        if count <= PARAMETERS or module.is_op or is_command(node):
            continue
        positional = len(node.args.posonlyargs) + len(node.args.args) - 1
        if (
            node.name == "__init__"
            and positional <= CONSTRUCTOR_POSITIONAL
            and count <= CONSTRUCTOR_PARAMETERS
        ):
            continue
        yield module.where(node, f"{node.name} has {count} parameters")


def missing_annotations(module: Module) -> Iterator[str]:
    """Parameters of a Triton kernel are typed by the launch and carry no annotation."""
    for node in module.functions():
        if is_device_kernel(node):
            continue
        bare = [arg.arg for arg in parameters(node) if arg.annotation is None]
        if node.returns is None:
            bare.append("return")
        if bare:
            yield module.where(node, f"{node.name} lacks types of {', '.join(bare)}")


def missing_docstrings(module: Module) -> Iterator[str]:
    if ast.get_docstring(module.tree) is None:
        yield f"{module.name} has no module docstring"
    scopes: list[ast.Module | ast.ClassDef] = [module.tree]
    while scopes:
        for node in scopes.pop().body:
            if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
                continue
            if isinstance(node, ast.ClassDef):
                scopes.append(node)
            elif is_overload(node) or any(name.endswith(".setter") for name in decorators(node)):
                continue
            if ast.get_docstring(node) is None:
                yield module.where(node, f"{node.name} has no docstring")


def asserts(module: Module) -> Iterator[str]:
    return (module.where(node) for node in ast.walk(module.tree) if isinstance(node, ast.Assert))


def prints(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            yield module.where(node)


def vague_raises(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Raise) or node.exc is None:
            continue
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if ast.unparse(raised) in {"Exception", "BaseException"}:
            yield module.where(node)


def caught_import_errors(module: Module) -> Iterator[str]:
    if module.name in OPTIONAL_IMPORT_FILES:
        return
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ExceptHandler) or node.type is None:
            continue
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        if {ast.unparse(kind) for kind in kinds} & {"ImportError", "ModuleNotFoundError"}:
            yield module.where(node)


def bare_excepts(module: Module) -> Iterator[str]:
    """A bare ``except`` would catch ImportError, and all else, by the back door."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield module.where(node)


RULES: list[Callable[[Module], Iterator[str]]] = [
    asserts,
    bare_excepts,
    caught_import_errors,
    long_files,
    long_functions,
    missing_annotations,
    missing_docstrings,
    prints,
    vague_raises,
    wide_signatures,
]


@pytest.mark.parametrize("name", SOURCES)
def test_the_walk_sees_the_package(name: str) -> None:
    assert any(module.path.is_relative_to(SOURCES[name]) for module in MODULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_budget(rule: Callable[[Module], Iterator[str]]) -> None:
    broken = [line for module in MODULES for line in rule(module)]
    assert not broken, "\n" + "\n".join(broken)


SPOILED = """
def wide(a, b, c, d, e, f, g, h, i):
    try:
        import x
    except (ValueError, ImportError):
        assert x
    except:
        print(x)
    raise Exception("no")
"""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_finds_what_it_looks_for(rule: Callable[[Module], Iterator[str]]) -> None:
    text = SPOILED + "    x = 0\n" * (FILE_LINES + 1)
    module = Module(ROOT / "tsmamba" / "spoiled.py", text, ast.parse(text))
    assert list(rule(module))
