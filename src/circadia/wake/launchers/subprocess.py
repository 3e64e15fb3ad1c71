"""Launcher that runs a pulse as a program on this machine."""

import asyncio
import logging
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from circadia.child_process import CHUNK_BYTES, ChildProcess, wait_within
from circadia.ids import PulseId
from circadia.output_tail import Tail
from circadia.settings.launchers import SubprocessLauncherSettings
from circadia.wake.launchers.base import (
    EPOCH,
    PROMPT_FILE,
    PULSE,
    Launch,
    LaunchFailed,
    LaunchResult,
    prompt_bytes,
    pulse_environment,
    run_shielded,
)

_logger = logging.getLogger(__name__)

_DRAIN_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.05
_BURST_BYTES: Final = 2**19
_BURST_PAUSE_SECONDS: Final = 0.01
_PROC: Final = Path("/proc")
_ROUNDS: Final = 50
_PAUSE_SECONDS: Final = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessInfo:
    pid: int
    parent: int
    session: int
    born: int
    """Start time in ticks since boot; distinguishes it from a later process with the same pid."""


def find_processes(pulse_id: str, wanted: Callable[[int], bool], *, session: int | None = None) -> list[ProcessInfo]:
    """Return the pulse's processes whose epoch is `wanted`, those of the session, and all their descendants.

    A process inherits its environment, so all processes of a pulse carry its mark, whatever their group, session or
    parent. This reads `/proc`, so it works on Linux only; elsewhere only the program's own process group can be ended.
    A process escapes if it wipes its environment, leaves the program's session and has no parent that is found.
    """
    living = [process for process in _list_processes() if process.pid not in (1, os.getpid())]
    pids = {p.pid for p in living if p.session == session or _is_marked(p.pid, pulse_id, wanted)}
    while more := {p.pid for p in living if p.parent in pids} - pids:
        pids |= more
    return [process for process in living if process.pid in pids]


def send_signal(processes: list[ProcessInfo], number: int) -> None:
    """Send a signal to those that are still the same process."""
    for process in processes:
        with suppress(OSError):  # it ended, or is another user's
            handle = os.pidfd_open(process.pid)
            try:
                now = _read_process(process.pid)
                if now is not None and now.born == process.born:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


def kill_processes(find: Callable[[], list[ProcessInfo]]) -> list[ProcessInfo]:
    """Kill all that `find` returns, and what they start meanwhile; return those that did not end.

    They are frozen until a search finds no new one, since one that forks could outrun the search. Blocks for up to a
    second; run it in a thread.
    """
    for _ in range(_ROUNDS):
        processes = find()
        if not processes:
            return []
        known: set[tuple[int, int]] = set()
        while new_processes := [p for p in processes if (p.pid, p.born) not in known]:
            send_signal(new_processes, signal.SIGSTOP)
            known |= {(p.pid, p.born) for p in new_processes}
            processes = find()
        send_signal(processes, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)  # noqa: TID251 - in its own thread; the kernel reports their end to nobody else
    return find()


def _list_processes() -> list[ProcessInfo]:
    if not _PROC.is_dir():
        return []
    names = [name for name in os.listdir(_PROC) if name.isdigit()]
    return [process for name in names if (process := _read_process(int(name))) is not None]


def _read_process(pid: int) -> ProcessInfo | None:
    """Return the process, or None if it is gone or a zombie; fields of proc_pid_stat(5), counted after the name."""
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = line[line.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return ProcessInfo(pid=pid, parent=int(fields[1]), session=int(fields[3]), born=int(fields[19]))


def _is_marked(pid: int, pulse_id: str, wanted: Callable[[int], bool]) -> bool:
    try:
        content = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False  # gone, or another user's, which no child of ours can become
    variables = content.split(b"\0")
    if f"{PULSE}={pulse_id}".encode() not in variables:
        return False
    start = f"{EPOCH}=".encode()
    epoch = next((variable[len(start) :] for variable in variables if variable.startswith(start)), b"")
    return epoch.isdigit() and wanted(int(epoch))


class ProgramRun:
    """One run of a program. Call `start` once, and `end` in any case, even if `start` was cancelled."""

    def __init__(self, pulse_id: str, epoch: int, tail: Tail) -> None:
        self._pulse_id = pulse_id
        self._epoch = epoch
        self._output = _Output(tail)
        self._process: ChildProcess | None = None

    async def start(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str | None, stdin: int
    ) -> None:
        """Start the program; the file descriptor `stdin` is its standard input. Raises LaunchFailed."""
        # Own pipes: event loops make sockets instead, and a program cannot open /dev/stdout on a socket.
        reading, writing = os.pipe()
        try:
            self._output.listen(reading)
            self._process = await ChildProcess.start(
                command, environment, folder, stdin=stdin, stdout=writing, stderr=writing
            )
        except (OSError, ValueError) as error:
            raise LaunchFailed(_explain_start_failure(command[0], folder, error)) from error
        finally:
            os.close(writing)

    async def wait(self) -> int:
        """Return the exit status of the program itself; a negative one is the signal that killed it."""
        assert self._process is not None
        await self._process.exited.wait()
        status = self._process.returncode
        return -signal.SIGKILL if status is None else status

    async def end(self, *, grace_seconds: float) -> None:
        """End the program with everything it started, first with SIGTERM, then by force, and close its pipes.

        What a program leaves behind when it ends by itself is killed at once.
        """
        try:
            if self._process is not None:
                if not self._process.exited.is_set():
                    send_signal(await self._find_processes_in_thread(), signal.SIGTERM)
                await self._process.end(grace_seconds=grace_seconds, until=self._wait_for_all)
                left = await asyncio.to_thread(kill_processes, self._find_processes)
                if left:
                    _logger.error("processes %r of pulse %s do not end", [p.pid for p in left], self._pulse_id)
                await wait_within(_DRAIN_SECONDS, self._output.over.wait())
        finally:
            self._output.close()
            if self._process is not None:
                self._process.close()

    def _find_processes(self) -> list[ProcessInfo]:
        session = None if self._process is None else self._process.pid
        return find_processes(self._pulse_id, lambda epoch: epoch == self._epoch, session=session)

    async def _find_processes_in_thread(self) -> list[ProcessInfo]:
        return await asyncio.to_thread(self._find_processes)

    async def _wait_for_all(self) -> None:
        assert self._process is not None
        await self._process.exited.wait()
        # Nothing signals the end of a grandchild.
        while self._process.signal_group(0) or await self._find_processes_in_thread():  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)


class _Output:
    """Reads the program's output into its tail, with pauses, so that a flood slows the program and not the server.

    It closes its descriptor itself: uvloop would close a pipe twice, by libuv and by its file object, and by then
    another thread may have the number.
    """

    def __init__(self, tail: Tail) -> None:
        self.over = asyncio.Event()
        """Set once the other end is closed."""
        self._tail = tail
        self._burst_bytes = 0
        self._pipe: int | None = None

    def listen(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._resume()

    def close(self) -> None:
        if self._pipe is not None:
            asyncio.get_running_loop().remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None
            self.over.set()

    def _resume(self) -> None:
        if self._pipe is not None:
            asyncio.get_running_loop().add_reader(self._pipe, self._read_chunk, self._pipe)

    def _read_chunk(self, pipe: int) -> None:
        data = os.read(pipe, CHUNK_BYTES)  # readable: data, or the end
        if not data:
            self.close()
            return
        self._tail.feed(data)
        self._burst_bytes += len(data)
        if self._burst_bytes >= _BURST_BYTES:
            self._burst_bytes = 0
            loop = asyncio.get_running_loop()
            loop.remove_reader(pipe)
            loop.call_later(_BURST_PAUSE_SECONDS, self._resume)


def _explain_start_failure(program: str, folder: str | None, error: Exception) -> str:
    """Return the problem and its remedy; an OSError names the program even if the folder is missing."""
    if folder is not None and not os.path.isdir(folder):
        return f"the folder {folder!r} does not exist; make it, or correct `cwd`"
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return f"the program {program!r} cannot be started: {reason}; install it, or correct `command`"


class SubprocessLauncher:
    """Starts a program in a new session; exit status 0 means success.

    On Linux the processes that it starts are found by their environment and ended with it, even after a kill of this
    server (see `find_processes` for the limits). Elsewhere only its process group ends, and nothing ends after a kill
    of the server.
    """

    kind = "subprocess"

    def __init__(
        self,
        settings: SubprocessLauncherSettings,
        *,
        command: Sequence[str],
        environment: Mapping[str, str],
        prompts: Path,
        secrets: Sequence[str] = (),
    ) -> None:
        """Store what each start needs.

        Args:
            command: the one of the settings, as their user.
            environment: variables besides the pulse's, from `program_environment`.
            prompts: folder for prompt files; created when first needed, for this user only.
            secrets: values to mask in details besides the pulse's token, such as those of `env_from`.
        """
        self._settings = settings
        self._command = tuple(command)
        self._environment = dict(environment)
        self._prompts = prompts
        self._secrets = tuple(secrets)

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        prompt = prompt_bytes(launch)
        environment = pulse_environment(self._environment, launch)
        tail = Tail((launch.token, *self._secrets))
        child = ProgramRun(launch.pulse_id, launch.epoch, tail)
        in_file = self._settings.prompt == "file"
        file = self._prompts.absolute() / f"{launch.pulse_id}.{launch.epoch}.txt" if in_file else None
        grace_seconds = self._settings.grace_seconds
        try:
            await run_shielded(self._start(child, environment, prompt, file))
            await started()
            status = await child.wait()
            grace_seconds = 0.0
        finally:
            try:
                await run_shielded(child.end(grace_seconds=grace_seconds))
            finally:
                if file is not None:
                    file.unlink(missing_ok=True)
        return LaunchResult(succeeded=status == 0, detail=_describe_exit(status, tail.text()))

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """Kill the pulse's processes of earlier epochs, and remove their prompts."""
        await run_shielded(asyncio.to_thread(self._clear, pulse_id, below_epoch))

    def _clear(self, pulse_id: PulseId, below_epoch: int) -> None:
        kill_processes(lambda: find_processes(pulse_id, lambda epoch: epoch < below_epoch))
        for file in self._prompts.glob(f"{pulse_id}.*.txt"):
            epoch = file.name.split(".")[-2]
            if epoch.isdigit() and int(epoch) < below_epoch:
                file.unlink(missing_ok=True)

    async def _start(self, child: ProgramRun, environment: dict[str, str], prompt: bytes, file: Path | None) -> None:
        if file is None:
            stdin = await asyncio.to_thread(_open_unnamed_file, prompt)
        else:
            await asyncio.to_thread(_write_prompt, file, prompt)
            environment = {**environment, PROMPT_FILE: str(file)}
            stdin = os.open(os.devnull, os.O_RDONLY)
        try:
            await child.start(self._command, environment, self._settings.cwd, stdin)
        finally:
            os.close(stdin)


def _open_unnamed_file(prompt: bytes) -> int:
    """Return an unnamed file with the prompt: the program never blocks on it, and a crash leaves none."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(prompt)
            file.flush()
            file.seek(0)
            return os.dup(file.fileno())
    except OSError as error:
        raise LaunchFailed(f"cannot store the prompt: {error}; check the folder for temporary files") from error


def _write_prompt(file: Path, prompt: bytes) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        with open(file, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as target:
            target.write(prompt)
    except OSError as error:
        raise LaunchFailed(f"cannot write the prompt: {error}; check the folder {str(file.parent)!r}") from error


def _describe_exit(status: int, said: str) -> str:
    if status >= 0:
        how = f"exit status {status}"
    elif -status in signal.valid_signals():
        how = f"killed by {signal.Signals(-status).name}"
    else:
        how = f"killed by signal {-status}"
    return f"{how}; its last output:\n{said}" if said else how
