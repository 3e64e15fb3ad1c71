"""Agents that are programs and note what they do, and a server that wakes them: what tests of killed servers share."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.fixtures.server_process import CircadiaProcess

AGENT = Path(__file__).parent / "waking_agent.py"
NAMES = ("ann", "bob", "cid")


def where_it_is_midday() -> str:
    """Return a zone whose day does not end while a test counts its wakes."""
    return f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"


def config(notes: Path) -> dict[str, Any]:
    asleep = {"sleep_events": ["agent_started"]}
    coordination = {"launcher": "program", "heartbeat_minutes": None, "wake_guardrails": {"cooldown_seconds": 0}}
    command = [sys.executable, str(AGENT), str(notes)]
    return {
        "launchers": {"program": {"kind": "subprocess", "command": command, "grace_seconds": 1}},
        "agents": {name: {**asleep, "coordination": coordination, "timezone": where_it_is_midday()} for name in NAMES},
    }


def noted(folder: Path) -> list[list[str]]:
    """Return what the agents noted."""
    file = folder / "notes"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


async def until_noted(folder: Path, what: str, count: int) -> None:
    async with asyncio.timeout(60):
        while sum(line[0] == what for line in noted(folder)) < count:
            await asyncio.sleep(0.02)


async def until_noted_again(folder: Path) -> None:
    """Return once a pulse is in its second attempt."""
    async with asyncio.timeout(60):
        while len(pulses := [line[2] for line in noted(folder) if line[0] == "start"]) == len(set(pulses)):
            await asyncio.sleep(0.02)


def alive(pid: str) -> bool:
    """Return whether the process runs; one that nobody has waited for yet is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until_settled(server: CircadiaProcess) -> list[dict[str, Any]]:
    """Return all pulses once none is open and nothing is deferred."""
    async with asyncio.timeout(60):
        while True:
            # First the deferred ones: what is admitted from now on is among the pulses.
            waiting = (await server.call("GET", "/wakes?decision=deferred"))["wakes"]
            pulses = [each for n in NAMES for each in (await server.call("GET", f"/agents/{n}/pulses"))["pulses"]]
            if pulses and not waiting and not [each for each in pulses if each["ended_at"] is None]:
                return pulses
            await asyncio.sleep(0.1)
