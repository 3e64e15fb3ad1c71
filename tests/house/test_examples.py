"""Every example in the README and the docs is run, here or by the test that it names."""

import asyncio
import re
import shlex
import signal
from collections.abc import AsyncIterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.exceptions import TyperException

from circadia.cli.app import app
from tests.fixtures.program import Program
from tests.house.live_server import live_server
from tests.house.test_doors_documented import commands
from tests.house.tree import ROOT, Block, blocks, committed, pages, shown

EXAMPLE_SECONDS = 60.0
CALL = re.compile(r"(?:^(?:Example: |\$ )?|[|;&] *)(?:\w+=\S+ +)*(circadia\b.*)$")
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


def command_lines() -> list[tuple[str, list[str]]]:
    """Return the calls of `circadia` in shell blocks and helps, as words up to a pipe, comment or second command."""
    found = [(f"help of {name}", epilog) for name, command in commands() if (epilog := command.epilog)]
    for page in pages():
        for block in blocks(page):
            if block.language in {"sh", "bash", "console", "shell"}:
                found += [(str(block), line) for line in block.body.replace("\\\n", " ").splitlines()]
    calls = [(place, match[1]) for place, line in found if (match := CALL.search(line))]
    return [(place, words_of(call)) for place, call in calls]


def words_of(call: str) -> list[str]:
    """Return the words of one call, as a shell reads them."""
    words = shlex.shlex(call, posix=True, punctuation_chars="|&;<>")
    words.whitespace_split = True
    return list(takewhile(lambda word: word.strip("|&;<>"), words))


def test_each_command_line_in_the_docs_can_be_read_as_it_stands() -> None:
    wrong: list[str] = []
    for place, (name, *rest) in command_lines():
        root: Any = typer.main.get_command(app)
        try:
            context = root.make_context(name, list(rest))
            if rest[0] in root.commands:
                context = root.load_command(rest[0]).make_context(f"{name} {rest[0]}", rest[1:], context)
            while below := getattr(context, "_protected_args", None):
                command = context.command.resolve_command(context, [*below, *context.args])[1]
                context = command.make_context(" ".join(below), list(context.args), context)
        except TyperException as error:
            wrong.append(f"{place}: {name} {rest}: {error}")
        except typer.Exit:
            pass  # what --help and --version end with
    assert not wrong


def test_each_make_target_in_the_docs_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = {
        (shown(page), target)
        for page in pages()
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text("utf-8"), re.M)
    }
    assert not [place for place in named if place[1] not in targets]
