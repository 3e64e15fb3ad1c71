"""The agents of the cluster tests: functions that a pulse calls."""

import asyncio
from typing import Any, Final

from circadia.wake.launchers.base import Launch, LaunchResult

LAUNCHERS: Final[dict[str, Any]] = {
    name: {"kind": "callable", "function": f"tests.cluster.quick_agent:{function}", "grace_seconds": 0.1}
    for name, function in (
        ("quick", "end_at_once"),
        ("fickle", "fail_sometimes"),
        ("slow", "go_on"),
        ("brief", "take_a_moment"),
    )
}
"""The launchers that call them."""


async def end_at_once(launch: Launch) -> LaunchResult:
    return LaunchResult(succeeded=True, detail="done")


async def fail_sometimes(launch: Launch) -> LaunchResult:
    """End at once; every third pulse fails."""
    return LaunchResult(succeeded=int(launch.pulse_id[-2:], 16) % 3 != 0, detail="done")


async def take_a_moment(launch: Launch) -> LaunchResult:
    """Run for some tenths of a second, so that faults happen meanwhile."""
    await asyncio.sleep(0.1 + int(launch.pulse_id[-2:], 16) / 1000)
    return LaunchResult(succeeded=True, detail="done")


async def go_on(launch: Launch) -> None:
    """Run until it is stopped."""
    await asyncio.Event().wait()
