"""The pages for readers of the code name packages, files, classes and functions that exist."""

import ast
import re

from tests.house.tree import DOCS, ROOT, SOURCE, coded, parts, syntax

PAGE = DOCS / "architecture.md"
PLACE = re.compile(r"`([a-z_/]+\.py)`\s+`([A-Za-z_.]+)`")
MOST_FILES = {
    "A held call": 25,
    "A mention that wakes": 12,
    "A turn that becomes a block": 25,
    "A ready answer": 25,
    "An agent that is added": 20,
}
MOST_STEPS = 12


def defined_names(module: ast.Module) -> set[str]:
    """Return the names of a module's classes and functions, and of methods as `Class.method`."""
    defined = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    tops = [node for node in module.body if isinstance(node, defined)]
    methods = {f"{top.name}.{node.name}" for top in tops for node in top.body if isinstance(node, defined)}
    return {top.name for top in tops} | methods


def test_each_file_and_name_of_the_architecture_exists() -> None:
    text = PAGE.read_text("utf-8")
    files = {path: SOURCE / path for path in re.findall(r"`([a-z_/]+\.py)`", text)}
    assert not [path for path, file in files.items() if not file.is_file()]
    assert len(PLACE.findall(text)) > 40
    wrong = [f"{path} {name}" for path, name in PLACE.findall(text) if name not in defined_names(syntax(files[path]))]
    assert not wrong


def test_each_journey_has_at_most_twelve_steps_that_name_their_file() -> None:
    journeys = {part.heading: re.split(r"^\d+\. ", part.text, flags=re.M)[1:] for part in parts(PAGE)}
    for name in MOST_FILES:
        assert 0 < len(journeys[name]) <= MOST_STEPS, name
        assert all(".py`" in step for step in journeys[name]), name


def test_a_journey_needs_few_files() -> None:
    files = {part.heading: set(re.findall(r"`([a-z_/]+\.py)`", part.text)) for part in parts(PAGE)}
    found = {name: len(files[name]) for name in MOST_FILES}
    assert not {name: count for name, count in found.items() if count > MOST_FILES[name]}


def test_the_page_on_a_held_call_shows_the_lines_that_decide() -> None:
    page = (DOCS / "concepts/held-call.md").read_text("utf-8")
    (shown_lines,) = re.findall(r"^```text\n(.*?)^```$", page, re.M | re.S)
    assert shown_lines in (SOURCE / "gateway/model_call/hold.py").read_text("utf-8")


def test_contributing_names_the_rooms_of_each_package() -> None:
    text = next(part.text for part in parts(ROOT / "CONTRIBUTING.md") if part.heading == "Rooms")
    rows = [coded(line) for line in text.splitlines() if line.startswith("| `")]
    listed = {package: set(rooms) for package, *rooms in rows}
    found: dict[str, set[str]] = {}
    for room in SOURCE.glob("*/*/"):
        if any(room.glob("*.py")) or room.name == "prompts":
            found.setdefault(room.parent.name, set()).add(room.name)
    assert listed == found
