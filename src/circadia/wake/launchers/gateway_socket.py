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
from circadia.wake.launchers.finish import finish

_CHUNK: Final = 2**16
_NAME: Final = "gateway.sock"


@asynccontextmanager
async def gateway_socket(host: str, port: int) -> AsyncGenerator[Path]:
    """Yield a socket file whose connections are carried to the gateway, for as long as the block lasts.

    It lies in a folder that only this user can enter, since whoever can open it can knock at the gateway; a container
    sees the file alone.

    Raises:
        LaunchFailed: the file cannot be made.
    """
    carrier = _Carrier(host, port)
    folder, server = await finish(_served(carrier))
    try:
        yield folder / _NAME
    finally:
        server.close()
        await carrier.close()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


class _Carrier:
    """Carries the bytes of each connection, both ways, until either side is done."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
                try:
                    await asyncio.gather(_pour(reader, there_writer), _pour(there_reader, writer))
                finally:
                    there_writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        """Break off all connections."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _pour(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK):
        sink.write(chunk)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


async def _served(carrier: _Carrier) -> tuple[Path, asyncio.Server]:
    folder: Path | None = None
    try:
        # Not in the data folder: the path of a socket has 107 bytes at most (unix(7)).
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="circadia-"))
        server = await asyncio.start_unix_server(carrier.carry, folder / _NAME)
        os.chmod(folder / _NAME, 0o666)  # noqa: S103 - the container's user is another
    except OSError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise LaunchFailed(f"the gateway's socket cannot be made: {error}; see to the temporary folder") from error
    return folder, server
