"""Size, names and shape of modules, and of the records in them; which module alone writes events."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import SOURCE, python_files, shown, syntax

MODULE_LINES = 450
NOUN_LINES = 800
NOUNS = (
    "src/circadia/stores/sql",
    "src/circadia/records",
    "src/circadia/gateway/dialects",
    "src/circadia/gateway/model_call/hold.py",
)
FUNCTION_LINES = 50
VAGUE = {"utils", "util", "helpers", "helper", "managers", "manager", "core", "common", "misc", "base_classes"}


def all_python() -> list[Path]:
    return python_files("src", "tests", "benchmarks", "docs", "examples")


def test_no_module_is_longer_than_450_lines_and_none_of_a_noun_than_800() -> None:
    lines = {shown(path): len(path.read_text("utf-8").splitlines()) for path in all_python()}
    long = {name: n for name, n in lines.items() if n > (NOUN_LINES if name.startswith(NOUNS) else MODULE_LINES)}
    assert not long, "split by concept"


def test_no_function_is_longer_than_50_lines() -> None:
    long: list[str] = []
    for path in all_python():
        for node in ast.walk(syntax(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    long.append(f"{shown(path)}:{node.lineno} {node.name}: {lines} lines")
    assert not long


def test_no_module_or_folder_has_a_vague_or_numbered_name() -> None:
    vague = [
        shown(path)
        for path in all_python()
        for name in (*path.relative_to(SOURCE.parents[1]).parent.parts, path.stem)
        if name.strip("_") in VAGUE or name.endswith(("_v2", "_v3", "_new", "_old"))
    ]
    assert not vague, "name the noun"


def test_no_module_keeps_state_in_a_global_variable() -> None:
    """A constant is upper-case; what a function rebinds with `global` is state."""
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in python_files("src")
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Global)
    ]
    assert not found


def test_no_file_object_is_handed_to_the_event_loop_as_a_pipe() -> None:
    """libuv closes the descriptor, then its file object does again: by then the number may be another thread's.

    https://github.com/MagicStack/uvloop/issues/763
    """
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in python_files("src")
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Attribute) and node.attr in ("connect_read_pipe", "connect_write_pipe")
    ]
    assert not found, "use add_reader and add_writer, and close the descriptor once"


def test_no_loop_gathers() -> None:
    """Since Python 3.12 `gather` of tasks that have ended does not yield to the loop, so `while tasks` may spin for
    ever; `asyncio.wait` always yields."""
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in python_files("src")
        for loop in ast.walk(syntax(path))
        if isinstance(loop, ast.While)
        for node in ast.walk(loop)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "asyncio.gather"
    ]
    assert not found


def test_no_module_works_while_it_is_imported() -> None:
    """At its top a module binds names; it starts no loop, opens no file and runs no bare call."""
    found: list[str] = []
    for path in python_files("src"):
        if path.match("migrations/env.py"):
            continue  # Alembic runs it by importing it
        for node in syntax(path).body:
            bare_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
            loop = isinstance(node, ast.For | ast.While | ast.With)
            if (bare_call and not _registers(node)) or loop:
                found.append(f"{shown(path)}:{node.lineno}")
    assert not found


def _registers(node: ast.stmt) -> bool:
    """An index joins its table, and a command its typer app, by a call at the top, as a decorator would."""
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] in {"Index", "add_typer"}


def record_classes() -> Iterator[tuple[Path, ast.ClassDef, ast.Call | None]]:
    for path in python_files("src/circadia/records"):
        for node in syntax(path).body:
            if not isinstance(node, ast.ClassDef):
                continue
            for mark in node.decorator_list:
                name = ast.unparse(mark.func if isinstance(mark, ast.Call) else mark)
                if name.split(".")[-1] in ("dataclass", "fast_record"):
                    yield path, node, mark if isinstance(mark, ast.Call) else None


def test_each_record_is_frozen_and_keyword_only() -> None:
    loose: list[str] = []
    for path, node, call in record_classes():
        if any(ast.unparse(mark) == "fast_record" for mark in node.decorator_list):
            continue  # it is both by its own decorator
        given = {word.arg: ast.unparse(word.value) for word in (call.keywords if call else [])}
        if given.get("frozen") != "True" or given.get("kw_only") != "True":
            loose.append(f"{shown(path)} {node.name}")
    for path in python_files("src/circadia/records"):
        for node in syntax(path).body:
            if isinstance(node, ast.ClassDef) and "BaseModel" in map(ast.unparse, node.bases):
                options = [ast.unparse(line.value) for line in node.body if isinstance(line, ast.Assign)]
                if not any(option.startswith("ConfigDict(") and "frozen=True" in option for option in options):
                    loose.append(f"{shown(path)} {node.name}")
    assert not loose


def test_only_the_event_log_writes_events_and_signals_them() -> None:
    writes = re.compile(r"""events\.add\(|(?<![.\w])Event\((?!Protocol)|(publish|signal)\((\w+, )?["']event["']""")
    found = {shown(path) for path in python_files("src") if writes.search(path.read_text("utf-8"))}
    reads_rows = "src/circadia/stores/sql/events.py"
    numbers_rows = "src/circadia/jobs/event_sequencer.py"
    assert found - {reads_rows, numbers_rows} == {"src/circadia/stores/event_log.py"}
