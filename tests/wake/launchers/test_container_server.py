"""A whole server whose agents are containers; against a real engine."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from circadia.clock import SystemClock
from circadia.wake.launchers.container_engine import open_engine
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
        agents[name] = {
            "sleep_events": ["agent_started"],
            "coordination": {"launcher": name, "heartbeat_minutes": None},
        }
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
            async with open_engine(engine.address) as at:
                assert await at.find_by_label(f"circadia.pulse={pulse}") == []
        assert (await server.call("GET", "/agents/ann/inbox"))["counts"]["unread"] == 1  # what nobody has done stays
        assert (await server.call("GET", "/agents/bob/inbox"))["counts"]["handled"] == 1


LOOK = (
    "id; echo $COLOUR $CITY; echo said: $CIRCADIA_PROMPT | head -c 17; echo; cat /proc/1/comm; cat /proc/net/dev;"
    "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max;"
    "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max;"
    "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max; cat /proc/mounts"
)
"""Prints whom and what a container has."""


async def detail_of(server: CircadiaProcess, agent: str) -> dict[str, Any]:
    """Return a pulse of the agent that has ended."""
    pulse = (await server.call("POST", f"/agents/{agent}/pulses", {}))["pulse"]
    return await became(lambda: server.call("GET", f"/pulses/{pulse}"), "timed_out", "failed", "succeeded")


@pytest.mark.setting(
    "launchers.container.user", "launchers.container.env", "launchers.container.env_from",
    "launchers.container.prompt", "launchers.container.memory_mebibytes", "launchers.container.pids",
    "launchers.container.cpus", "launchers.container.tmp_mebibytes", "launchers.container.init",
    "launchers.container.network", "launchers.container.pull",
)  # fmt: skip
async def test_a_container_has_the_user_the_means_and_the_environment_of_the_file(
    engine: Podman, tmp_path: Path
) -> None:
    look = {
        "kind": "container",
        "image": IMAGE,
        "engine": engine.address,
        "command": ["sh", "-c", f"{{ {LOOK}; }} 2>/dev/null"],
    }
    stated = {
        "user": "4321:1234", "env": {"COLOUR": "red"}, "env_from": ["CITY"], "prompt": "env", "memory_mebibytes": 96,
        "pids": 77, "cpus": 0.5, "tmp_mebibytes": 7, "init": False, "network": "host",
    }  # fmt: skip
    launchers = {
        "own": {**look, **stated},
        "plain": look,
        "pulled": {**look, "image": "localhost/no-such-image:1", "pull": "missing"},
    }
    agents = {name: {"coordination": {"launcher": name}} for name in launchers}
    async with CircadiaProcess(
        tmp_path, {"launchers": launchers, "agents": agents}, env={**os.environ, "CITY": "Porto"}
    ) as server:
        own, plain, pulled = [(await detail_of(server, name))["detail"] for name in launchers]
    interfaces = re.findall(r"^ *(\S+):", Path("/proc/net/dev").read_text("ascii"), re.MULTILINE)
    for fact in (
        "uid=4321", "gid=1234", "red Porto\n", "said: You are own", f"\n{96 * 2**20}\n", "\n77\n", "\n50000",
        "size=7168k", "\nsh\n", *(f"{each}:" for each in interfaces),
    ):  # fmt: skip
        assert fact in own, fact
        assert fact not in plain or fact == "lo:", fact
    assert "initializing source" in pulled, "it was asked for"


@pytest.mark.setting("launchers.container.grace_seconds")
async def test_a_container_that_does_not_stop_is_killed_after_its_grace(engine: Podman, tmp_path: Path) -> None:
    settings = config(engine, tmp_path)
    async with CircadiaProcess(tmp_path, settings) as server:
        pulse = (await server.call("POST", "/agents/ann/pulses", {}))["pulse"]
        await until(lambda: (tmp_path / "ann/waiting").exists())
        clock = SystemClock()
        began = clock.monotonic()
        await server.call("POST", f"/pulses/{pulse}/cancel", {})
        await until(lambda: processes(pulse) == [])
        assert 1 <= clock.monotonic() - began < 8, "1 as stated, 10 by default"
