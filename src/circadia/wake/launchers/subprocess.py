"""Launcher that runs a pulse as a program on this machine."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from circadia.ids import PulseId
from circadia.output_tail import Tail
from circadia.wake.launchers.base import Launch, LaunchFailed, LaunchResult
from circadia.wake.launchers.child import ProgramRun
from circadia.wake.launchers.environment import prompt_bytes, pulse_environment
from circadia.wake.launchers.processes import find_processes, kill_processes
from circadia.wake.launchers.shielding import run_shielded

PROMPT_FILE: Final = "CIRCADIA_PROMPT_FILE"
"""Environment variable with the path of the prompt when `prompt` is `file`."""


class SubprocessLauncher:
    """Starts a program in a new session; exit status 0 means success.

    On Linux the processes that it starts are found by their environment and ended with it, even after a kill of this
    server (see `processes.py` for the limits). Elsewhere only its process group ends, and nothing ends after a kill of
    the server.
    """

    kind = "subprocess"

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: str | None,
        prompt: Literal["stdin", "file"],
        prompts: Path,
        secrets: Sequence[str] = (),
        grace_seconds: float,
    ) -> None:
        """Store what each start needs.

        Args:
            environment: variables besides the pulse's, from `program_environment`.
            folder: working directory; None is the server's own.
            prompts: folder for prompt files; created when first needed, for this user only.
            secrets: values to mask in details besides the pulse's token, such as those of `env_from`.
            grace_seconds: time between SIGTERM and SIGKILL.
        """
        self._command = tuple(command)
        self._environment = dict(environment)
        self._folder = folder
        self._prompt = prompt
        self._prompts = prompts
        self._secrets = tuple(secrets)
        self._grace_seconds = grace_seconds

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        prompt = prompt_bytes(launch)
        environment = pulse_environment(self._environment, launch)
        tail = Tail((launch.token, *self._secrets))
        child = ProgramRun(launch.pulse_id, launch.epoch, tail)
        file = self._prompt_path(launch) if self._prompt == "file" else None
        grace_seconds = self._grace_seconds
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
            await child.start(self._command, environment, self._folder, stdin)
        finally:
            os.close(stdin)

    def _prompt_path(self, launch: Launch) -> Path:
        return self._prompts.absolute() / f"{launch.pulse_id}.{launch.epoch}.txt"


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
