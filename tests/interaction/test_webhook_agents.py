"""A program elsewhere that answers the webhook of a pulse at its end, and calls its model through the server before."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.fixtures.leap import Leap
from tests.interaction.live import Live, live
from tests.interaction.test_wakes import away, elsewhere_agent, until
from tests.wake.launchers.webhook_bench import serving

Work = Callable[[Live, str], Awaitable[web.Response]]
ENDS = ("succeeded", "failed", "timed_out")


@asynccontextmanager
async def working(folder: Path, work: Work) -> AsyncGenerator[Live]:
    """Run a server, and elsewhere a program that does the work of each pulse with its token before it answers."""
    gateway: asyncio.Future[Live] = asyncio.get_running_loop().create_future()

    async def handle(request: web.Request) -> web.Response:
        said = json.loads(await request.read())
        return await work(await gateway, said["token"]) if said["type"] == "pulse.start" else web.Response(status=204)

    async with serving(handle) as url, live(folder, **away(url)) as server:
        gateway.set_result(server)
        yield server


async def said_by_the_model(server: Live, token: str) -> str:
    """Call the model and return what it says; a held call is answered only when the gate is open."""
    async with server.call(token) as answer:
        said: str = (await answer.json())["choices"][0]["message"]["content"]
        return said.partition("\n")[0]  # behind it stands what the agent has slept through


async def woken(server: Live, ann: str) -> dict[str, Any]:
    status, told = await server.rest("POST", "/wakes", {"to": "bob", "message": "go", "reason": "blocker"}, token=ann)
    assert status == 201, told
    return told


@pytest.mark.spec("WAKE-51", "WAKE-53", "WAKE-56", "WAKE-14")
async def test_a_program_that_answers_at_its_end_has_an_open_gate_and_is_charged_while_it_works(tmp_path: Path) -> None:
    async def work(server: Live, token: str) -> web.Response:
        first, second = await said_by_the_model(server, token), await said_by_the_model(server, token)
        return web.json_response({"status": "succeeded", "detail": f"{first} {second}"})

    async with working(tmp_path, work) as server:
        ann = await elsewhere_agent(server)
        told = await woken(server, ann)
        ended = await until(server, told["pulse"], *ENDS)
        assert (ended["status"], ended["detail"]) == ("succeeded", "hello hello")
        assert ended["run_seconds"] > 0
        assert (await server.rest("GET", f"/wakes/{told['wake']}"))[1]["charge"] == "charged"
        assert (await server.rest("GET", "/sessions/default/agents/bob/sleeping"))[1]["sleeping"]
        assert (await woken(server, ann))["rule"] == "cooldown_seconds"


@pytest.mark.spec("WAKE-51", "WAKE-53", "WAKE-14")
@pytest.mark.parametrize("end", ["late refusal", "time limit"])
async def test_a_program_that_works_long_and_never_succeeds_has_run_all_the_same(
    tmp_path: Path, end: str, leap: Leap
) -> None:
    worked = asyncio.Event()

    async def work(server: Live, token: str) -> web.Response:
        assert await said_by_the_model(server, token) == "hello"
        worked.set()
        if end == "time limit":
            await asyncio.Event().wait()
        return web.Response(status=422, text="no")

    async with working(tmp_path, work) as server:
        ann = await elsewhere_agent(server)
        if end == "time limit":
            await server.rest("PATCH", "/agents/bob/coordination", {"pulse_timeout_seconds": 30})
        told = await woken(server, ann)
        if end == "time limit":
            await worked.wait()
            leap(30)
        ended = await until(server, told["pulse"], *ENDS)
        assert ended["status"] == ("timed_out" if end == "time limit" else "failed")
        assert ended["run_seconds"] > 0
        assert len(server.upstream.requests) == 1
        assert (await server.rest("GET", f"/wakes/{told['wake']}"))[1]["charge"] == "charged"
