"""A Podman engine of the tests' own, an image made of busybox, and a launcher that uses them.

The engine keeps everything in a folder of its own and needs neither systemd nor cgroup v2. Set
CIRCADIA_TEST_NO_CONTAINERS=1 on a machine where containers cannot run; without it, a missing Podman fails the tests.
With CIRCADIA_TEST_ENGINE=unix:///path they run at that engine instead, Docker or a Podman without root.
"""

import http.client
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from circadia.clock import SystemClock
from circadia.settings.launchers import ContainerLauncherSettings
from circadia.wake.launchers.base import Launcher
from circadia.wake.launchers.container import ContainerLauncher
from tests.wake.launchers.benches import AGENT, GRACE_SECONDS, WAIT_SECONDS, ProgramBench

WITH_CONTAINERS: Final = os.environ.get("CIRCADIA_TEST_NO_CONTAINERS") != "1"
ENGINE: Final = os.environ.get("CIRCADIA_TEST_ENGINE", "")
IMAGE: Final = "localhost/circadia-agent:1"
PROGRAMS: Final = (
    "sh",
    "cat",
    "echo",
    "env",
    "sleep",
    "head",
    "tr",
    "touch",
    "setsid",
    "id",
    "wc",
    "nc",
    "sync",
    "yes",
)
NOBODYS_PORT: Final = 9
START_SECONDS: Final = 30.0

CONFIG: Final = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
lock_type = "file"
events_logger = "file"
runtime = "{runtime}"
"""
NETWORKS: Final = """
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
"""
"""Networks with names for containers, which no other engine of this machine knows."""


@dataclass(frozen=True, kw_only=True)
class Podman:
    """A running engine."""

    address: str
    command: tuple[str, ...]
    environment: Mapping[str, str]

    def __call__(self, *arguments: str, stdin: Any = None) -> str:
        """Run a command against its storage."""
        done = subprocess.run(
            [*self.command, *arguments], env={**self.environment}, stdin=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()


@contextmanager
def running_engine() -> Generator[Podman]:
    """Give the image to the engine that runs at CIRCADIA_TEST_ENGINE."""
    connection = http.client.HTTPConnection("engine")
    connection.sock = socket.socket(socket.AF_UNIX)
    with tempfile.TemporaryDirectory() as place, connection.sock as sock:
        sock.connect(ENGINE.removeprefix("unix://"))
        path = f"/images/create?fromSrc=-&repo={IMAGE}"  # Podman 4 reads no tag beside it
        connection.request("POST", path, image_tar(Path(place)).read_bytes(), {"content-type": "application/x-tar"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
    yield Podman(address=ENGINE, command=(), environment={})


@contextmanager
def podman(*, networks: bool = False) -> Generator[Podman]:
    """Start an engine with the image in it, and with `networks` of its own."""
    needed = ("podman", "busybox", "catatonit")
    missing = [name for name in needed if shutil.which(name) is None]
    hint = "run `make containers`, or set CIRCADIA_TEST_NO_CONTAINERS=1"
    assert not missing, f"{missing} are not installed; {hint}"
    runtime = "crun" if shutil.which("crun") and not shutil.which("runc") else "runc"
    # Locks and state of its own, so that several engines can run at once.
    # A short path: sockets and overlay options have little room. The engine's own state must not be a tmpfs of a test.
    with tempfile.TemporaryDirectory(prefix="cpod-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        config = CONFIG.format(runtime=runtime) + (NETWORKS.format(folder=folder) if networks else "")
        (folder / "containers.conf").write_text(config)
        command = ("podman", "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--tmpdir", f"{folder}/tmp")
        command += ("--storage-driver", "vfs")
        environment = {**os.environ, "CONTAINERS_CONF": f"{folder}/containers.conf"}
        socket = folder / "podman.sock"
        engine = Podman(address=f"unix://{socket}", command=command, environment=environment)
        with image_tar(folder).open("rb") as image:
            engine("import", "-", IMAGE, stdin=image)
        service = subprocess.Popen(
            [*command, "system", "service", "--time", "0", f"unix://{socket}"],
            env=environment,
            cwd=folder,  # its monitors drop files there
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(socket, service)
            yield engine
        finally:
            service.terminate()
            service.wait(START_SECONDS)
            engine("rm", "--all", "--force", "--time", "0")
            engine("rmi", "--all", "--force")


def wait_for(socket: Path, service: "subprocess.Popen[bytes]") -> None:
    """Return once the engine answers."""
    probe = (
        "import socket, sys, time\n"
        f"end = time.monotonic() + {START_SECONDS}\n"
        "while time.monotonic() < end:\n"
        "    try:\n"
        f"        socket.socket(socket.AF_UNIX).connect({str(socket)!r}); sys.exit(0)\n"
        "    except OSError:\n"
        "        time.sleep(0.02)\n"
        "sys.exit(1)\n"
    )
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0, service.poll()


def image_tar(folder: Path) -> Path:
    """Return a root file system: busybox, and the folders that are mounted on."""
    path = folder / "image.tar"
    with tarfile.open(path, "w") as tar:
        folder_in_it = tarfile.TarInfo("bin")
        folder_in_it.type, folder_in_it.mode = tarfile.DIRTYPE, 0o755  # Docker makes what is left out for root alone
        tar.addfile(folder_in_it)
        tar.add(Path(shutil.which("busybox") or "").resolve(), "bin/busybox")
        for name in PROGRAMS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return path


class ContainerBench(ProgramBench):
    tells_start = True

    def __init__(self, engine: Podman, folder: Path, *, gateway_port: int = NOBODYS_PORT) -> None:
        folder.chmod(0o777)  # the container's user is nobody here
        super().__init__(folder)
        self.engine = engine
        self._gateway_port = gateway_port

    def launcher(self, behaviour: str) -> ContainerLauncher:
        patience = WAIT_SECONDS if behaviour == "polite" else GRACE_SECONDS
        return self.with_command("sh", "/agent.sh", behaviour, "/notes", grace_seconds=patience)

    def with_command(
        self,
        *command: str,
        image: str = IMAGE,
        engine: str = "",
        grace_seconds: float = GRACE_SECONDS,
        mounts: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        **more: Any,
    ) -> ContainerLauncher:
        given: dict[str, Any] = {"memory_mebibytes": 64, "pids": 50, "tmp_mebibytes": 8, "init": False, **more}
        settings = ContainerLauncherSettings(
            kind="container",
            image=image,
            command=command,
            engine=engine or self.engine.address,
            mounts=(f"{AGENT}:/agent.sh", f"{self.folder}:/notes:rw", *mounts),
            grace_seconds=grace_seconds,
            **given,
        )
        return ContainerLauncher(
            settings,
            environment={**self.basis(), **(environment or {})},
            gateway=("127.0.0.1", self._gateway_port),
            clock=SystemClock(),
        )

    def missing(self) -> Launcher:
        return self.with_command("sh", image="localhost/no-such-image:1")

    def pop_own(self, environment: dict[str, str]) -> None:
        assert environment.pop("CIRCADIA_GATEWAY_SOCKET") == "/circadia/gateway.sock"
        for name in ("HOSTNAME", "container", "TERM", "HOME", "PATH"):
            environment.pop(name, None)  # every container's own

    def basis(self) -> dict[str, str]:
        return {"GREETING": "good morning"}
