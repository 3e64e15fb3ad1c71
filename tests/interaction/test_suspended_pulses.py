"""Programs that suspend a run and go on with it at the next wake: the pulse keeps its identity (WAKE-84)."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import Live, live
from tests.interaction.test_launched_agents import BOB, hooked, started, state
from tests.interaction.test_wakes import PulseReceiver, until


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return {} if url is None else {"server": {"database_url": url}}


def resuming(program: PulseReceiver, *, resumes: bool = True) -> dict[str, Any]:
    sections = hooked(program)
    sections["launchers"]["away"]["resumes"] = resumes
    return sections


async def report(server: Live, run: dict[str, Any], status: str) -> int:
    await until(server, run["pulse"], "running")
    body = {"status": status, "epoch": run["epoch"]}
    return (await server.rest("POST", f"/pulses/{run['pulse']}/end", body, token=run["token"]))[0]


async def wake(server: Live, text: str) -> dict[str, Any]:
    status, asked = await server.rest("POST", "/wakes", {"to": "bob", "message": text, "reason": "blocker"})
    assert status == 201
    return asked


FREE = {"bob": {**BOB["bob"], "coordination": {
    "launcher": "away", "heartbeat_minutes": None, "wake_guardrails": {"cooldown_seconds": 0},
}}}  # fmt: skip
"""Bob without a pause between his wakes."""


@pytest.mark.spec("WAKE-84")
@pytest.mark.setting("launchers.webhook.resumes")
async def test_a_suspended_run_goes_on_as_the_same_pulse_with_what_is_new_and_is_charged_for_each_wake(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with PulseReceiver().open() as program, live(tmp_path, agents=BOB, **resuming(program), **database) as server:
        guardrails = {"cooldown_seconds": 0, "max_wakes_per_day": 2}
        await server.rest(
            "PATCH", "/agents/bob/coordination", {"wake_guardrails": guardrails, "max_concurrent_pulse_sessions": 1}
        )
        first = await wake(server, "begin with it")
        run = await started(program)
        assert (run["type"], run["pulse"]) == ("pulse.start", first["pulse"])
        assert await report(server, run, "suspended") == 202
        (pulse,) = (await server.rest("GET", "/agents/bob/pulses"))[1]["pulses"]
        assert pulse["status"] == "suspended"
        assert (await state(server))["sleeping"]
        assert (await server.rest("GET", "/agents/bob/inbox"))[1]["counts"]["unread"] == 0
        assert (await server.rest("GET", "/agents/bob/wake-stats"))[1]["active_pulses"] == 0
        second = await wake(server, "go on with it")
        assert (second["decision"], second["pulse"]) == ("admitted", first["pulse"])
        again = await started(program)
        assert (again["type"], again["pulse"]) == ("pulse.resume", run["pulse"])
        assert (again["epoch"] > run["epoch"], again["attempt"]) == (True, 1)
        assert "go on with it" in again["prompt"]
        assert "begin with it" not in again["prompt"]
        assert again["token"] != run["token"]
        assert (await server.rest("POST", f"/pulses/{run['pulse']}/end", {"status": "failed"}, token=run["token"]))[
            0
        ] == 401
        await until(server, again["pulse"], "running")
        assert not (await state(server))["sleeping"]
        assert await report(server, again, "succeeded") == 202
        (pulse,) = (await server.rest("GET", "/agents/bob/pulses"))[1]["pulses"]
        assert (pulse["status"], pulse["id"]) == ("succeeded", run["pulse"])
        stats = (await server.rest("GET", "/agents/bob/wake-stats"))[1]
        assert (stats["wakes_today"], (await wake(server, "once more"))["rule"]) == (2, "max_wakes_per_day")
        assert program.stops == 0
        assert program.started.empty()


@pytest.mark.spec("WAKE-84")
async def test_a_run_that_a_stop_of_the_server_interrupted_is_resumed_and_not_cleared(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program:
        async with live(tmp_path, agents=BOB, **resuming(program)) as server:
            asked = await wake(server, "begin with it")
            run = await started(program)
            await until(server, run["pulse"], "running")
        stops = program.stops
        async with live(tmp_path, agents=BOB, **resuming(program)) as server:
            again = await started(program)
            assert (again["type"], again["pulse"]) == ("pulse.resume", asked["pulse"])
            assert program.stops == stops
            assert await report(server, again, "succeeded") == 202


@pytest.mark.spec("WAKE-84")
async def test_a_launcher_that_does_not_declare_it_can_suspend_nothing(tmp_path: Path) -> None:
    async with (
        PulseReceiver().open() as program,
        live(tmp_path, agents=BOB, **resuming(program, resumes=False)) as server,
    ):
        await wake(server, "begin with it")
        run = await started(program)
        assert await report(server, run, "suspended") == 409
        assert await report(server, run, "succeeded") == 202


@pytest.mark.spec("WAKE-84")
async def test_a_suspended_run_outlasts_a_restart_and_its_message_is_not_given_twice(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with PulseReceiver().open() as program:
        async with live(tmp_path, agents=FREE, **resuming(program), **database) as server:
            first = await wake(server, "begin with it")
            run = await started(program)
            assert await report(server, run, "suspended") == 202
            await until(server, first["pulse"], "suspended")
        async with live(tmp_path, agents=FREE, **resuming(program), **database) as server:
            assert (await server.rest("GET", f"/pulses/{first['pulse']}"))[1]["status"] == "suspended"
            late = {"status": "succeeded", "epoch": run["epoch"]}
            assert (await server.rest("POST", f"/pulses/{run['pulse']}/end", late, token=run["token"]))[0] == 401
            assert (await server.rest("POST", f"/pulses/{run['pulse']}/end", late))[0] == 409
            assert (await wake(server, "go on"))["pulse"] == first["pulse"]
            again = await started(program)
            assert (again["type"], "begin with it" in again["prompt"]) == ("pulse.resume", False)
            assert await report(server, again, "suspended") == 202
            await until(server, first["pulse"], "suspended")
            assert (await wake(server, "and once more"))["pulse"] == first["pulse"]
            assert await report(server, await started(program), "succeeded") == 202


@pytest.mark.spec("WAKE-84")
@pytest.mark.parametrize("by", ["cancel", "deletion"])
async def test_a_suspended_run_that_is_cancelled_or_whose_agent_is_deleted_is_over(
    tmp_path: Path, database: dict[str, Any], by: str
) -> None:
    async with (
        PulseReceiver().open() as program,
        live(tmp_path, agents=FREE, **resuming(program), **database) as server,
    ):
        first = await wake(server, "begin with it")
        run = await started(program)
        assert await report(server, run, "suspended") == 202
        await until(server, first["pulse"], "suspended")
        if by == "cancel":
            assert (await server.rest("POST", f"/pulses/{first['pulse']}/cancel"))[0] == 200
        else:
            assert (await server.rest("DELETE", "/sessions/default/agents/bob"))[0] in (200, 204)
        changes = [event["data"] for event in await server.events("pulse")]
        assert [each["status"] for each in changes if each["pulse"] == first["pulse"]][-2:] == [
            "suspended",
            "cancelled",
        ]
        if by == "cancel":
            again = await wake(server, "begin anew")
            assert again["pulse"] != first["pulse"]
            anew = await started(program)
            assert anew["type"] == "pulse.start"
            assert await report(server, anew, "succeeded") == 202


@pytest.mark.spec("WAKE-84")
async def test_a_launcher_that_resumes_no_more_starts_anew(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program:
        async with live(tmp_path, agents=FREE, **resuming(program)) as server:
            first = await wake(server, "begin with it")
            assert await report(server, await started(program), "suspended") == 202
            await until(server, first["pulse"], "suspended")
        async with live(tmp_path, agents=FREE, **resuming(program, resumes=False)) as server:
            again = await wake(server, "go on")
            assert again["pulse"] != first["pulse"]
            anew = await started(program)
            assert (anew["type"], anew["pulse"]) == ("pulse.start", again["pulse"])
            assert await report(server, anew, "succeeded") == 202


@pytest.mark.spec("WAKE-84")
async def test_a_run_that_one_launcher_suspended_is_not_resumed_by_another(tmp_path: Path) -> None:
    async with PulseReceiver().open() as program:
        sections = resuming(program)
        sections["launchers"]["there"] = dict(sections["launchers"]["away"])
        async with live(tmp_path, agents=FREE, **sections) as server:
            first = await wake(server, "begin with it")
            assert await report(server, await started(program), "suspended") == 202
            await until(server, first["pulse"], "suspended")
            for launcher, resumed in (("there", False), ("away", True)):
                status, _ = await server.rest("PATCH", "/agents/bob/coordination", {"launcher": launcher})
                assert status == 200
                assert ((await wake(server, launcher))["pulse"] == first["pulse"]) is resumed
                run = await started(program)
                assert run["type"] == ("pulse.resume" if resumed else "pulse.start")
                assert await report(server, run, "succeeded") == 202
                await until(server, run["pulse"], "succeeded")


@pytest.mark.spec("WAKE-84")
async def test_a_resumed_run_is_told_no_second_time_what_a_routine_said_that_joined_it(tmp_path: Path) -> None:
    clock = LeapClock()
    async with (
        PulseReceiver().open() as program,
        live(tmp_path, agents=FREE, clock=clock, **resuming(program)) as server,
    ):
        await server.rest("PATCH", "/agents/bob/coordination", {"max_concurrent_pulse_sessions": 1})
        due = (clock.now() + timedelta(hours=1)).isoformat()
        routine = {"name": "report", "instructions": "write the report", "at": [due]}
        status, answer = await server.rest("PUT", "/agents/bob/schedule", {"routines": [routine]})
        assert status == 200, answer
        await wake(server, "begin with it")
        first = await started(program)
        await until(server, first["pulse"], "running")
        clock.leap(3_601)
        async with asyncio.timeout(60):
            while not (await server.rest("GET", "/agents/bob/wake-stats"))[1]["deferred"]:
                await asyncio.sleep(0.01)
        assert (await wake(server, "and this"))["decision"] == "deferred"
        assert await report(server, first, "succeeded") == 202
        second = await started(program)
        assert "and this" in second["prompt"]
        assert "write the report" in second["prompt"]
        assert await report(server, second, "suspended") == 202
        await until(server, second["pulse"], "suspended")
        clock.leap(60)
        assert (await wake(server, "go on"))["pulse"] == second["pulse"]
        third = await started(program)
        assert "go on" in third["prompt"]
        assert "write the report" not in third["prompt"]
        assert await report(server, third, "succeeded") == 202
