"""`circadia`, but it stops forever at a step of a pulse and says so by making a file, to be killed there.

Its arguments: the step, the file, then those of `circadia`.
"""

import asyncio
import sys
from pathlib import Path

from circadia.cli.app import main
from circadia.wake.admission.requests import WakeRequests
from circadia.wake.launchers.subprocess import SubprocessLauncher
from circadia.wake.pulse_service import PulseService
from circadia.wake.routines import RoutineService

STEPS = {
    "before the lease": (PulseService, "take"),
    "between lease and launch": (SubprocessLauncher, "run"),
    "before the end is recorded": (PulseService, "end"),
    "before an alarm is fired": (RoutineService, "fire"),
    "between an alarm and its commit": (RoutineService, "_alert_if_too_many"),
    "between an event and its commit": (WakeRequests, "ask"),
}
"""What is never done, because the process stands there."""


def stop_at(step: str, file: Path) -> None:
    """Let the process stand at the step."""

    async def stand(*_: object, **__: object) -> None:
        file.touch()
        await asyncio.Event().wait()

    kind, name = STEPS[step]
    setattr(kind, name, stand)


if __name__ == "__main__":
    stop_at(sys.argv[1], Path(sys.argv[2]))
    main(sys.argv[3:])
