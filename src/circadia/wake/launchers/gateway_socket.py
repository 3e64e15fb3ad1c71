"""A socket file that leads only to the gateway, for a container without a network."""

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
