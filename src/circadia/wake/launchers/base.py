"""The launcher protocol: how to start an agent for one pulse, and with which environment."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from circadia.errors import ConfigError
from circadia.ids import PulseId
from circadia.records.pulse import PulseStatus


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
    suspended: bool = False
    """Whether the run goes on with the agent's next wake; only of a launcher whose settings say `resumes`."""

    @property
    def status(self) -> PulseStatus:
        if self.suspended:
            return PulseStatus.SUSPENDED
        return PulseStatus.SUCCEEDED if self.succeeded else PulseStatus.FAILED


class LaunchFailed(Exception):
    """The agent was not started: nothing of it ran. `str()` names the problem and its remedy."""


class Launcher(Protocol):
    """One way to run an agent for one pulse.

    `run` starts it, awaits `started` once it certainly runs, and returns how it ended. When cancelled, it stops the
    agent politely, kills what is left after its grace period, leaves no orphan, and raises CancelledError. Neither a
    dead server nor a lost cancellation leaves one: `clear` ends what earlier processes of this server have left behind.

    A launcher whose settings say `resumes` may report a run as suspended. A launch with an epoch above 1 then goes on
    with the run of its pulse, and `clear` leaves that alone (WAKE-84).
    """

    kind: str

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        """Run the agent to its end. Raises LaunchFailed if nothing ran."""
        ...

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """End what runs, or is left, of this pulse from before the epoch; do nothing if there is nothing."""
        ...


PULSE: Final = "CIRCADIA_PULSE"
"""Variable with the pulse's id; processes are found by it."""
EPOCH: Final = "CIRCADIA_EPOCH"
PROMPT_FILE: Final = "CIRCADIA_PROMPT_FILE"
"""Variable with the path of the prompt, if the program gets it in a file."""
_INHERITED: Final = ("PATH", "HOME", "LANG")
_DEFAULT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"}


def named_environment(
    where: str,
    own: Mapping[str, str],
    stated: Mapping[str, str],
    inherited: Sequence[str],
    withheld: Collection[str] = (),
) -> dict[str, str]:
    """Return `stated` and the variables of `own` that `inherited` names.

    `where` is the settings path for messages; `withheld` names variables that no agent may get: the providers' keys,
    the database's address, the operator's token.

    Raises:
        ConfigError: a variable is not set, or is kept back.
    """
    for name in (*stated, *inherited):
        if name in withheld:
            raise ConfigError(f"{where}: {name!r} is a secret of this server, which no agent may get; remove it")
    for name in inherited:
        if name not in own:
            raise ConfigError(f"{where}.env_from: the environment variable {name!r} is not set; set it or remove it")
    return {**{name: own[name] for name in inherited}, **stated}


def program_environment(own: Mapping[str, str], named: Mapping[str, str]) -> dict[str, str]:
    """Return the server's PATH, HOME and LANG, overridden by the settings' variables."""
    return {**{name: own.get(name) or _DEFAULT[name] for name in _INHERITED}, **named}


def pulse_environment(basis: Mapping[str, str], launch: Launch) -> dict[str, str]:
    """Return the environment of one start; pulse variables win. Raises LaunchFailed for a bad name or value."""
    whole = {**basis, **launch.environment, PULSE: launch.pulse_id, EPOCH: str(launch.epoch)}
    for name, value in whole.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise LaunchFailed(f"the environment variable {name!r} has a name or value that no program can receive")
    return whole


def prompt_bytes(launch: Launch) -> bytes:
    """Return the encoded prompt. Raises LaunchFailed for a NUL or half a character: some launchers would cut it."""
    if "\0" in launch.prompt:
        raise LaunchFailed("the prompt holds a NUL character; send the message again without it")
    try:
        return launch.prompt.encode()
    except UnicodeEncodeError as error:
        raise LaunchFailed(f"the prompt is not Unicode text ({error.reason}); send the message again") from error


T = TypeVar("T")


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run `work`, which must bound itself, to its end even if the caller is cancelled; then raise CancelledError."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # retrieve it: the cancellation takes precedence
        raise cancelled
    return task.result()


class PulseReports:
    """Delivers a report to its run, if that waits in this process.

    The pulse's row has ended by then, so a run in another process finds out at its next heartbeat.
    """

    def __init__(self) -> None:
        self._awaited: dict[tuple[PulseId, int], asyncio.Future[LaunchResult]] = {}

    async def wait_for_report(self, pulse_id: PulseId, *, epoch: int) -> LaunchResult:
        """Return the report on this epoch's run; called before the run is requested."""
        future: asyncio.Future[LaunchResult] = asyncio.get_running_loop().create_future()
        self._awaited[pulse_id, epoch] = future
        try:
            return await future
        finally:
            self._awaited.pop((pulse_id, epoch), None)

    def deliver_report(self, pulse_id: PulseId, epoch: int, ended: LaunchResult) -> None:
        """Deliver a report that is already stored."""
        future = self._awaited.get((pulse_id, epoch))
        if future is not None and not future.done():
            future.set_result(ended)
