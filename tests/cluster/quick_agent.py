"""The agents of the cluster tests: functions that a pulse calls."""

from circadia.wake.launchers.base import Launch, LaunchResult

SECTION = {"kind": "callable", "function": "tests.cluster.quick_agent:run"}
"""The launcher that calls it."""


async def run(launch: Launch) -> LaunchResult:
    """End at once; every third pulse fails."""
    return LaunchResult(succeeded=int(launch.pulse_id[-2:], 16) % 3 != 0, detail="done")
