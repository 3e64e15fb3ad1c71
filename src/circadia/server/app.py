"""Starts and stops the server."""

import asyncio
import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import uvicorn

from circadia.errors import StartError
from circadia.server.folder import admin_token, locked
from circadia.server.wiring import Server, wired
from circadia.settings import Settings
from circadia.telemetry.logs import set_up_logs

SERVER_STOPS: Final = "the server is stopping; the call was not executed, send it again"

OnReady = Callable[[str, str | None], None]


async def serve(settings: Settings, data: Path, *, on_ready: OnReady, role: str = "all") -> None:
    """Serve until SIGTERM or SIGINT.

    `on_ready` is called once with the URL, and with the operator's token if it was made just now.

    Raises:
        StartError: port, data folder, lock or database. ConfigError: a variable that the settings name is not set.
    """
    if role != "all":
        raise StartError(f"the role {role!r} belongs to the cluster, which is not there yet; use --role all")
    environment = dict(os.environ)
    with locked(data):
        token, made = admin_token(data, environment)
        set_up_logs([token, *_secrets(settings, environment)])
        raise_file_limit()
        bound = _bound(settings.server.host, settings.server.port)
        async with wired(settings, data, environment, token) as server:
            await _served(settings, server, bound, lambda url: on_ready(url, token if made else None))


async def _served(settings: Settings, server: Server, bound: socket.socket, ready: Callable[[str], None]) -> None:
    config = uvicorn.Config(
        server.app,
        loop="uvloop",
        http="httptools",
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=4096,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(settings.server.shutdown_seconds) or 1,
    )
    stopping = _Stopping(config, server, lambda: ready(_url(bound)))
    await stopping.serve(sockets=[bound])


class _Stopping(uvicorn.Server):
    """A uvicorn server that ends held calls before it waits for the running ones (GATE-49)."""

    def __init__(self, config: uvicorn.Config, server: Server, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._circadia = server
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what waits, then let the rest run to its end."""
        self._circadia.presence.stop(SERVER_STOPS)
        await asyncio.sleep(0)
        await super().shutdown(sockets)


def raise_file_limit() -> None:
    """Allow as many open files as the system lets us: each held call is a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise StartError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port") from error
    bound.set_inheritable(False)
    return bound


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else "127.0.0.1" if host == "0.0.0.0" else host
    return f"http://{shown}:{port}"


def _secrets(settings: Settings, environment: dict[str, str]) -> list[str]:
    names = [each.key_env for each in settings.upstreams.values()]
    names += [each.token_env for each in settings.agents.values()]
    names += [settings.server.metrics_token_env]
    for each in settings.mcp_servers.values():
        names += [*each.headers_env.values(), *each.env_from]
    return [environment[name] for name in names if name and environment.get(name)]
