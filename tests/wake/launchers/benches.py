"""One bench per kind of launcher: what its agents do, and what became of them."""

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import psutil

from circadia.ids import PulseId
from circadia.settings.launchers import SubprocessLauncherSettings
from circadia.wake.launchers.base import Launch, Launcher, LaunchFailed, LaunchResult
from circadia.wake.launchers.callable import CallableLauncher
from circadia.wake.launchers.subprocess import SubprocessLauncher
from tests.wake.fake_launcher import FakeLauncher

AGENT: Final = Path(__file__).with_name("agent.sh")
GRACE_SECONDS: Final = 0.5
WAIT_SECONDS: Final = 60.0
PULSE: Final = PulseId(f"pulse_{secrets.token_hex(4)}")
"""Another in each run of the tests: runs beside this one search the same machine for their processes."""
TOKEN: Final = "circadia-agent-token-of-this-pulse"
PATH: Final = os.environ["PATH"]


@dataclass(frozen=True, kw_only=True)
class AgentInput:
    """What an agent was started with."""

    prompt: str
    environment: Mapping[str, str]


class Bench(Protocol):
    """A launcher of one kind whose agent behaves as a test says: succeed, fail, wait or stubborn."""

    @property
    def tells_start(self) -> bool:
        """Whether a start is known before the end; a webhook that answers at the end tells both at once."""
        ...

    @property
    def longest_prompt(self) -> int | None:
        """Characters of the longest prompt that the kind takes; None if it takes 1 MiB."""
        ...

    def launcher(self, behaviour: str) -> Launcher: ...

    def missing(self) -> Launcher | None:
        """Return a launcher whose program, image or host is not there; None where that cannot be."""
        ...

    def received(self) -> list[AgentInput]: ...

    def waiting(self) -> int:
        """Return how many agents have come to the point where they wait."""
        ...

    def alive(self, pulse_id: PulseId) -> int:
        """Return how many processes or tasks of a pulse live."""
        ...

    def basis(self) -> Mapping[str, str]:
        """Return the environment that this kind promises beside the launch's own."""
        ...


ENVIRONMENT: Final = {"CIRCADIA_TOKEN": TOKEN, "OPENAI_BASE_URL": "http://127.0.0.1:4114/llm/openai/v1"}


def a_launch(
    pulse: str = PULSE,
    *,
    epoch: int = 1,
    prompt: str = "Why: ünïcode\nand lines.\n",
    environment: Mapping[str, str] = ENVIRONMENT,
) -> Launch:
    return Launch(
        pulse_id=PulseId(pulse),
        attempt=epoch,
        epoch=epoch,
        agent="default:worker",
        prompt=prompt,
        token=TOKEN,
        environment=environment,
        timeout_seconds=60.0,
    )


async def until(condition: Callable[[], bool]) -> None:
    """Return once the condition holds; what it looks at is another process's doing, so nothing can tell us."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


def processes(pulse_id: str) -> list[psutil.Process]:
    """Return the living processes that carry the pulse's id."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and _of_pulse(process, pulse_id):
                found.append(process)
        except (psutil.Error, OSError):
            continue  # it ended meanwhile
    return found


def _of_pulse(process: psutil.Process, pulse_id: str) -> bool:
    try:
        return process.environ().get("CIRCADIA_PULSE") == pulse_id
    except psutil.AccessDenied:  # of another user, as in a container of a Podman without root: its monitor is ours
        monitors = [each.cmdline() for each in process.parents() if each.name() == "conmon"]
        return any(word.startswith(f"circadia-{pulse_id}-") for words in monitors for word in words)


def environment_in(content: bytes) -> dict[str, str]:
    pairs = (each.decode().partition("=") for each in content.split(b"\0") if each)
    return {name: value for name, _, value in pairs}


class ProgramBench:
    """What `agent.sh` has left in a folder."""

    longest_prompt: int | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pop_own(self, environment: dict[str, str]) -> None:
        """Check and remove the variables that only this kind of launcher sets."""

    def received(self) -> list[AgentInput]:
        environment = environment_in((self.folder / "environment").read_bytes())
        self.pop_own(environment)
        prompt = (self.folder / "prompt").read_bytes().decode()
        starts = (self.folder / "starts").read_text().splitlines()
        return [AgentInput(prompt=prompt, environment=environment)] * len(starts)

    def waiting(self) -> int:
        return int((self.folder / "waiting").exists())

    def alive(self, pulse_id: PulseId) -> int:
        return len(processes(pulse_id))


class SubprocessBench(ProgramBench):
    tells_start = True

    def __init__(self, folder: Path, *, in_file: bool = False) -> None:
        super().__init__(folder)
        self.prompts = folder / "prompts"
        self._in_file = in_file

    def launcher(self, behaviour: str) -> SubprocessLauncher:
        patience = WAIT_SECONDS if behaviour == "polite" else GRACE_SECONDS
        return self.with_command("sh", str(AGENT), behaviour, str(self.folder), grace_seconds=patience)

    def with_command(
        self, *command: str, folder: str | None = None, grace_seconds: float = GRACE_SECONDS
    ) -> SubprocessLauncher:
        prompt = "file" if self._in_file else "stdin"
        settings = SubprocessLauncherSettings.model_validate({
            "kind": "subprocess", "command": command, "cwd": folder, "prompt": prompt, "grace_seconds": grace_seconds,
        })  # fmt: skip
        return SubprocessLauncher(settings, command=command, environment=self.basis(), prompts=self.prompts)

    def missing(self) -> Launcher:
        return self.with_command("no-such-program-here")

    def pop_own(self, environment: dict[str, str]) -> None:
        if self._in_file:
            assert Path(environment.pop("CIRCADIA_PROMPT_FILE")).parent == self.prompts

    def basis(self) -> Mapping[str, str]:
        return {"PATH": PATH, "HOME": "/", "LANG": "C.UTF-8"}


@dataclass
class TaskBench:
    """Agents as tasks of this process, for the callable launcher and for the webhook's receiver."""

    longest_prompt = None
    tells_start = True
    behaviour: str = "succeed"
    launches: list[Launch] = field(default_factory=list[Launch])
    living: dict[PulseId, int] = field(default_factory=dict[PulseId, int])

    def launcher(self, behaviour: str) -> Launcher:
        self.behaviour = behaviour
        return CallableLauncher(self.act, grace_seconds=GRACE_SECONDS)

    async def act(self, launch: Launch) -> object:
        self.launches.append(launch)
        self.living[launch.pulse_id] = self.living.get(launch.pulse_id, 0) + 1
        try:
            return await self._do(launch)
        finally:
            self.living[launch.pulse_id] -= 1

    async def _do(self, launch: Launch) -> object:
        if self.behaviour == "succeed":
            return "all is well"
        if self.behaviour == "fail":
            raise RuntimeError(f"went wrong with {launch.token}, so there")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if self.behaviour != "stubborn":
                    raise

    def missing(self) -> Launcher | None:
        return None

    def received(self) -> list[AgentInput]:
        return [AgentInput(prompt=each.prompt, environment=each.environment) for each in self.launches]

    def waiting(self) -> int:
        return sum(self.living.values())

    def alive(self, pulse_id: PulseId) -> int:
        return self.living.get(pulse_id, 0)

    def basis(self) -> Mapping[str, str]:
        return {}


class FakeBench:
    longest_prompt = None
    tells_start = True

    def __init__(self) -> None:
        self.fake = FakeLauncher()

    def launcher(self, behaviour: str) -> FakeLauncher:
        if behaviour == "succeed":
            self.fake.script.append(LaunchResult(succeeded=True, detail="all is well"))
        elif behaviour == "fail":
            self.fake.script.append(LaunchResult(succeeded=False, detail="went wrong with [redacted], so there"))
        return self.fake

    def missing(self) -> Launcher:
        self.fake.script.append(LaunchFailed("there is no such program"))
        return self.fake

    def received(self) -> list[AgentInput]:
        return [AgentInput(prompt=each.prompt, environment=each.environment) for each in self.fake.launches]

    def waiting(self) -> int:
        return len(self.fake.running)

    def alive(self, pulse_id: PulseId) -> int:
        return self.fake.running.count(pulse_id)

    def basis(self) -> Mapping[str, str]:
        return {}
