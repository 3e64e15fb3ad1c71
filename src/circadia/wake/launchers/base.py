"""The launcher protocol: how to start an agent for one pulse."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from circadia.ids import PulseId


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """The input of a start. It holds no provider's key and no database address (WAKE-52)."""

    pulse_id: PulseId
    """The same for each attempt."""
    attempt: int
    """1 for the first start, one more after each interruption except a stop of the server."""
    epoch: int
    """Fencing number: a launcher marks what it leaves outside with it, and kills older marks."""
    agent: str
    prompt: str
    token: str
    """The agent's token for this pulse; it dies with the pulse."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Base URLs, key and MCP URL of the gateway, pulse id, token."""
    timeout_seconds: float
    """The caller cancels then; a launcher may inform its agent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchResult:
    succeeded: bool
    detail: str = ""
    """For people: an exit status, an HTTP status, the end of the output. Holds no token."""


class LaunchFailed(Exception):
    """The agent was not started: nothing of it ran. `str()` names the problem and its remedy."""


class Launcher(Protocol):
    """One way to run an agent for one pulse.

    `run` starts it, awaits `started` once it certainly runs, and returns how it ended. When cancelled, it stops the
    agent politely, kills what is left after its grace period, leaves no orphan, and raises CancelledError. Neither a
    dead server nor a lost cancellation leaves one: `clear` ends what earlier processes of this server have left behind.
    """

    kind: str

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        """Run the agent to its end. Raises LaunchFailed if nothing ran."""
        ...

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """End what runs, or is left, of this pulse from before the epoch; do nothing if there is nothing."""
        ...
