"""The REST application and the MCP SDK are loaded by the first request, which may go away; `live` watches the loop."""

import asyncio
import importlib
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType

import aiohttp
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from circadia.server.context import HttpSession
from circadia.server.late_app import AppOpener, LateApp
from tests.fixtures.server_process import CircadiaProcess

pytestmark = pytest.mark.spec("SHIP-15")
MODULE = "tests_late_application"
SCOPE = {"type": "http", "path": "/"}


async def nothing() -> Message:
    return {"type": "http.disconnect"}


async def drop(_: Message) -> None: ...


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Register a module whose application notes when it is opened, asked and closed.

    `broken once` says that its first load fails, `endless` that it never opens.
    """
    events: list[str] = []

    @asynccontextmanager
    async def open_app(context: object) -> AsyncGenerator[ASGIApp]:
        events.append(f"opened with {context}")
        try:
            await (asyncio.Event().wait() if context == "endless" else asyncio.sleep(0))
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            events.append("asked")

        yield app
        events.append("closed")

    def load(context: object) -> AppOpener:
        if context == "broken once" and "failed" not in events:
            events.append("failed")
            raise ImportError("no such library")
        return lambda: open_app(context)

    module = ModuleType(MODULE)
    vars(module)["load"] = load
    monkeypatch.setitem(sys.modules, MODULE, module)
    assert importlib.import_module(MODULE) is module
    return events


async def test_first_requests_open_one_application_and_the_server_closes_it(opened: list[str]) -> None:
    late = LateApp(MODULE, "load", "services")
    async with late.run():
        assert not opened
        await asyncio.gather(*(late(SCOPE, nothing, drop) for _ in range(3)))
        assert opened == ["opened with services", "asked", "asked", "asked"]
    assert opened[-1] == "closed"


async def test_a_first_caller_who_leaves_does_not_stop_the_loading(opened: list[str]) -> None:
    late = LateApp(MODULE, "load", "services")
    async with late.run():
        first = asyncio.create_task(late(SCOPE, nothing, drop))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await late(SCOPE, nothing, drop)
    assert opened == ["opened with services", "asked", "closed"]


async def test_a_failed_load_is_tried_again_by_the_next_request(opened: list[str]) -> None:
    late = LateApp(MODULE, "load", "broken once")
    async with late.run():
        with pytest.raises(ImportError):
            await late(SCOPE, nothing, drop)
        await late(SCOPE, nothing, drop)
        await late(SCOPE, nothing, drop)
    assert opened == ["failed", "opened with broken once", "asked", "asked", "closed"]


async def test_a_server_that_ends_while_it_loads_ends_the_load_too(opened: list[str]) -> None:
    late = LateApp(MODULE, "load", "endless")
    async with asyncio.timeout(60), late.run():
        first = asyncio.create_task(late(SCOPE, nothing, drop))
        while not opened:
            await asyncio.sleep(0)
    assert opened == ["opened with endless", "cancelled"]
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_its_module_is_loaded_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "tests_late_file"
    text = "import threading\n\nTHREAD = threading.get_ident()\n\n\ndef load(context):\n    return context\n"
    (tmp_path / f"{name}.py").write_text(text, "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    loaded_by: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        loaded_by.append(sys.modules[name].THREAD)

    late = LateApp(name, "load", partial(nullcontext, app))
    try:
        async with late.run():
            await late(SCOPE, nothing, drop)
    finally:
        sys.modules.pop(name, None)
    assert len(loaded_by) == 1
    assert threading.get_ident() not in loaded_by


async def test_the_http_session_is_one_for_all_who_need_it_and_closes_with_the_server() -> None:
    session = HttpSession()
    await session.close()  # nobody has needed it
    opened = session.open()
    assert session.open() is opened
    await session.close()
    assert opened.closed


async def test_the_first_calls_of_a_server_keep_no_other_call_waiting(tmp_path: Path) -> None:
    """The process watches its event loop, and fails the test for a callback that computes for 50 ms."""
    async with CircadiaProcess(tmp_path) as server:
        server.end_warm_up()
        assert "agents" in await server.call("GET", "/agents")
        await server.call("POST", "/banks", {"name": "team"})
        await server.call("POST", "/banks/team/episodes", {"text": "Ann lives in Porto.", "speaker": "ann"})
        assert (await server.call("GET", "/banks/team/search?q=Porto"))["hits"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        headers = {**server.admin, "accept": "application/json, text/event-stream"}
        async with aiohttp.ClientSession(headers=headers) as http:
            async with http.post(f"{server.url}/mcp", json=body) as answer:
                assert "set_sleeping" in await answer.text()
            async with http.get(f"{server.url}/api/openapi.json") as answer:
                assert "set_sleeping" in await answer.text()
