"""How commands find the server and the token, and what they say when they cannot."""

from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from circadia.cli.connection import DEFAULT_URL, resolve_target
from circadia.errors import Unauthenticated
from tests.cli.terminal import refused, run
from tests.fixtures.server_process import ADMIN_TOKEN, CircadiaProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.spec("GATE-32")
async def test_a_wrong_token_opens_nothing(operator: CircadiaProcess) -> None:
    refused(await run("holds", "--token", "circadia-admin-wrong"), 3, "token")


@pytest.mark.spec("GATE-32")
async def test_an_agents_token_does_not_open_the_operators_commands(operator: CircadiaProcess) -> None:
    token = (await operator.create_session("agents-token", [{"name": "ann"}]))["ann"]
    refused(await run("holds", "--token", token), 3, "ann", "operator's token")
    own = await run("sleep", "agents-token:ann", "--token", token, "--json")
    assert own.json["agents"][0]["sleeping"] is True


async def test_without_a_token_the_command_says_where_it_looked(home: Path) -> None:
    refused(await run("holds"), 3, ".local/share/circadia/admin.token", "`circadia serve`", "--token")


async def test_the_token_of_the_data_folder_serves_on_this_machine(home: Path, server: CircadiaProcess) -> None:
    folder = home / "folder"
    folder.mkdir()
    (folder / "admin.token").write_text(f"{ADMIN_TOKEN}\n", "ascii")
    assert (await run("holds", "--json", "--url", server.url, "--data", str(folder))).json["holds"] == []


async def test_the_data_folders_token_is_not_sent_to_another_machine(home: Path) -> None:
    folder = home / ".local" / "share" / "circadia"
    folder.mkdir(parents=True)
    (folder / "admin.token").write_text(ADMIN_TOKEN, "ascii")
    assert resolve_target(DEFAULT_URL, None, None, {}).token == ADMIN_TOKEN
    with pytest.raises(Unauthenticated, match="--token"):
        resolve_target("https://circadia.example.com", None, None, {})
    with pytest.raises(Unauthenticated, match="--token"):
        resolve_target("https://circadia.example.com", None, folder, {"CIRCADIA_DATA": str(folder)})
    assert resolve_target("https://circadia.example.com", None, folder, {}).token == ADMIN_TOKEN


async def test_the_agents_variable_goes_before_the_operators(
    operator: CircadiaProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIRCADIA_TOKEN", "circadia-agent-wrong")
    refused(await run("holds"), 3)


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_name_that_is_empty_or_means_a_folder_is_refused(operator: CircadiaProcess, name: str) -> None:
    refused(await run("banks", "delete", name, "--yes"), 2, f"{name!r} is no name or id")
    refused(await run("sessions", "close", name), 2, f"{name!r} is no name or id")


@pytest.mark.parametrize("words", [("banks", "notes", "Gr\udcfc\udce1e"), ("banks", "search", "team", "Gr\udcfce")])
async def test_what_a_terminal_sends_in_latin_1_is_told_to_be_sent_in_utf_8(
    operator: CircadiaProcess, words: tuple[str, ...]
) -> None:
    refused(await run(*words), 2, "is not valid Unicode; write it in UTF-8")


async def test_what_there_is_not_is_told_with_the_command_that_lists_what_there_is(operator: CircadiaProcess) -> None:
    await run("banks", "add", "library")
    for number in range(8):  # few names would be listed
        await run("banks", "add", f"library-{number}")
    none = "xzkwq"
    for words, command in (
        (("banks", "notes", none), "`circadia banks` lists them"),
        (("episodes", "show", "library", none), "`circadia episodes library`"),
        (("banks", "explain", "library", none), "`circadia banks notes library`"),
        (("wakes", "explain", none), "`circadia wakes`"),
        (("wakes", "cancel", none), "`circadia wakes`"),
        (("pulses", "cancel", none), "`circadia pulses`"),
        (("events", "--agent", none), "`circadia agents --session`"),
    ):
        refused(await run(*words), 4, command)


async def test_without_a_server_the_command_says_how_to_start_one(home: Path, unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    refused(
        await run("holds", "--url", url, "--token", ADMIN_TOKEN), 11, f"{url} cannot be reached: Connection refused;"
    )
    refused(await run("holds", "--url", "http://nowhere.invalid", "--token", "t"), 11, "`circadia serve`")


@pytest.mark.parametrize(("given", "named"), [(None, "~/.local/share"), ("~nobody-of-that-name/x", "'~nobody-of-that")])
async def test_without_a_home_folder_the_data_folder_must_be_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, named: str
) -> None:
    def nobody(number: int) -> None:
        raise KeyError(f"{number} is in no list of users")

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    words = ("--data", given) if given else ()
    refused(await run("holds", *words), 9, named, "--data", "CIRCADIA_DATA")
    refused(await run("serve", *words), 9, named, "--data", "CIRCADIA_DATA")


async def test_a_server_that_is_not_circadia_is_told_apart(home: Path) -> None:
    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="<html>hello</html>")

    app = web.Application()
    app.router.add_get("/{path:.*}", hello)
    async with TestServer(app) as other:
        refused(await run("holds", "--url", str(other.make_url("")), "--token", ADMIN_TOKEN), 11, "address")


@pytest.mark.parametrize("url", ["localhost:4114", "ftp://localhost", "http://"])
async def test_what_is_no_address_is_refused(home: Path, url: str) -> None:
    refused(await run("holds", "--url", url, "--token", ADMIN_TOKEN), 2, repr(url))
