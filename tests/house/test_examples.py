"""Every example in the README and the docs is run, here or by the test that it names."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import typer.main

from circadia.cli.app import app
from tests.fixtures.program import Program
from tests.house.live_server import live_server
from tests.house.tree import ROOT, Block, blocks, committed, pages, shown

EXAMPLE_SECONDS = 60.0
PROGRAMS = {"python", "py", "javascript", "js", "typescript", "ts"}


def programs() -> list[Block]:
    return [block for page in pages() for block in blocks(page) if block.language in PROGRAMS]


def runnable() -> list[Block]:
    return [block for block in programs() if "runnable" in block.flags]


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[Mapping[str, str]]:
    async with live_server(tmp_path) as variables:
        yield variables


@pytest.mark.parametrize("block", runnable(), ids=str)
async def test_a_runnable_example_runs_as_it_stands(
    block: Block, environment: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "example.py"
    program.write_text(block.body, "utf-8")
    monkeypatch.chdir(tmp_path)
    process = await Program.start([str(program)], env=environment)
    try:
        async with asyncio.timeout(EXAMPLE_SECONDS):
            said = await process.stdout.read()
            await process.wait()
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.returncode == 0, f"{block}\n{said.decode()}"


def test_the_readme_has_an_example_that_is_run() -> None:
    assert [block for block in runnable() if block.page == ROOT / "README.md"]


def test_each_program_in_the_docs_is_runnable_or_names_the_test_that_runs_it() -> None:
    files = {shown(path) for path in committed()}
    loose: list[str] = []
    for block in programs():
        named = [flag.removeprefix("run-by=") for flag in block.flags if flag.startswith("run-by=")]
        if "runnable" not in block.flags and not (named and files.issuperset(named)):
            loose.append(str(block))
    assert not loose


def command_lines() -> list[tuple[Block, list[str]]]:
    """Return the calls of `circadia` in the shell blocks, as words up to a pipe, a comment or a second command."""
    found: list[tuple[Block, list[str]]] = []
    for page in pages():
        for block in blocks(page):
            if block.language in {"sh", "bash", "console", "shell"}:
                text = block.body.replace("\\\n", " ")
                calls = re.findall(r"^(?:\$ )?(?:\w+=\S+ )*(circadia\b[^|&;#<>\n]*)", text, re.M)
                found += [(block, call.split()) for call in calls]
    return found


def test_each_command_line_in_the_docs_exists_with_its_options() -> None:
    wrong: list[str] = []
    circadia = typer.main.get_command(app)
    for block, words in command_lines():
        command: object = circadia
        rest = words[1:]
        while rest and rest[0] in (inner := getattr(command, "commands", {})):
            command = inner[rest.pop(0)]
        parameters = getattr(command, "params", ())
        known = {name for p in parameters for name in (*p.opts, *p.secondary_opts)} | {"--help"}
        options = [word.split("=")[0] for word in rest if word.startswith("--")]
        acts = getattr(command, "invoke_without_command", False) and rest and rest[0].startswith("--")
        if getattr(command, "commands", {}) and options != ["--help"] and rest and not acts:
            wrong.append(f"{block}: no command {' '.join(words)!r}")
        wrong += [f"{block}: no option {option} in {' '.join(words)!r}" for option in options if option not in known]
    assert not wrong


def test_each_make_target_in_the_docs_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = {
        (shown(page), target)
        for page in pages()
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text("utf-8"), re.M)
    }
    assert not [place for place in named if place[1] not in targets]
