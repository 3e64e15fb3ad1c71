"""What starts an agent for one pulse, and what it must hold to."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from circadia.ids import PulseId


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """What an agent is started with. It holds no provider's key and no address of the database (WAKE-52)."""

    pulse_id: PulseId
    """The pulse; the same for each attempt."""
    attempt: int
    """1 for the first start, one more after each that was interrupted, but by a stop of the server."""
    epoch: int
    """Fencing number: what a launcher leaves outside is marked with it, and an older one is killed."""
    agent: str
    """The agent's reference."""
    prompt: str
    """Why it runs and what waits for it."""
    token: str
    """Its own token for this pulse; dies with the pulse."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """What it gets as environment: base URLs, key and MCP URL of the gateway, pulse id, token."""
    timeout_seconds: float
    """When it is to be stopped; the caller cancels then, a launcher may tell its agent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchResult:
    """How a run ended by itself."""

    succeeded: bool
    """Whether it did what it was started for."""
    detail: str = ""
    """What people read about it: an exit status, an HTTP status, the end of its output. Holds no token."""


class LaunchFailed(Exception):
    """The agent could not be started: nothing of it ran. `str()` says what is wrong and what to do."""


class Launcher(Protocol):
    """One way to run an agent for one pulse.

    `run` starts it, awaits `started` once it certainly runs, and returns how it ended. When cancelled, it stops the
    agent politely, kills what is left after its grace period, leaves no orphan, and raises CancelledError. Neither a
    dead server nor a lost cancellation leaves one: `clear` ends what earlier processes of this server have left behind.
    """

    kind: str
    """Its name in the configuration."""

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        """Run the agent to its end.

        Raises:
            LaunchFailed: nothing ran.
        """
        ...

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """End what runs, or is left, of this pulse from before the epoch; nothing if there is nothing."""
        ...
