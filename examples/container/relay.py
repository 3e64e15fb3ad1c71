"""Gives a container without a network its gateway back: `python relay.py PROGRAM ARGUMENTS…`.

The container's only way out is the socket file that `CIRCADIA_GATEWAY_SOCKET` names. This listens where the gateway's
base URLs point to (127.0.0.1 and their port), carries each connection to the socket, runs the program, and ends with
its exit status. Standard library only. An agent whose HTTP client can speak to a socket file needs none of this.
"""

import asyncio
import os
import signal
import sys
from urllib.parse import urlsplit

SOCKET = os.environ["CIRCADIA_GATEWAY_SOCKET"]
BASE_URLS = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "CIRCADIA_MCP_URL")


async def pour(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Carry one direction to its end."""
    while chunk := await source.read(65536):
        sink.write(chunk)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry one connection."""
    gateway_reader, gateway_writer = await asyncio.open_unix_connection(SOCKET)
    try:
        await asyncio.gather(pour(reader, gateway_writer), pour(gateway_reader, writer))
    except OSError:
        pass  # one side has gone
    finally:
        gateway_writer.close()
        writer.close()


def ports() -> set[int]:
    """Return the ports that the agent's base URLs name."""
    urls = [urlsplit(os.environ[name]) for name in BASE_URLS if name in os.environ]
    return {url.port or 80 for url in urls if url.scheme == "http"}


async def main() -> int:
    """Listen, run the program, and hand its signals and its exit status on."""
    for port in ports():
        await asyncio.start_server(carry, "127.0.0.1", port)
    program = await asyncio.create_subprocess_exec(*sys.argv[1:])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, program.terminate)
    status = await program.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
