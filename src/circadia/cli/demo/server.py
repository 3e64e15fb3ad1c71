"""A demo's Circadia server: the real command in its own process, used over REST only."""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from circadia.clock import Clock
from circadia.errors import EXIT_STATUS, StartError, UpstreamFailed
from circadia.ids import new_token

START_SECONDS = 40.0
STOP_SECONDS = 15.0
_POLL_SECONDS = 0.1
_ATTEMPTS = 3
_LOG_TAIL_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class DemoServer:
    """A running server, with an HTTP client that has the operator's token."""

    url: str
    log: Path
    _http: aiohttp.ClientSession
    _process: asyncio.subprocess.Process

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def kill(self) -> None:
        """Kill the process as the system would, and wait for its end."""
        self._process.kill()
        await self._process.wait()

    async def get(self, path: str, **query: str) -> Any:
        return await self._ask("GET", path, params=query)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self._ask("POST", path, json=body)

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        """Send a request as the operator. Raises UpstreamFailed if the server is gone or refuses."""
        try:
            async with self._http.request(method, f"{self.url}/api/v1{path}", **options) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UpstreamFailed(
                f"the demo's server does not answer {method} {path}: {error!r}; {self.describe_log()}"
            ) from error
        if answer.status >= 400:
            raise UpstreamFailed(f"the demo's server answered {answer.status} to {method} {path}: {text[:500]}")
        return json.loads(text) if text else None

    def describe_log(self) -> str:
        return describe_log_tail(self.log)


def describe_log_tail(log: Path) -> str:
    data = log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace") if log.exists() else ""
    lines = [line.strip() for line in data.splitlines() if line.strip()][-3:]
    return f"its output is in {str(log)!r}; last lines: {' / '.join(lines) or 'none'}"


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def run_server(
    folder: Path,
    config: Mapping[str, Any],
    clock: Clock,
    *,
    command: Sequence[str] = ("circadia", "serve"),
    token: str | None = None,
) -> AsyncGenerator[DemoServer]:
    """Run a server with `config` on a free port until the block ends; its data and log are in `folder`.

    `command` is a Python module with its first arguments; without `token`, the operator's token is a new one.

    Raises:
        StartError: It ended or was not ready in time.
    """
    file, log, token = folder / "circadia.yaml", folder / "server.log", token or new_token("admin")
    file.write_text(json.dumps(config, indent=2), "utf-8")
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=30)) as http:
        arguments = (*command, "--config", str(file), "--data", str(folder / "data"))
        process, url = await _start(arguments, log, token, http, clock)
        try:
            yield DemoServer(url=url, log=log, _http=http, _process=process)
        finally:
            await stop(process)


async def _start(
    arguments: Sequence[str], log: Path, token: str, http: aiohttp.ClientSession, clock: Clock
) -> tuple[asyncio.subprocess.Process, str]:
    """Start the process; retry on a new port if another program has taken the first one."""
    for _ in range(_ATTEMPTS):
        port = free_port()
        with log.open("wb") as sink:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *arguments, "--host", "127.0.0.1", "--port", str(port)),
                env={**os.environ, "CIRCADIA_ADMIN_TOKEN": token},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        url = f"http://127.0.0.1:{port}"
        try:
            ready = await _ready(process, url, http, clock)
        except BaseException:
            await stop(process)
            raise
        if ready:
            return process, url
        await stop(process)
        if not _port_was_taken(process, log):
            break
    raise StartError(f"the demo's server did not start; {describe_log_tail(log)}")


def _port_was_taken(process: asyncio.subprocess.Process, log: Path) -> bool:
    return process.returncode == EXIT_STATUS[StartError] and "cannot listen" in log.read_text("utf-8", "replace")


async def _ready(process: asyncio.subprocess.Process, url: str, http: aiohttp.ClientSession, clock: Clock) -> bool:
    """Return whether the server answers `/readyz` before it ends or the time is up."""
    until = clock.monotonic() + START_SECONDS
    while process.returncode is None and clock.monotonic() < until:
        try:
            async with http.get(f"{url}/readyz") as answer:
                if answer.status == 200:
                    return True
        except aiohttp.ClientError:
            pass
        await clock.sleep(_POLL_SECONDS)
    return False


async def stop(process: asyncio.subprocess.Process) -> None:
    """Terminate the process, and kill it after `STOP_SECONDS`."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
