"""Agents with a launcher sleep unless a pulse of them runs, whatever made them, and are woken as all others are."""

import asyncio
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.live import Live, live
from tests.interaction.test_wakes import PulseReceiver, away, until

BOB = {"bob": {"token_env": "BOB", "coordination": {"launcher": "away", "heartbeat_minutes": None}}}


def hooked(program: PulseReceiver, **more: Any) -> dict[str, Any]:
    """Return the sections of a server whose bob is launched elsewhere, as the file says."""
    sections = away(program.url)
    return {**sections, "environment": {**sections["environment"], "BOB": "cdt_bob_of_the_tests"}, **more}


async def state(server: Live, name: str = "bob") -> dict[str, Any]:
    return (await server.rest("GET", f"/sessions/default/agents/{name}/sleeping"))[1]


async def started(program: PulseReceiver) -> dict[str, Any]:
    return await asyncio.wait_for(program.started.get(), 60)


async def end(server: Live, run: dict[str, Any]) -> None:
    """Report the end of a run and wait until it stands."""
    await until(server, run["pulse"], "running")
    body = {"status": "succeeded", "epoch": run["epoch"]}
    assert (await server.rest("POST", f"/pulses/{run['pulse']}/end", body, token=run["token"]))[0] == 202
    await until(server, run["pulse"], "succeeded")


async def mention(server: Live, name: str = "bob") -> None:
    """Have the operator mention the agent in a thread of it."""
    thread = (await server.rest("POST", "/sessions/default/threads", {"name": "t", "participants": [name]}))[1]["id"]
    body = {"content": f"@{name} look", "mentions": [name]}
    assert (await server.rest("POST", f"/sessions/default/threads/{thread}/messages", body))[0] == 201


@pytest.mark.spec("WAKE-87")
async def test_an_agent_of_the_file_that_is_launched_sleeps_from_the_start_and_its_first_mention_starts_it(
    tmp_path: Path,
) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, agents=BOB, **hooked(program)) as server:
        await server.agent("ann")
        await server.rest("PATCH", "/sessions/default/agents/bob", {"wake_events": ["mentioned"]})
        assert (await state(server))["sleeping"]
        overview = (await server.rest("GET", "/overview"))[1]
        assert (overview["asleep"], overview["awake"]) == (1, 1)
        assert (await server.rest("GET", "/agents?agent=bob"))[1]["agents"][0]["sleeping"]
        await mention(server)
        run = await started(program)
        await until(server, run["pulse"], "running")
        assert not (await state(server))["sleeping"]
        await end(server, run)
        assert (await state(server))["sleeping"]


@pytest.mark.spec("WAKE-87")
async def test_an_agent_that_gets_a_launcher_sleeps_and_one_that_loses_it_is_awake_again(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, **hooked(program)) as server:
        await server.agent("bob")
        for launcher, asleep in (("away", True), ("resident", False), ("away", True)):
            await server.rest("PATCH", "/agents/bob/coordination", {"launcher": launcher})
            assert (await state(server))["sleeping"] is asleep
        await server.rest("DELETE", "/agents/bob/coordination/launcher")
        assert not (await state(server))["sleeping"]
        await server.sleeping(True, "bob")
        for launcher in ("away", "resident"):
            await server.rest("PATCH", "/agents/bob/coordination", {"launcher": launcher})
            assert (await state(server))["actor"] == "operator"


@pytest.mark.spec("WAKE-87")
@pytest.mark.parametrize("many", [False, True])
async def test_a_person_who_wakes_a_launched_agent_starts_a_pulse_whatever_its_guardrails_say(
    tmp_path: Path, many: bool
) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, agents=BOB, **hooked(program)) as server:
        await server.rest("PATCH", "/agents/bob/coordination", {"wake_guardrails": {"max_daily_session_minutes": 0}})

        async def wake() -> dict[str, Any]:
            path = "/sessions/default/sleeping" if many else "/sessions/default/agents/bob/sleeping"
            body = {"sleeping": False, "agents": ["bob"]} if many else {"sleeping": False}
            status, answer = await server.rest("PUT", path, body)
            assert status == 200
            return answer["agents"][0] if many else answer

        woken = await wake()
        assert (woken["sleeping"], (await wake())["pulse"]) == (True, woken["pulse"])
        run = await started(program)
        assert run["pulse"] == woken["pulse"]
        pulse = await until(server, run["pulse"], "running")
        assert (pulse["kind"], pulse["by"], pulse["launcher"]) == ("manual", "operator", "away")
        again = await wake()
        assert (again["sleeping"], again["pulse"]) == (False, run["pulse"])
        await server.sleeping(True, "bob")  # its program waits; to wake it needs no second one
        assert (await wake())["pulse"] == run["pulse"]
        assert not (await state(server))["sleeping"]
        await end(server, run)
        assert program.started.empty()
        assert (await state(server))["pulse"] is None


@pytest.mark.spec("WAKE-87")
async def test_an_agent_that_may_wake_a_launched_one_asks_for_a_pulse_by_its_guardrails(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, agents=BOB, **hooked(program)) as server:
        ann = await server.agent("ann", may_wake=["bob"])
        wake = {"sleeping": False}
        woken = (await server.rest("PUT", "/sessions/default/agents/bob/sleeping", wake, token=ann))[1]
        assert (await started(program))["pulse"] == woken["pulse"]
        arguments = {"agent": "bob", "sleeping": False}
        params = {"name": "set_sleeping", "arguments": arguments}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        await until(server, woken["pulse"], "running")
        await server.rest("POST", f"/pulses/{woken['pulse']}/end", {"status": "succeeded"})
        async with server.tool(ann, call, headers={"mcp-protocol-version": "2025-06-18"}) as answer:
            assert '"sleeping":true' in (await answer.text()).replace("\\", "").replace(" ", "")
        second, first = (await server.rest("GET", "/wakes"))[1]["wakes"]
        assert (first["source"], first["from"], first["charge"]) == ("agent", "ann", "charged")
        assert (second["decision"], second["rule"]) == ("deferred", "cooldown_seconds")


@pytest.mark.spec("WAKE-87")
async def test_a_program_that_calls_outside_of_a_pulse_is_held_and_the_log_says_once_how_to_run_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, agents=BOB, **hooked(program)) as server:
        calls = [asyncio.create_task(server.answered("cdt_bob_of_the_tests")) for _ in range(2)]
        await server.held(2)
        said = [record for record in caplog.records if "launcher: resident" in record.getMessage()]
        assert [(record.levelno, "'bob'" in record.getMessage()) for record in said] == [(logging.WARNING, True)]
        await server.rest("PATCH", "/agents/bob/coordination", {"launcher": "resident"})
        assert [status for status, _ in await asyncio.wait_for(asyncio.gather(*calls), 60)] == [200, 200]


@pytest.mark.spec("WAKE-87", "SLEEP-01")
async def test_the_bank_of_launched_agents_that_never_ran_is_due_as_that_of_sleeping_ones(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, **hooked(program)) as server:
        await server.agent("bob", bank="shelf")
        await server.rest("PATCH", "/banks/shelf", {"policy": {"sleeptime": {"when": "asleep"}}})
        await server.rest("PATCH", "/agents/bob/coordination", {"launcher": "away"})
        await server.rest("POST", "/banks/shelf/episodes", {"text": "Ann lives in Porto.", "speaker": "ann"})

        async def triggers() -> set[str]:
            due = (await server.rest("GET", "/banks/shelf/sleeptime"))[1]["verdict"]["trigger"]
            begun = (await server.rest("GET", "/banks/shelf/passes"))[1]["passes"]
            return {due, *(each["trigger"] for each in begun)}

        async with asyncio.timeout(20):
            while "asleep" not in await triggers():
                await asyncio.sleep(0.05)


@pytest.mark.spec("WAKE-87")
async def test_a_start_puts_right_agents_that_an_earlier_version_left_awake(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program:
        async with live(tmp_path, agents=BOB, **hooked(program)) as server:
            woken = (await server.rest("PUT", "/sessions/default/agents/bob/sleeping", {"sleeping": False}))[1]
            await until(server, woken["pulse"], "running")
            run = await started(program)
            await end(server, run)
        with sqlite3.connect(tmp_path / "circadia.db", timeout=60) as database:
            database.execute("UPDATE agents SET asleep = 0 WHERE name = 'bob'")
        for _ in range(2):
            async with live(tmp_path, agents=BOB, **hooked(program)) as server:
                found = await state(server)
                assert (found["sleeping"], found["generation"]) == (True, 4)
                assert len(await server.events("sleep_start")) == 3
