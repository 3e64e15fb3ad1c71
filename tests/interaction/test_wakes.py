"""Wakes through a whole server: the door that asks, the gate that opens, the program elsewhere that reports its end."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.interaction.live import Live, live

SECRET = "whsec_" + base64.b64encode(b"a secret of the tests, 32 bytes!").decode()


class PulseReceiver:
    """A program that takes a pulse, answers 202, and reports its end when the test says so."""

    def __init__(self) -> None:
        self.url = ""
        self.started = asyncio.Queue[dict[str, Any]]()
        self.stops = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["PulseReceiver"]:
        app = web.Application()
        app.router.add_post("/", self._handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        said = json.loads(await request.read())
        if said["type"] in ("pulse.start", "pulse.resume"):
            self.started.put_nowait(said)
            await self.may_answer.wait()
        else:
            self.stops += 1
        return web.Response(status=202)


async def until(server: Live, pulse: str, *statuses: str) -> dict[str, Any]:
    """Return the pulse once it has one of the statuses."""
    async with asyncio.timeout(60):
        while True:
            found = (await server.rest("GET", f"/pulses/{pulse}"))[1]
            if found["status"] in statuses:
                return found
            await asyncio.sleep(0.02)


async def elsewhere_agent(server: Live) -> str:
    """Make bob, whose pulses run elsewhere, and ann; return ann's token."""
    ann = await server.agent("ann")
    await server.agent("bob")
    await server.sleeping(True, "bob")
    status, answer = await server.rest(
        "PATCH", "/agents/bob/coordination", {"launcher": "away", "heartbeat_minutes": None}
    )
    assert status == 200, answer
    return ann


def away(url: str) -> dict[str, Any]:
    """Return the sections for an agent whose pulses run at the URL."""
    hook = {"kind": "webhook", "url": url, "secret_env": "HOOK", "allowed_networks": ["127.0.0.0/8"]}
    return {"launchers": {"away": hook}, "environment": {"HOOK": SECRET}}


@pytest.mark.spec("WAKE-01", "WAKE-56")
async def test_a_wake_lets_the_held_call_of_a_sleeping_agent_go_on(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        ann, bob = await server.agent("ann"), await server.agent("bob")
        await server.sleeping(True, "bob")
        held = asyncio.create_task(asyncio.wait_for(server.call(bob), 60))
        await server.held(1)
        body = {"to": "bob", "message": "go on", "reason": "blocker"}
        status, told = await server.rest("POST", "/wakes", body, token=ann)
        assert (status, told["decision"]) == (201, "admitted")
        async with await held as answer:
            assert answer.status == 200
        pulse = await until(server, told["pulse"], "running")
        assert (pulse["kind"], pulse["launcher"], pulse["by"]) == ("wake", "resident", "ann")
        await server.sleeping(True, "bob")
        assert (await until(server, told["pulse"], "succeeded"))["run_seconds"] > 0


@pytest.mark.spec("WAKE-01", "WAKE-04")
async def test_a_wake_by_mcp_is_in_the_one_record_with_those_by_rest(tmp_path: Path) -> None:
    async with live(tmp_path) as server:
        ann = await server.agent("ann")
        await server.agent("bob")
        await server.sleeping(True, "bob")
        arguments = {"to": "bob", "message": "red", "reason": "critical_finding"}
        call = {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wake_agent", "arguments": arguments},
        }  # fmt: skip
        async with server.tool(ann, call, headers={"mcp-protocol-version": "2025-06-18"}) as answer:
            assert answer.status == 200
            assert '"decision":"admitted"' in (await answer.text()).replace("\\", "").replace(" ", "")
        await server.rest("POST", "/wakes", {"to": "bob", "message": "again", "reason": "blocker"}, token=ann)
        wakes = (await server.rest("GET", "/wakes"))[1]["wakes"]
        assert [(each["reason"], each["decision"]) for each in wakes] == [
            ("blocker", "deferred"), ("critical_finding", "admitted"),
        ]  # fmt: skip


@pytest.mark.spec("WAKE-51", "WAKE-52", "WAKE-30")
async def test_a_program_elsewhere_reports_its_end_with_the_token_of_its_pulse(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, **away(program.url)) as server:
        ann = await elsewhere_agent(server)
        body = {"to": "bob", "message": "build it", "reason": "blocker"}
        told = (await server.rest("POST", "/wakes", body, token=ann))[1]
        started = await asyncio.wait_for(program.started.get(), 60)
        assert started["pulse"] == told["pulse"]
        await until(server, told["pulse"], "running")
        end, token = f"/pulses/{told['pulse']}/end", started["token"]
        done = {"status": "succeeded", "detail": "built", "epoch": started["epoch"]}
        assert (await server.rest("POST", end, done, token=ann))[0] == 403
        assert (await server.rest("POST", end, {**done, "epoch": 7}, token=token))[0] == 409
        assert (await server.rest("GET", "/agents/bob/inbox", token=token))[0] == 200
        assert (await server.rest("POST", end, done, token=token))[0] == 202
        ended = await until(server, told["pulse"], "succeeded")
        assert ended["detail"] == "built"
        counts = (await server.rest("GET", "/agents/bob/inbox"))[1]["counts"]
        assert (counts["unread"], counts["leased"], counts["handled"]) == (0, 0, 1)
        assert (await server.rest("POST", end, done, token=token))[0] == 401
        assert (await server.rest("POST", end, done))[0] == 409


@pytest.mark.spec("WAKE-50", "WAKE-51")
async def test_a_report_that_overtakes_the_answer_to_its_start_is_the_end(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, **away(program.url)) as server:
        ann = await elsewhere_agent(server)
        program.may_answer.clear()
        body = {"to": "bob", "message": "build it", "reason": "blocker"}
        told = (await server.rest("POST", "/wakes", body, token=ann))[1]
        started = await asyncio.wait_for(program.started.get(), 60)
        end = f"/pulses/{told['pulse']}/end"
        status, ended = await server.rest("POST", end, {"status": "succeeded"}, token=started["token"])
        assert (status, ended["status"], ended["started_at"] is None) == (202, "succeeded", False)
        program.may_answer.set()
        await server.rest("PATCH", "/agents/bob/coordination", {"wake_guardrails": {"cooldown_seconds": 0}})
        again = (await server.rest("POST", "/wakes", body, token=ann))[1]
        second = await asyncio.wait_for(program.started.get(), 60)
        await until(server, again["pulse"], "running")
        await server.rest("POST", f"/pulses/{again['pulse']}/end", {"status": "failed"}, token=second["token"])
        assert (await until(server, told["pulse"], "succeeded"))["attempt"] == 1
        await until(server, again["pulse"], "failed")  # else the server stops it when it stops
    assert program.stops == 0


@pytest.mark.spec("WAKE-54", "WAKE-30")
async def test_a_run_that_is_reported_as_failed_leaves_its_message_unread_and_tells_the_waker(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, **away(program.url)) as server:
        ann = await elsewhere_agent(server)
        body = {"to": "bob", "message": "build it", "reason": "blocker"}
        told = (await server.rest("POST", "/wakes", body, token=ann))[1]
        await asyncio.wait_for(program.started.get(), 60)
        await until(server, told["pulse"], "running")
        failed = {"status": "failed", "detail": "no space left"}
        assert (await server.rest("POST", f"/pulses/{told['pulse']}/end", failed))[0] == 202
        await until(server, told["pulse"], "failed")
        assert (await server.rest("GET", "/agents/bob/inbox"))[1]["counts"]["unread"] == 1
        got = (await server.rest("GET", "/agents/ann/inbox", token=ann))[1]["messages"]
        assert [(each["from"], "no space left" in each["content"]) for each in got] == [("circadia", True)]


@pytest.mark.spec("WAKE-60", "UI-05")
async def test_what_an_agent_does_with_its_pulses_token_belongs_to_the_chain_of_that_pulse(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, **away(program.url)) as server:
        await elsewhere_agent(server)
        await server.sleeping(True, "ann")
        told = (await server.rest("POST", "/wakes", {"to": "bob", "message": "m", "reason": "user_request"}))[1]
        token = (await asyncio.wait_for(program.started.get(), 60))["token"]
        await until(server, told["pulse"], "running")
        body = {"to": "ann", "message": "look", "reason": "blocker"}
        asked = (await server.rest("POST", "/wakes", body, token=token))[1]
        assert (asked["root"], asked["decision"]) == (told["root"], "admitted")
        assert (await server.answered(token))[0] == 200
        (used,) = await server.usage()
        chain = (await server.rest("GET", f"/chains/{told['root']}"))[1]
        assert [(node["kind"], node["agent"]) for node in chain["nodes"]] == [
            ("message", "operator"), ("wake", "bob"), ("pulse", "bob"), ("message", "bob"), ("wake", "ann"),
            ("pulse", "ann"),
        ]  # fmt: skip
        usage = [node["usage"] for node in chain["nodes"]]
        assert usage[2] == {name: used[name] for name in usage[2]} == chain["usage"]
        assert (usage[2]["calls"], usage[2]["input_tokens"] > 0, usage[2]["cost_usd"] > 0) == (1, True, True)
        assert [*usage[:2], *usage[3:]] == [None] * 5
        await server.rest("POST", f"/pulses/{told['pulse']}/end", {"status": "succeeded"}, token=token)
        await until(server, told["pulse"], "succeeded")  # else the server lets it run on when it stops


@pytest.mark.spec("WAKE-50", "WAKE-52")
async def test_a_pulse_that_is_cancelled_gives_its_message_back_and_its_token_dies(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, **away(program.url)) as server:
        await elsewhere_agent(server)
        told = (await server.rest("POST", "/wakes", {"to": "bob", "message": "m", "reason": "user_request"}))[1]
        token = (await asyncio.wait_for(program.started.get(), 60))["token"]
        await until(server, told["pulse"], "running")
        assert (await server.rest("GET", "/agents/bob/inbox"))[1]["counts"]["leased"] == 1
        assert (await server.rest("POST", f"/pulses/{told['pulse']}/cancel"))[1]["status"] == "cancelled"
        assert (await server.rest("GET", "/agents/bob/inbox"))[1]["counts"]["unread"] == 1
        assert (await server.rest("GET", "/agents/bob/inbox", token=token))[0] == 401
