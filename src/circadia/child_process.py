"""A child process in a session of its own, its end with all of its process group, and its user."""

import asyncio
import ctypes
import os
import pwd
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from circadia.errors import ConfigError

CHUNK_BYTES: Final = 2**16
_KILL_SECONDS: Final = 2.0
"""Time until the kernel must have reported the end of a killed child."""


class _ExitProtocol(SubprocessStreamProtocol):
    """Reports the exit of the process, even if a process it started still holds its pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=CHUNK_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class ChildProcess:
    """A running program, made by `start`. Call `end`, then `close`."""

    def __init__(self, process: Process, transport: asyncio.SubprocessTransport, protocol: _ExitProtocol) -> None:
        self.exited = protocol.exited
        self.pid = process.pid
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self._transport = transport

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str | None,
        *,
        stdin: int = PIPE,
        stdout: int = PIPE,
        stderr: int = PIPE,
    ) -> "ChildProcess":
        """Start the program with nothing of this server's environment. Raises OSError or ValueError."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _ExitProtocol(loop),
            *command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )
        return cls(Process(transport, protocol, loop), transport, protocol)

    @property
    def returncode(self) -> int | None:
        """Return the exit status; a negative one is the signal that killed it."""
        return self._transport.get_returncode()

    async def end(self, *, grace_seconds: float, until: Callable[[], Awaitable[object]] | None = None) -> None:
        """Kill the process group; first send SIGTERM and wait for `until`, by default the exit of the child."""
        if grace_seconds and not self.exited.is_set():
            self.signal_group(signal.SIGTERM)
            await wait_within(grace_seconds, (until or self.exited.wait)())
        self.signal_group(signal.SIGKILL)
        await wait_within(_KILL_SECONDS, self.exited.wait())

    def signal_group(self, number: int) -> bool:
        """Return whether any process got the signal."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def close(self) -> None:
        """Close the pipes, even if other processes hold them."""
        self._transport.close()


async def wait_within(seconds: float, event: Awaitable[object]) -> bool:
    """Return whether the event came in time."""
    try:
        async with asyncio.timeout(seconds):
            await event
    except TimeoutError:
        return False
    return True


PROGRAM_AS_SERVER: Final = (
    "it can read the operator's token and the database; give it a `user` of its own, or use the launcher `container`"
)
"""Warning about a program that runs as the server's own user."""
_PR_SET_DUMPABLE: Final = 4
"""From linux/prctl.h."""


def forbid_inspection() -> None:
    """Deny other processes of the same user `/proc/PID/environ`, the memory and a debugger; root keeps access.

    Linux only. It also turns off core dumps, which would hold the providers' keys.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class OsUser:
    """The user that a program runs as."""

    setpriv: str
    """Path of the program that changes the user; part of util-linux."""
    uid: int
    gid: int
    home: str = "/"
    in_groups: bool = False
    """Whether the program also gets this user's supplementary groups."""

    @classmethod
    def resolve(cls, where: str, user: str) -> "OsUser":
        """Look up a user by name or by `uid:gid`; `where` is the setting's path, for messages.

        Raises:
            ConfigError: there is no such user, or this server cannot run programs as another one.
        """
        setpriv = shutil.which("setpriv")
        if os.geteuid() != 0 or setpriv is None:
            raise ConfigError(
                f"{where}: only a server that runs as root on Linux, with setpriv (util-linux) installed, can run "
                f"programs as {user!r}; start it so, take `user` out, or use the launcher `container`"
            )
        if ":" in user:
            uid, gid = user.split(":")
            return cls(setpriv=setpriv, uid=int(uid), gid=int(gid))
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            message = f"{where}: there is no user {user!r} on this machine; create it, or give uid:gid"
            raise ConfigError(message) from None
        return cls(setpriv=setpriv, uid=entry.pw_uid, gid=entry.pw_gid, home=entry.pw_dir, in_groups=True)

    def command(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command line that runs `command` as this user, in the same process."""
        groups = "--init-groups" if self.in_groups else "--clear-groups"
        return (self.setpriv, f"--reuid={self.uid}", f"--regid={self.gid}", groups, "--inh-caps=-all", "--", *command)
