"""A whole server whose agents are containers; against a real engine."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from circadia.wake.launchers.engine import engine_at
from tests.fixtures.server_process import CircadiaProcess
from tests.wake.launchers.benches import AGENT, WAIT_SECONDS, processes, until
from tests.wake.launchers.container_bench import IMAGE, WITH_CONTAINERS, Podman

__test__ = WITH_CONTAINERS


def config(engine: Podman, folder: Path) -> dict[str, Any]:
    """Return two agents, of which one never ends by itself, and one place for the pulses of both."""
    launchers: dict[str, Any] = {}
    agents: dict[str, Any] = {}
    for name, behaviour in (("ann", "stubborn"), ("bob", "succeed")):
        notes = folder / name
        notes.mkdir()
        notes.chmod(0o777)  # the container's user is nobody here
        launchers[name] = {
            "kind": "container", "image": IMAGE, "engine": engine.address, "init": False, "grace_seconds": 1,
            "memory_mebibytes": 64, "command": ["sh", "/agent.sh", behaviour, "/notes"],
            "mounts": [f"{AGENT}:/agent.sh", f"{notes}:/notes:rw"],
        }  # fmt: skip
        agents[name] = {"sleep_events": ["agent_started"], "coordination": {"launcher": name}}
    agents["ann"]["coordination"]["pulse_timeout_seconds"] = 5
    return {"launchers": launchers, "agents": agents, "fleet": {"max_concurrent_pulses": 1}}


async def became(look: Callable[[], Awaitable[dict[str, Any]]], *statuses: str) -> dict[str, Any]:
    """Return the pulse once it has one of these statuses."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (found := await look())["status"] not in statuses:
            await asyncio.sleep(0.05)
    return found


@pytest.mark.setting(
    "launchers.container.kind",
    "launchers.container.image",
    "launchers.container.engine",
    "launchers.container.command",
    "launchers.container.mounts",
    "agents.coordination.pulse_timeout_seconds",
    "agents.coordination.launcher",
    "fleet.max_concurrent_pulses",
)
@pytest.mark.spec("WAKE-23", "WAKE-25", "WAKE-51", "WAKE-53")
async def test_a_container_that_takes_too_long_is_killed_and_its_place_goes_to_the_wake_that_waits(
    engine: Podman, tmp_path: Path
) -> None:
    async with CircadiaProcess(tmp_path, config(engine, tmp_path)) as server:

        async def ask(name: str) -> dict[str, Any]:
            body = {"to": name, "reason": "blocker", "message": f"for {name}"}
            return await server.call("POST", "/wakes", body)

        async def pulse_of(wake: str) -> dict[str, Any]:
            pulse = (await server.call("GET", f"/wakes/{wake}"))["pulse"]
            return {"status": "none"} if pulse is None else await server.call("GET", f"/pulses/{pulse}")

        slow = await ask("ann")
        await until(lambda: (tmp_path / "ann/waiting").exists())
        assert processes(slow["pulse"])
        waits = await ask("bob")
        assert (slow["decision"], waits["decision"], waits["rule"]) == ("admitted", "deferred", "fleet")
        ended = await became(lambda: pulse_of(slow["wake"]), "timed_out", "failed", "succeeded")
        assert (ended["status"], "5 s" in ended["detail"]) == ("timed_out", True), ended
        done = await became(lambda: pulse_of(waits["wake"]), "timed_out", "failed", "succeeded")
        assert (done["status"], "all is well" in done["detail"]) == ("succeeded", True), done
        assert done["started_at"] >= ended["ended_at"]
        for pulse in (slow["pulse"], done["id"]):
            await until(lambda pulse=pulse: processes(pulse) == [])
            async with engine_at(engine.address) as at:
                assert await at.labelled(f"circadia.pulse={pulse}") == []
        assert (await server.call("GET", "/agents/ann/inbox"))["counts"]["unread"] == 1  # what nobody has done stays
        assert (await server.call("GET", "/agents/bob/inbox"))["counts"]["handled"] == 1
