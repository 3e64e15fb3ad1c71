"""A socket file that leads to the gateway and to nothing else, for a container that has no network."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from circadia.wake.launchers.base import LaunchFailed
from circadia.wake.launchers.shielding import run_shielded

_CHUNK: Final = 2**16


@asynccontextmanager
async def serve_gateway_socket(host: str, port: int, pulse_id: str, epoch: int) -> AsyncGenerator[Path]:
    """Yield a socket file whose connections are carried to the gateway, for as long as the block lasts.

    It lies in a folder that only this user can enter, since whoever can open it can knock at the gateway; a container
    sees the file alone.

    Raises:
        LaunchFailed: the file cannot be made.
    """
    door = _SocketProxy(host, port, _folder_prefix(pulse_id) + f"{epoch}-")
    try:
        yield await run_shielded(door.open())
    finally:
        await run_shielded(door.close())


def remove_sockets(pulse_id: str, below_epoch: int) -> None:
    """Remove what a killed server has left of a pulse's earlier epochs. Blocks on the disk."""
    prefix = _folder_prefix(pulse_id)
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*-*"):
        epoch = folder.name.removeprefix(prefix).partition("-")[0]
        if epoch.isdigit() and int(epoch) < below_epoch:
            shutil.rmtree(folder, ignore_errors=True)


def _folder_prefix(pulse_id: str) -> str:
    """Return how the names of the pulse's folders begin: with the end of its id, since a socket's path is short."""
    return f"circadia-{pulse_id[-12:]}-"


class _SocketProxy:
    """Listens on a socket file and carries the bytes of each connection, both ways, until either side is done."""

    def __init__(self, host: str, port: int, prefix: str) -> None:
        self._prefix = prefix
        self._host = host
        self._port = port
        self._folder: str | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> Path:
        """Listen, and return the file."""
        try:
            # Not in the data folder: the path of a socket has 107 bytes at most (unix(7)).
            self._folder = await asyncio.to_thread(tempfile.mkdtemp, prefix=self._prefix)
            path = Path(self._folder, "gateway.sock")
            self._server = await asyncio.start_unix_server(self._proxy_connection, path)
            os.chmod(path, 0o666)  # noqa: S103 - the container's user is another
        except OSError as error:
            raise LaunchFailed(f"the gateway's socket cannot be made: {error}; see to the temporary folder") from error
        return path

    async def close(self) -> None:
        """Break off all connections and remove the file."""
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
