"""Keys of `agents` that say what the program of a launched agent is told, and when it is started."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import Live, live

FREE: Any = {"cooldown_seconds": 0}
MINUTE = 60


@asynccontextmanager
async def launched(folder: Path, clock: LeapClock, *command: str, **agent: Any) -> AsyncGenerator[Live]:
    """Run a server with the agent `bob`, whose program has its prompts in files of the folder."""
    script = command or ("sh", "-c", "cat > $CIRCADIA_PULSE")
    program = {"kind": "subprocess", "command": script, "cwd": str(folder), "grace_seconds": 0}
    coordination = {
        "launcher": "program",
        "heartbeat_minutes": None,
        "wake_guardrails": FREE,
        **agent.pop("coordination", {}),
    }
    agents = {"bob": {"coordination": coordination, **agent}}
    async with live(
        folder / "data", clock=clock, agents=agents, launchers={"program": program}, sleeptime={"when": "manual"}
    ) as at:
        yield at


async def pulses(at: Live, ended: int) -> list[dict[str, Any]]:
    """Return bob's pulses once so many have ended."""
    async with asyncio.timeout(60):
        while True:
            found = (await at.rest("GET", "/agents/bob/pulses"))[1]["pulses"]
            if len([each for each in found if each["ended_at"]]) >= ended:
                return found
            await asyncio.sleep(0.02)


def prompts(folder: Path) -> list[str]:
    return [path.read_text("utf-8") for path in sorted(folder.glob("pls_*"))]


@pytest.mark.setting("agents.routines.instructions", "agents.routines.misfire_grace_seconds")
async def test_a_routine_tells_its_instructions_and_still_runs_as_late_as_it_may(tmp_path: Path) -> None:
    clock = LeapClock()
    due = ["2026-01-01T01:00:00Z"]
    routines = [
        {"name": "strict", "at": due, "instructions": "Count the birds."},
        {"name": "patient", "at": due, "instructions": "Count the ships.", "misfire_grace_seconds": 1_000},
    ]
    async with launched(tmp_path, clock, routines=routines) as at:
        clock.leap(60 * MINUTE + 600)
        await pulses(at, 1)
    (said,) = prompts(tmp_path)
    assert "Count the ships." in said
    assert "Count the birds." not in said


@pytest.mark.setting("agents.routines.timeout_seconds")
async def test_a_routine_s_pulse_is_ended_after_its_seconds(tmp_path: Path) -> None:
    clock = LeapClock()
    routine = {"name": "long", "at": ["2026-01-01T01:00:00Z"], "instructions": "Wait.", "timeout_seconds": 0.5}
    async with launched(tmp_path, clock, "sleep", "1000", routines=[routine]) as at:
        clock.leap(60 * MINUTE + 1)
        (pulse,) = await pulses(at, 1)
    assert pulse["status"] == "timed_out"


@pytest.mark.setting("agents.coordination.prompt_tokens")
@pytest.mark.parametrize(("tokens", "least", "most"), [(4_000, 10, 10), (600, 1, 4)])
async def test_a_prompt_has_as_many_messages_as_fit_into_its_tokens(
    tmp_path: Path, tokens: int, least: int, most: int
) -> None:
    async with launched(tmp_path, LeapClock(), coordination={"prompt_tokens": tokens}) as at:
        ann = await at.agent()
        for number in range(9):
            sent = {"to": "bob", "content": f"Number {number}: " + "red " * 100}
            assert (await at.rest("POST", "/messages", sent, token=ann))[0] == 201
        body = {"to": "bob", "message": "Number 9: red", "reason": "blocker"}
        assert (await at.rest("POST", "/wakes", body, token=ann))[0] in (200, 201)
        await pulses(at, 1)
    assert least <= prompts(tmp_path)[0].count("Number ") <= most


@pytest.mark.setting("agents.coordination.heartbeat_minutes")
@pytest.mark.parametrize(("minutes", "beats"), [(43_200, 0), (5, 1)])
async def test_a_launched_agent_looks_for_messages_so_often(tmp_path: Path, minutes: int, beats: int) -> None:
    clock = LeapClock()
    async with launched(tmp_path, clock, coordination={"heartbeat_minutes": minutes}) as at:
        sent = {"to": "bob", "content": "The kettle is on.", "priority": "low"}
        assert (await at.rest("POST", "/messages", sent, token=await at.agent()))[0] == 201
        for _ in range(6):
            clock.leap(MINUTE)
            await asyncio.sleep(0.1)
        await pulses(at, beats)
        assert len(await pulses(at, 0)) == beats
    assert [("The kettle is on." in said) for said in prompts(tmp_path)] == [True] * beats


@pytest.mark.setting("agents.coordination.max_concurrent_pulse_sessions", "agents.coordination.on_concurrency")
@pytest.mark.parametrize(("policy", "decision"), [("defer", "deferred"), ("refuse", "refused")])
async def test_a_wake_waits_or_is_refused_while_all_places_are_taken(
    tmp_path: Path, policy: str, decision: str
) -> None:
    coordination = {"max_concurrent_pulse_sessions": 0, "on_concurrency": policy}
    async with launched(tmp_path, LeapClock(), coordination=coordination) as at:
        body = {"to": "bob", "message": "red", "reason": "blocker"}
        told = (await at.rest("POST", "/wakes", body, token=await at.agent()))[1]
    assert (told["decision"], told["rule"]) == (decision, "max_concurrent_pulse_sessions")


@pytest.mark.setting("agents.max_consecutive_skips", "agents.pulse_max_consecutive_skips")
@pytest.mark.parametrize(
    ("stated", "told"), [({}, 5), ({"max_consecutive_skips": 2}, 2), ({"pulse_max_consecutive_skips": 3}, 3)]
)
async def test_after_so_many_skips_the_operator_is_told(tmp_path: Path, stated: dict[str, int], told: int) -> None:
    clock = LeapClock()
    routine = {"name": "often", "every_seconds": MINUTE, "instructions": "Look.", "blackout_policy": "skip"}
    night = [{"start_time": "00:00", "end_time": "23:00"}]
    async with launched(tmp_path, clock, routines=[routine], blackouts=night, **stated) as at:
        alerts: list[Any] = []
        async with asyncio.timeout(60):
            while not alerts:
                skips = len(await at.events("routine"))
                clock.leap(MINUTE)
                while len(await at.events("routine")) == skips:  # of two minutes in one step both count at once
                    await asyncio.sleep(0.02)
                alerts = await at.events("alert")
    assert alerts[0]["data"]["skips"] == told
