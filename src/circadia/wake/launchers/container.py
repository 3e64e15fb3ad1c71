"""Launcher that runs a pulse as a container on a Docker or Podman engine."""

import asyncio
import logging
import math
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from circadia.clock import Clock
from circadia.ids import PulseId
from circadia.output_tail import Tail
from circadia.settings.launchers import ContainerLauncherSettings
from circadia.wake.launchers.base import (
    Launch,
    LaunchFailed,
    LaunchResult,
    prompt_bytes,
    pulse_environment,
    run_shielded,
)
from circadia.wake.launchers.container_engine import Engine, EngineError, EngineUnreachable, open_engine

_logger = logging.getLogger(__name__)

PULSE_LABEL: Final = "circadia.pulse"
EPOCH_LABEL: Final = "circadia.epoch"
PROMPT: Final = "CIRCADIA_PROMPT"
"""Environment variable that carries the prompt when `prompt` is `env`."""
GATEWAY_SOCKET: Final = "CIRCADIA_GATEWAY_SOCKET"
"""Environment variable with the path of the gateway's socket, in a container without a network."""
_SOCKET_IN_CONTAINER: Final = "/circadia/gateway.sock"
_MAX_VARIABLE_BYTES: Final = 96 * 2**10
"""The kernel takes 128 KiB per variable, name included (execve(2))."""
_MEBIBYTE: Final = 2**20
_KILLED_STATUS: Final = 137
_AWAY_TRIES: Final = 60
_AWAY_PAUSE_SECONDS: Final = 1.0


class ContainerLauncher:
    """Runs an image with a read-only root, no capabilities and limits; exit status 0 means success.

    Each container carries the pulse's id and epoch as labels, by which `clear` finds leftovers of earlier processes.
    """

    kind = "container"

    def __init__(
        self,
        settings: ContainerLauncherSettings,
        *,
        environment: Mapping[str, str],
        gateway: tuple[str, int],
        clock: Clock,
        secrets: Sequence[str] = (),
    ) -> None:
        """Store what each start needs.

        Args:
            environment: variables from settings, as `named_environment` returns them.
            gateway: host and port of the gateway, seen from this process.
            secrets: values to mask in details, besides the pulse's token.
        """
        self._settings = settings
        self._environment = dict(environment)
        self._gateway = gateway
        self._clock = clock
        self._secrets = tuple(secrets)

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        prompt = prompt_bytes(launch)
        environment = pulse_environment(self._environment, launch)
        if self._settings.prompt == "env":
            if len(prompt) > _MAX_VARIABLE_BYTES:
                raise LaunchFailed(f"a prompt of {len(prompt)} bytes is too long for the environment; use stdin")
            environment[PROMPT] = launch.prompt
        name = f"circadia-{launch.pulse_id}-{launch.epoch}"
        async with open_engine(self._settings.engine) as engine, self._gateway_access(launch, environment) as socket:
            body = self._create_body(launch, environment, socket)
            polite = True
            try:
                await self._create(engine, name, body)
                lost = await run_shielded(self._start(engine, name, prompt))
                await started()
                ended = lost or await self._wait_for_end(engine, name, launch)
                polite = False
            finally:
                await run_shielded(self._end(engine, name, polite=polite))
        return ended

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """Kill and remove the pulse's containers of earlier epochs; after LaunchFailed the pulse must not start."""
        await run_shielded(self._clear(pulse_id, below_epoch))

    async def _clear(self, pulse_id: PulseId, below_epoch: int) -> None:
        try:
            async with open_engine(self._settings.engine) as engine:
                for name, labels in await engine.find_by_label(f"{PULSE_LABEL}={pulse_id}"):
                    epoch = labels.get(EPOCH_LABEL, "")
                    if epoch.isdigit() and int(epoch) < below_epoch:
                        await engine.remove(name)
        except (EngineError, EngineUnreachable) as error:
            raise LaunchFailed(self._describe_unreachable(error)) from error
        await asyncio.to_thread(remove_sockets, pulse_id, below_epoch)

    @asynccontextmanager
    async def _gateway_access(self, launch: Launch, environment: dict[str, str]) -> AsyncGenerator[Path | None]:
        """Yield the socket that replaces the network, or None if the container has a network."""
        if self._settings.network != "none":
            yield None
            return
        async with serve_gateway_socket(*self._gateway, launch.pulse_id, launch.epoch) as path:
            environment[GATEWAY_SOCKET] = _SOCKET_IN_CONTAINER
            yield path

    async def _create(self, engine: Engine, name: str, body: Mapping[str, Any]) -> None:
        """Create the container, pulling its image if needed, or raise LaunchFailed."""
        try:
            try:
                await run_shielded(engine.create(name, body))
            except EngineError as error:
                if error.status != 404:
                    raise
                if self._settings.pull == "never":
                    raise LaunchFailed(
                        f"the image {self._settings.image!r} is missing at the engine ({error}); pull it, "
                        "or set `pull: missing`"
                    ) from error
                await engine.pull(self._settings.image)
                await run_shielded(engine.create(name, body))
        except EngineError as error:
            raise LaunchFailed(f"cannot create a container from {self._settings.image!r}: {error}") from error
        except EngineUnreachable as error:
            raise LaunchFailed(self._describe_unreachable(error)) from error

    async def _start(self, engine: Engine, name: str, prompt: bytes) -> LaunchResult | None:
        """Start the container and write the prompt; return a result only if nobody knows whether it runs."""
        try:
            stdin = await engine.attach(name) if self._settings.prompt == "stdin" else None
        except (EngineError, EngineUnreachable) as error:
            raise LaunchFailed(f"cannot pass the prompt to the container: {error}") from error
        try:
            await engine.start(name)
            if stdin is not None:
                stdin.write(prompt)
        except EngineError as error:
            raise LaunchFailed(f"{self._settings.image!r} cannot be started: {error}; check its command") from error
        except EngineUnreachable as error:
            return LaunchResult(succeeded=False, detail=f"the engine broke off at the start: {error}; it may have run")
        return None

    async def _wait_for_end(self, engine: Engine, name: str, launch: Launch) -> LaunchResult:
        for _ in range(_AWAY_TRIES):
            try:
                status = await engine.wait(name)
                state = await engine.fetch_state(name)
                tail = Tail((launch.token, *self._secrets))
                tail.feed(await engine.fetch_output(name))
            except EngineError as error:
                return LaunchResult(succeeded=False, detail=f"its container is gone: {error}")
            except EngineUnreachable as error:
                _logger.warning("pulse %s: %s", launch.pulse_id, self._describe_unreachable(error))
                await self._clock.sleep(_AWAY_PAUSE_SECONDS)
            else:
                return LaunchResult(succeeded=status == 0, detail=self._describe_exit(status, state, tail.text()))
        return LaunchResult(succeeded=False, detail="the engine went away while it ran; how it ended is not known")

    def _describe_exit(self, status: int, state: Mapping[str, Any], said: str) -> str:
        how = f"exit status {status}"
        if state.get("OOMKilled"):
            how += f", out of its {self._settings.memory_mebibytes} MiB of memory"
        elif status == _KILLED_STATUS:
            # Podman on cgroup v1 does not report the reason.
            how += f", killed from outside or out of its {self._settings.memory_mebibytes} MiB of memory"
        return f"{how}; its last output:\n{said}" if said else how

    async def _end(self, engine: Engine, name: str, *, polite: bool) -> None:
        try:
            if polite:
                try:
                    await engine.stop(name, math.ceil(self._settings.grace_seconds))
                except (EngineError, EngineUnreachable) as error:
                    _logger.debug("container %s was not stopped: %s", name, error)
            await engine.remove(name)
        except (EngineError, EngineUnreachable) as error:
            _logger.error("container %s is left behind: %s", name, error)  # noqa: TRY400 - the engine's words are enough

    def _describe_unreachable(self, error: Exception) -> str:
        return (
            f"the container engine at {self._settings.engine} does not answer: {error}; start it, or correct `engine`"
        )

    def _create_body(self, launch: Launch, environment: Mapping[str, str], socket: Path | None) -> dict[str, Any]:
        memory = self._settings.memory_mebibytes * _MEBIBYTE
        mounts = [_mount(*mount.split(":")) for mount in self._settings.mounts]
        if socket is not None:
            mounts.append(_mount(str(socket), _SOCKET_IN_CONTAINER, "rw"))
        with_stdin = self._settings.prompt == "stdin"
        return {
            "Image": self._settings.image,
            **({"Cmd": list(self._settings.command)} if self._settings.command else {}),
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "User": self._settings.user,
            "Labels": {PULSE_LABEL: launch.pulse_id, EPOCH_LABEL: str(launch.epoch), "circadia.agent": launch.agent},
            "OpenStdin": with_stdin,
            "StdinOnce": with_stdin,
            "AttachStdin": with_stdin,
            "HostConfig": {
                "NetworkMode": self._settings.network,
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "Memory": memory,
                "MemorySwap": memory,
                "NanoCpus": round(self._settings.cpus * 1e9),
                "PidsLimit": self._settings.pids,
                "Tmpfs": {"/tmp": f"rw,nosuid,nodev,mode=1777,size={self._settings.tmp_mebibytes}m"},  # noqa: S108
                "Mounts": mounts,
                "Init": self._settings.init,
                "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}},
            },
        }


def _mount(source: str, target: str, mode: str = "ro") -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": mode != "rw"}


_CHUNK: Final = 2**16


@asynccontextmanager
async def serve_gateway_socket(host: str, port: int, pulse_id: str, epoch: int) -> AsyncGenerator[Path]:
    """Yield a socket file that forwards connections to the gateway while the block lasts.

    It lies in a folder that only this user can enter, since whoever can open it can knock at the gateway; a container
    sees the file alone.

    Raises:
        LaunchFailed: the file cannot be made.
    """
    proxy = _SocketProxy(host, port, _folder_prefix(pulse_id) + f"{epoch}-")
    try:
        yield await run_shielded(proxy.open())
    finally:
        await run_shielded(proxy.close())


def remove_sockets(pulse_id: str, below_epoch: int) -> None:
    """Remove the sockets of a pulse's earlier epochs that a killed server left. Blocks on the disk."""
    prefix = _folder_prefix(pulse_id)
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*-*"):
        epoch = folder.name.removeprefix(prefix).partition("-")[0]
        if epoch.isdigit() and int(epoch) < below_epoch:
            shutil.rmtree(folder, ignore_errors=True)


def _folder_prefix(pulse_id: str) -> str:
    """Return the prefix of the pulse's folders: the end of its id only, since a socket's path is short."""
    return f"circadia-{pulse_id[-12:]}-"


class _SocketProxy:
    def __init__(self, host: str, port: int, prefix: str) -> None:
        self._prefix = prefix
        self._host = host
        self._port = port
        self._folder: str | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> Path:
        try:
            # Not in the data folder: the path of a socket has 107 bytes at most (unix(7)).
            self._folder = await asyncio.to_thread(tempfile.mkdtemp, prefix=self._prefix)
            path = Path(self._folder, "gateway.sock")
            self._server = await asyncio.start_unix_server(self._proxy_connection, path)
            os.chmod(path, 0o666)  # noqa: S103 - the container's user is another
        except OSError as error:
            raise LaunchFailed(f"cannot create the gateway's socket: {error}; check the temporary folder") from error
        return path

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _proxy_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
                try:
                    await asyncio.gather(_copy_stream(reader, there_writer), _copy_stream(there_reader, writer))
                finally:
                    there_writer.close()
        finally:
            self._tasks.discard(task)
            writer.close()


async def _copy_stream(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK):
        sink.write(chunk)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()
