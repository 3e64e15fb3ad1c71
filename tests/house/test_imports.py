"""Where imports stand, and what tests may not lean on."""

import ast
from pathlib import Path

from tests.house.tree import python_files, shown, syntax

OPTIONAL = {"matplotlib", "redis", "xllamacpp"}
"""Packages of the extras `eval`, `redis` and `local`, imported where they are used: the rest runs without them."""
PROGRAMS = {"src/circadia/cli/demo/worker.py"}
"""Started as programs of their own and imported by nobody."""


def imports_inside_functions(path: Path) -> list[tuple[int, str]]:
    found: set[tuple[int, str]] = set()
    for outer in ast.walk(syntax(path)):
        if not isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for node in ast.walk(outer):
            if isinstance(node, ast.Import):
                found.update((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.add((node.lineno, "." * node.level + (node.module or "")))
    return sorted(found)


def test_imports_stand_at_the_top_except_those_of_an_optional_extra() -> None:
    found = [
        f"{shown(path)}:{line} imports {module}"
        for path in python_files("src", "tests", "benchmarks")
        for line, module in imports_inside_functions(path)
        if module.split(".")[0] not in OPTIONAL
    ]
    assert not found


def test_nothing_imports_an_optional_package_at_the_top() -> None:
    """Else the package would not start without its extra."""
    found: list[str] = []
    for path in (path for path in python_files("src") if shown(path) not in PROGRAMS):
        for node in syntax(path).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{shown(path)}:{node.lineno} {name}" for name in names if name.split(".")[0] in OPTIONAL]
    assert not found


def test_no_test_mocks_or_skips() -> None:
    """Fakes stand in for what is outside; a test that does not run shows nothing."""
    forbidden = {"skip", "skipif", "importorskip", "xfail"}
    found: list[str] = []
    for path in python_files("tests"):
        for node in ast.walk(syntax(path)):
            if isinstance(node, ast.ImportFrom | ast.Import):
                modules = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                if any(name in {"unittest.mock", "mock"} for name in modules):
                    found.append(f"{shown(path)}:{node.lineno} mocks")
            elif isinstance(node, ast.Attribute) and node.attr in forbidden and _of_pytest(node):
                found.append(f"{shown(path)}:{node.lineno} {node.attr}")
    assert not found


def _of_pytest(node: ast.Attribute) -> bool:
    return ast.unparse(node.value) in {"pytest", "pytest.mark"}


def test_nothing_imports_a_program() -> None:
    modules = {name.removeprefix("src/").removesuffix(".py").replace("/", ".") for name in PROGRAMS}
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in python_files("src", "tests")
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ImportFrom | ast.Import)
        for name in _modules_named(node)
        if name in modules
    ]
    assert not found


def _modules_named(node: ast.ImportFrom | ast.Import) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
