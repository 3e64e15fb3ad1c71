"""What the measured pulses run. Each tells when it began and ended, as the detail of its pulse.

By the monotonic clock, which is the same for all processes of a machine.
"""

import asyncio
import sys
import time
from typing import Any, Final

from circadia.wake.launchers.base import Launch

LONG_SECONDS: Final = 0.5
PROGRAM: Final = (sys.executable, "-I", "-S", "-c", "import time; print(time.monotonic())")
"""A program that does the least: starting it is what it costs."""
LAUNCHERS: Final[dict[str, Any]] = {
    "quick": {"kind": "callable", "function": "benchmarks.pulse_agent:quick"},
    "long": {"kind": "callable", "function": "benchmarks.pulse_agent:long"},
    "program": {"kind": "subprocess", "command": [*PROGRAM]},
}
NO_LIMITS: Final[dict[str, Any]] = {
    "max_concurrent_pulse_sessions": None,
    "wake_guardrails": {
        "cooldown_seconds": 0, "max_daily_session_minutes": None, "max_wakes_per_day": None,
        "max_wakes_per_pair_per_day": None, "max_wakes_per_session": None, "max_chain_depth": None,
    },
}  # fmt: skip
"""Guardrails that let everything pass."""


async def quick(_: Launch) -> str:
    """End at once."""
    return f"{time.monotonic()}"


async def long(_: Launch) -> str:
    """Run for a while."""
    began = time.monotonic()
    await asyncio.sleep(LONG_SECONDS)
    return f"{began} {time.monotonic()}"


def noted(pulse: dict[str, Any]) -> list[float]:
    """Return the moments that the pulse tells, as a pulse or its event shows it."""
    said = pulse["detail"].rpartition("\n")[2] or pulse["detail"]
    return [float(each) for each in said.split()]
