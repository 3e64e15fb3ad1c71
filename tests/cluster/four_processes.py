"""Two gateways and two workers in processes of their own, on one PostgreSQL, for tests of faults."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.cluster import short_leases
from tests.cluster.quick_agent import LAUNCHERS
from tests.cluster.short_leases import TIMES_SHORTER
from tests.fixtures.server_process import PROGRAM, START_SECONDS, CircadiaProcess

LEASE_SECONDS: Final = 15.0
ROLES: Final = ("gateway", "gateway", "worker", "worker")


class Cluster:
    """The running processes. One that is killed starts again meanwhile."""

    def __init__(self, processes: Sequence[CircadiaProcess], http: aiohttp.ClientSession, *, lease_seconds: float):
        self.processes = processes
        self.gateways, self.workers = processes[:2], processes[2:]
        self.http = http
        self.lease_seconds = lease_seconds
        self._starts: dict[CircadiaProcess, asyncio.Task[None]] = {}

    async def kill(self, process: CircadiaProcess) -> None:
        """Kill a process, also in the middle of its start, and start it again without waiting for that."""
        await process.kill9()
        if (start := self._starts.get(process)) is not None:
            with suppress(AssertionError, aiohttp.ClientError):  # it was killed before it was ready
                await start
        dead = process.pid
        self._starts[process] = asyncio.create_task(process.start())
        async with asyncio.timeout(START_SECONDS):
            while process.pid == dead:  # the next kill must find the new process
                await asyncio.sleep(0.01)

    async def wait_until_started(self) -> None:
        await asyncio.gather(*self._starts.values())
        self._starts.clear()

    async def get(self, path: str) -> Any:
        return await self.gateways[0].call("GET", path)


@asynccontextmanager
async def four_processes(
    folder: Path, *urls: str, short: bool = True, launchers: Mapping[str, Any] = LAUNCHERS, **server: Any
) -> AsyncGenerator[Cluster]:
    """Run them, with `short` leases or their own; the last URL of the database is that of all further processes."""
    configs = [
        {
            "server": {
                "database_url": urls[min(place, len(urls) - 1)], "readers": 2, "writers": 4, "drain_seconds": 0.2,
                **server,
            },
            "launchers": {**LAUNCHERS, **launchers}, "fleet": {"max_concurrent_pulses": None},
            "sleeptime": {"when": "manual", "model": "none"},
        }
        for place in range(len(ROLES))
    ]  # fmt: skip
    processes = [
        CircadiaProcess(
            folder / f"{role}{place}", config, program=short_leases.PROGRAM if short else PROGRAM,
            options=("--role", role),
        )
        for place, (role, config) in enumerate(zip(ROLES, configs, strict=True))
    ]  # fmt: skip
    lease_seconds = LEASE_SECONDS / (TIMES_SHORTER if short else 1)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession(headers=processes[0].admin))
        for process in processes:
            process.folder.mkdir()
        async with asyncio.TaskGroup() as group:
            for process in processes:
                group.create_task(stack.enter_async_context(process))
        yield Cluster(processes, http, lease_seconds=lease_seconds)
