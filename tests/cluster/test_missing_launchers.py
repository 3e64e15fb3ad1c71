"""Workers whose configurations differ, as while it is changed on one after the other: each starts what it can."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from circadia.records.member import Role
from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import Live, live
from tests.interaction.test_cluster import ASKED, wait_for_end

pytestmark = pytest.mark.spec("CLU-106", "WAKE-76")

QUICK = {"kind": "callable", "function": "benchmarks.pulse_agent:quick"}
BOB: dict[str, Any] = {
    "coordination": {"launcher": "new", "heartbeat_minutes": None, "wake_guardrails": {"cooldown_seconds": 0}}
}
MANUAL = {"when": "manual"}


async def test_a_worker_without_an_agents_launcher_leaves_its_pulses_to_one_that_has_it_and_people_are_told(
    tmp_path: Path, postgres_url: str
) -> None:
    clock = LeapClock()
    async with AsyncExitStack() as stack:

        async def start(name: str, role: Role, **sections: Any) -> Live:
            server = {"database_url": postgres_url}
            running = live(tmp_path / name, role=role, clock=clock, server=server, sleeptime=MANUAL, **sections)
            return await stack.enter_async_context(running)

        gateway = await start("gateway", Role.GATEWAY, launchers={"new": QUICK}, agents={"bob": BOB})
        for name in ("a", "b"):
            await start(name, Role.WORKER, launchers={"old": QUICK})
        assert (await gateway.rest("POST", "/wakes", ASKED))[1]["decision"] == "admitted"
        problem = (
            "No worker has launcher 'new', so pulses wait: bob. Start one whose configuration has it, or change "
            "the agent's launcher"
        )
        overview: dict[str, Any] = {"alerts": []}
        while not overview["alerts"]:
            clock.leap(10)
            (pulse,) = (await gateway.rest("GET", "/agents/bob/pulses"))[1]["pulses"]
            assert (pulse["status"], pulse["attempt"]) == ("pending", 0)
            overview = (await gateway.rest("GET", "/overview"))[1]
        assert [(alert["cause"], alert["subject"]) for alert in overview["alerts"]] == [("no_launcher", "default:bob")]
        assert overview["problems"] == [problem]
        await start("c", Role.WORKER, launchers={"new": QUICK, "old": QUICK})  # its file says nothing of bob
        (pulse,) = await wait_for_end(gateway)
        assert (pulse["status"], pulse["attempt"]) == ("succeeded", 1)
        assert (await gateway.rest("GET", "/overview"))[1]["problems"] == []
