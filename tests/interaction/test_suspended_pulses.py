"""Programs that suspend a run and go on with it at the next wake: the pulse keeps its identity (WAKE-84)."""

from pathlib import Path
from typing import Any

import pytest

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
