"""The programs in examples/frameworks run as they stand: a team of three that sleeps and wakes, in each framework."""

import ast
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clients.node_program import FOLDER as NODE
from tests.clients.node_program import node
from tests.examples.environments import FRAMEWORKS, install_node, install_python, list_installed, read_pins
from tests.examples.team_model import CALLS, RESULT
from tests.examples.team_program import run_team
from tests.house.tree import DOCS

pytestmark = pytest.mark.spec("SHIP-08")

PROGRAMS = sorted(FRAMEWORKS.glob("*/team.*"))
PYTHON = [program for program in PROGRAMS if program.suffix == ".py"]
TYPESCRIPT = [program for program in PROGRAMS if program.suffix == ".ts"]
FRAMEWORK_NAMES = {
    "ag2", "agent-framework", "autogen", "claude-agent-sdk", "crewai", "google-adk", "langgraph", "llama-index",
    "mastra", "openai-agents", "pydantic-ai", "smolagents", "vercel-ai-sdk",
}  # fmt: skip
MOST_LINES = 80


def named(program: Path) -> str:
    return program.parent.name


async def check_team(words: Sequence[str], folder: Path) -> None:
    run = await run_team(words, folder)
    assert run.status == 0, run.output
    for line in (f"lead: {RESULT}", "writer: Written.", "reviewer: Reviewed."):
        assert line in run.output.splitlines(), run.output
    assert run.problems == []
    assert run.calls == CALLS
    assert run.failed_calls == 0
    assert run.asleep == {"writer", "reviewer"}, "they fall asleep again when the thread closes"
    assert {name for name, seconds in run.held_seconds.items() if seconds > 0} == {f"team:{name}" for name in CALLS}


@pytest.mark.slow
@pytest.mark.parametrize("program", PYTHON, ids=named)
async def test_a_team_in_python_sleeps_and_wakes_in_an_environment_of_its_own(program: Path, tmp_path: Path) -> None:
    requirements = program.with_name("requirements.txt")
    python = await install_python(requirements)
    assert await list_installed(python) == sorted(read_pins(requirements)), "pin all that it needs: pip freeze"
    await check_team([str(python), str(program)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("program", TYPESCRIPT, ids=named)
async def test_a_team_in_typescript_sleeps_and_wakes_with_its_own_packages(program: Path, tmp_path: Path) -> None:
    await check_team(await install_node(program), tmp_path)


async def test_a_team_in_pydantic_ai_sleeps_and_wakes(tmp_path: Path) -> None:
    await check_team([sys.executable, str(FRAMEWORKS / "pydantic-ai" / "team.py")], tmp_path)


async def test_a_team_in_the_vercel_ai_sdk_sleeps_and_wakes(tmp_path: Path) -> None:
    package, shared = FRAMEWORKS / "vercel-ai-sdk" / "package.json", NODE / "package.json"
    pins, installed = (json.loads(file.read_text("utf-8"))["dependencies"] for file in (package, shared))
    assert pins.items() <= installed.items(), "the packages of tests/clients/node are those of the example"
    program = NODE / ".example-team.ts"  # beside node_modules, where imports are looked up; ignored by git
    shutil.copy(FRAMEWORKS / "vercel-ai-sdk" / "team.ts", program)
    try:
        await check_team([node(), str(program)], tmp_path)
    finally:
        program.unlink()


def test_there_is_an_example_for_each_framework() -> None:
    assert {named(program) for program in PROGRAMS} == FRAMEWORK_NAMES


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_an_example_is_short_and_sets_only_addresses_and_tokens(program: Path) -> None:
    text = program.read_text("utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert not re.search(r"import.*circadia|from circadia|@circadia", text), "no framework needs our packages"
    if program.suffix == ".py":
        ast.parse(text)


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_an_example_pins_what_it_needs_and_the_docs_say_which_version_was_run(program: Path) -> None:
    if program.suffix == ".py":
        pins = dict(line.split("==") for line in read_pins(program.with_name("requirements.txt")))
    else:
        pins = json.loads(program.with_name("package.json").read_text("utf-8"))["dependencies"]
    assert all(re.fullmatch(r"[\w.]+", version) for version in pins.values())
    page = (DOCS / "how-to" / "use-a-framework.md").read_text("utf-8")
    example = f"`{program.relative_to(FRAMEWORKS).as_posix()}`"
    row = next((line for line in page.splitlines() if line.startswith("|") and example in line), None)
    assert row is not None, f"no row of the table names {example}"
    package, version = re.findall(r"`([\w@/-]+) ([\d.]+)`", row)[0]
    assert pins[package] == version
