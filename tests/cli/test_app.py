"""What holds for every command: JSON, errors, the end of a pipe."""

import asyncio
import io
import json
import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from circadia.cli.app import app, exit_status
from circadia.errors import EXIT_STATUS, CircadiaError, Conflict
from tests.cli.terminal import PROGRAM, refused, run
from tests.fixtures.server_process import CircadiaProcess
from tests.house.tree import REFERENCE, parts

INTERRUPTED = 130

OF_A_SERVER = {
    "circadia.server.app", "circadia.settings.root", "circadia.stores.base", "circadia.memory.episodes",
    "circadia.wake.coordination", "fastapi", "numpy", "sqlalchemy", "uvicorn",
}  # fmt: skip
"""Modules that take long to load, and what they are for."""
READING = (
    ("sessions",),
    ("sessions", "show", "default"),
    ("agents",),
    ("holds",),
    ("events",),
    ("events", "--after", "0"),
    ("usage",),
    ("savings",),
    ("top", "--once"),
    ("config", "check"),
    ("config", "show"),
    ("doctor",),
)
CHANGING = (
    ("sessions", "add", "every", "--agent", "ann", "--sleepers", "all-but"),
    ("agents", "add", "every:bob"),
    ("agents", "change", "every:bob", "--description", "second"),
    ("agents", "token", "every:bob"),
    ("sleep", "every:bob"),
    ("wake", "--all", "--session", "every"),
    ("agents", "delete", "every:bob"),
    ("sessions", "close", "every"),
)


@pytest.mark.asyncio(loop_scope="module")
async def test_with_json_a_command_prints_one_document_and_nothing_else(operator: CircadiaProcess) -> None:
    for words in (*READING, *CHANGING):
        result = await run(*words, "--json")
        assert isinstance(result.json, dict), words


async def test_a_group_without_a_list_shows_its_help() -> None:
    result = await run("config")
    assert (result.status, result.err) == (2, "")
    assert "check" in result.out


@pytest.mark.parametrize(("end", "status"), [(EOFError, 1), (KeyboardInterrupt, 130)])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_question_that_nobody_answers_deletes_nothing(
    operator: CircadiaProcess, monkeypatch: pytest.MonkeyPatch, end: type[BaseException], status: int
) -> None:
    class Nobody(io.StringIO):
        def readline(self, _: int | None = -1, /) -> str:
            raise end

    await run("banks", "add", "kept", "--json")
    monkeypatch.setattr("sys.stdin", Nobody())
    result = await run("banks", "delete", "kept")
    assert result.status == status
    assert "Traceback" not in result.err
    assert "kept" in (await run("banks")).out


@pytest.mark.asyncio(loop_scope="module")
async def test_the_operators_token_is_never_printed(operator: CircadiaProcess) -> None:
    for words in READING:
        result = await run(*words)
        assert operator.admin["Authorization"].split()[1] not in result.out + result.err, words


async def test_the_version_is_the_packages() -> None:
    assert (await run("--version")).out == f"{version('circadia')}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("slep",), "sleep"),
        (("agents", "ad"), "did you mean 'add'?"),
        (("agents", "--session", "team", "add", "ann"), "'add' before the options"),
        (("passes", "rnu", "team"), "did you mean 'run'?"),
        (("agent", "add", "ann"), "did you mean 'agents add'"),
        (("session", "list"), "did you mean 'sessions'"),
        (("memory", "search", "team", "when"), "did you mean 'banks search'?"),
        (("memory", "block", "set"), "'banks', 'blocks', 'episodes'"),
        (("sleeptime", "why-not", "--bank", "team"), "'passes why-not'"),
        (("chain", "wak_1"), "did you mean 'wakes chain'?"),
        (("holds", "--wach"), "--watch"),
        (("serve", "--port", "x"), "--port"),
        (("inbox",), "'AGENT'"),
        (("pulses", "--limit", "0"), "see `circadia pulses --help`"),
        (("send", "writer", "hi", "--priority", "soon \x1b[2J, with more words than a line has"), "urgent"),
    ],
)
async def test_words_that_are_wrong_are_told_in_one_line_with_the_nearest(words: tuple[str, ...], told: str) -> None:
    result = await run(*words)
    refused(result, 2, told)
    assert "\x1b" not in result.err


async def test_each_error_has_the_exit_status_of_its_class_or_the_nearest_above() -> None:
    class Later(Conflict):
        """A class that the table does not name."""

    assert [exit_status(kind("x")) for kind in EXIT_STATUS] == list(EXIT_STATUS.values())
    assert exit_status(Later("x")) == EXIT_STATUS[Conflict]
    assert exit_status(CircadiaError("x")) == 1


async def test_the_page_tells_each_exit_status() -> None:
    (part,) = [part.text for part in parts(REFERENCE / "cli.md") if part.heading == "Errors"]
    told = {int(line.split("|")[1]) for line in part.splitlines() if line.startswith("| ") and line[2].isdigit()}
    assert told == {0, 1, INTERRUPTED, *EXIT_STATUS.values()}


@pytest.mark.parametrize("words", [("config", "show"), ("config", "show", "--json"), ("doctor",), ("--help",)])
async def test_a_reader_that_goes_away_is_no_error(home: Path, words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = await asyncio.create_subprocess_exec(*PROGRAM, *words, stdout=writer, stderr=asyncio.subprocess.PIPE)
    os.close(writer)
    _, err = await process.communicate()
    assert (process.returncode, err.decode()) == (1, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
async def test_an_encoding_without_all_letters_is_no_error_and_json_stays_whole(home: Path, encoding: str) -> None:
    text = "naïve – 夜 🌙"
    (home / "circadia.yaml").write_text(f"agents: {{ann: {{description: {text}}}}}", "utf-8")
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    said: list[str] = []
    for words in (("config", "show"), ("config", "show", "--json")):
        process = await asyncio.create_subprocess_exec(*PROGRAM, *words, env=env, stdout=asyncio.subprocess.PIPE)
        said.append((await process.communicate())[0].decode(encoding))
        assert process.returncode == 0
    assert "\\u591c" in said[0]
    values = {each["key"]: each["value"] for each in json.loads(said[1])["settings"]}
    assert values["agents.ann.description"] == text


@pytest.mark.parametrize("loaded", ["typer", "circadia.cli.terminal.output", "circadia.schemas.view"])
async def test_ctrl_c_while_a_command_is_loaded_ends_it_without_a_traceback(loaded: str) -> None:
    program = (sys.executable, "-X", "importtime", "-m", "circadia", "sessions")
    process = await asyncio.create_subprocess_exec(
        *program, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    async for line in process.stderr:
        if line.decode().split("|")[-1].strip() == loaded:
            break
    process.send_signal(signal.SIGINT)
    rest = (await process.stderr.read()).decode()
    assert (await process.wait(), "Traceback" in rest) == (INTERRUPTED, False)


async def test_it_is_installed_as_circadia() -> None:
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("circadia")), "--version", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode() == f"{version('circadia')}\n"


@pytest.mark.parametrize(
    "words",
    [("--help",), ("agents", "--help"), ("banks", "--help"), ("passes", "status", "--help"), ("wakes", "--help")],
)
async def test_help_loads_neither_a_client_nor_what_a_server_is_made_of(words: tuple[str, ...]) -> None:
    assert not await loaded_by(*words) & {"aiohttp.client", "yaml", *OF_A_SERVER}


@pytest.mark.parametrize("words", [("agents",), ("send", "ann", "hello"), ("banks",), ("wakes",)])
async def test_a_command_that_asks_a_server_loads_nothing_of_one(home: Path, words: tuple[str, ...]) -> None:
    found = await loaded_by(*words, "--token", "any", "--url", "http://127.0.0.1:9")
    assert "aiohttp.client" in found
    assert not found & OF_A_SERVER


def test_a_list_of_commands_says_of_each_what_its_own_help_begins_with() -> None:
    root: Any = typer.main.get_command(app)
    assert len(root.commands) > 20
    for name, listed in root.commands.items():
        assert listed.help == root.load_command(name).help.split("\n\n")[0].replace("\n", " "), name


async def loaded_by(*words: str) -> set[str]:
    """Return the modules that a command has loaded, whatever it says."""
    program = (sys.executable, "-X", "importtime", "-m", "circadia")
    process = await asyncio.create_subprocess_exec(
        *program, *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, told = await process.communicate()
    return {line.rpartition("|")[2].strip() for line in told.decode().splitlines() if line.startswith("import time:")}
