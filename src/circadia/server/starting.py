"""The wait for a database that is away at the start: the process answers probes, and tries again (CLU-21)."""

import asyncio
import itertools
import logging
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final, TypeVar

import uvicorn
from starlette.types import Receive, Scope, Send

from circadia.clock import Clock
from circadia.errors import StorageUnavailable
from circadia.server.front import build_refusal, send_answer, without_address
from circadia.server.protocol import build_http_config

T = TypeVar("T")

_logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1
LOG_EVERY: Final = 60
"""Tries between two log lines."""


@asynccontextmanager
async def build_when_database_answers(
    clock: Clock, bound: socket.socket, build: Callable[[], AbstractAsyncContextManager[T]]
) -> AsyncGenerator[T]:
    """Enter what `build` returns, again and again until no StorageUnavailable is raised; end it on exit.

    While it waits, the socket answers `/healthz` with 200, and all else with 503.
    """
    async with AsyncExitStack() as stack:
        try:
            built = await stack.enter_async_context(build())
        except StorageUnavailable as error:
            room = _WaitingRoom(error)
            async with room.open(bound):
                built = await _retry(clock, stack, build, room)
        yield built


async def _retry(
    clock: Clock, stack: AsyncExitStack, build: Callable[[], AbstractAsyncContextManager[T]], room: "_WaitingRoom"
) -> T:
    for tries in itertools.count():
        if tries % LOG_EVERY == 0:
            _logger.warning("the start waits: %s", room.reason.message)
        await clock.sleep(RETRY_SECONDS)
        try:
            return await stack.enter_async_context(build())
        except StorageUnavailable as error:
            room.reason = error
    raise AssertionError


class _WaitingRoom:
    """Answers requests before there is a server."""

    def __init__(self, reason: StorageUnavailable) -> None:
        self.reason = reason

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1013})
        elif scope["path"] == "/healthz":
            await send_answer(send, 200, b"ok\n", b"text/plain")
        elif scope["path"] == "/readyz":
            message = f"starting: {without_address(self.reason)}\n"
            await send_answer(send, 503, message.encode(), b"text/plain; charset=utf-8")
        else:
            error = StorageUnavailable("the server is starting; its database does not answer", retry_after_seconds=1)
            await build_refusal(error, scope["path"])(scope, receive, send)

    @asynccontextmanager
    async def open(self, bound: socket.socket) -> AsyncGenerator[None]:
        """Listen on the socket, which stays open for the server."""
        listener = _Listener(build_http_config(self))
        serving = asyncio.create_task(listener.serve(sockets=[bound.dup()]))
        try:
            yield
        finally:
            listener.should_exit = True
            await serving


class _Listener(uvicorn.Server):
    """A uvicorn server that leaves signals to the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
