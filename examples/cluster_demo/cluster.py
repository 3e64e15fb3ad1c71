"""The cluster of the demo: PostgreSQL, two gateways behind HAProxy, and two workers, each a process of its own."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.postgres import postgres
from circadia.cli.demo.server import DemoServer, run_server
from circadia.clock import Clock
from circadia.ids import new_token
from tests.fixtures.balancer import balance


@dataclass(frozen=True, kw_only=True)
class DemoCluster:
    """The running cluster; `url` is HAProxy's, and the servers have their names."""

    url: str
    token: str
    gateways: Mapping[str, DemoServer]
    workers: Mapping[str, DemoServer]

    @property
    def live_gateway(self) -> DemoServer:
        return next(gateway for gateway in self.gateways.values() if gateway.alive)


@contextlib.asynccontextmanager
async def run_cluster(
    folder: Path, config: Mapping[str, Any], clock: Clock, module: str
) -> AsyncGenerator[DemoCluster]:
    """Run the cluster with its data and logs in `folder`; `module` is the Python module that a server runs."""
    token = new_token("admin")
    async with contextlib.AsyncExitStack() as stack:
        server: dict[str, Any] = {"database_url": await stack.enter_async_context(postgres()), "drain_seconds": 0.5}

        async def start(role: str, name: str) -> DemoServer:
            own = folder / name.replace(" ", "-")
            own.mkdir()
            command = (module, "serve", "--role", role)
            run = run_server(own, {**config, "server": server}, clock, command=command, token=token)
            return await stack.enter_async_context(run)

        async def start_two(role: str, names: Sequence[str]) -> dict[str, DemoServer]:
            servers = await asyncio.gather(*(start(role, name) for name in names))
            return dict(zip(names, servers, strict=True))

        gateways = await start_two("gateway", ("gateway A", "gateway B"))
        urls = [gateway.url for gateway in gateways.values()]
        url = await stack.enter_async_context(balance(folder, urls))
        server["gateway_url"] = url
        workers = await start_two("worker", ("worker C", "worker D"))
        yield DemoCluster(url=url, token=token, gateways=gateways, workers=workers)


def find_programs(server: DemoServer, file: Path) -> list[psutil.Process]:
    """Return the processes of this Python file that the server has started."""
    programs: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(server.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if str(file) in process.cmdline():
                    programs.append(process)
    return programs
