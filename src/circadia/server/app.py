"""Start and stop of the server; while its database is away at the start, it answers probes and tries again (CLU-21)."""

import asyncio
import errno
import gc
import itertools
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar, cast

import uvicorn
from starlette.types import Receive, Scope, Send

from circadia.child_process import PROGRAM_AS_SERVER
from circadia.clock import Clock, SystemClock
from circadia.errors import StartError, StorageUnavailable
from circadia.gateway.hold.bodies import give_memory_back
from circadia.records.member import Role
from circadia.server.context import build_url
from circadia.server.folder import keep_admin_token, load_admin_tokens, lock_folder
from circadia.server.front import ConnectionLimit, build_refusal, send_answer, without_address
from circadia.server.protocol import GatewayHttpProtocol, build_http_config
from circadia.server.wiring import Server, build_server
from circadia.settings import ConfigFile, Settings
from circadia.telemetry.logs import set_up_logs
from circadia.telemetry.traces import set_up_traces

_logger = logging.getLogger(__name__)

BACKLOG: Final = 4096
"""Connections that the system keeps waiting."""
AT_ONCE: Final = 64
"""Connections accepted in one step of the event loop."""
PAUSE_SECONDS: Final = 0.01
"""How long nothing is accepted while no file is left."""


class Acceptor:
    """Takes the place of an `asyncio.Server`, which cannot pause."""

    def __init__(self, bound: socket.socket, build: Callable[[], asyncio.Protocol], limit: ConnectionLimit) -> None:
        self._bound = bound
        self._build = build
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False
        bound.setblocking(False)
        bound.listen(BACKLOG)
        self._resume()

    def close(self) -> None:
        """Accept no more."""
        self._is_closed = True
        self._loop.remove_reader(self._bound)

    async def wait_closed(self) -> None:
        pass

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._bound, self._accept)

    def _pause(self) -> None:
        self._loop.remove_reader(self._bound)
        self._loop.call_later(PAUSE_SECONDS, self._resume)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            if len(self._opening) + len(self._limit.connections) >= self._limit.max_connections:
                self._pause()
                return
            try:
                connection, _address = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file is left after all
                _logger.warning("no connection is accepted for a moment: %s", error.strerror)
                self._pause()
                return
            task = self._loop.create_task(self._open(connection))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        with suppress(OSError):  # the caller is gone again
            await self._loop.connect_accepted_socket(self._build, connection)


SWITCH_SECONDS: Final = 0.0005
"""How long a thread may hold the interpreter while another wants it.

A tenth of the default: a call that arrives while a pass works in a thread would wait that long at each of its steps.
"""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

OnReady = Callable[[str, str | None], None]


async def serve(
    settings: Settings,
    data: Path,
    *,
    on_ready: OnReady,
    role: Role = Role.ALL,
    migrates: bool = True,
    config: ConfigFile | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; while PostgreSQL is away at the start, wait for it.

    `on_ready` is called once with the URL, and with the operator's token if it is new. A server that does not `migrate`
    the database waits until another process has done so. `config` is the source file of
    the settings; its agents are read again when it changes.

    Raises:
        StartError: a problem with the port, data folder, lock or database.
        ConfigError: a variable that the settings name is not set.
    """
    if settings.server.database_url is None:
        _require_options_of_sqlite(role, migrates)
    environment = dict(os.environ)
    with lock_folder(data):
        tokens, is_new = load_admin_tokens(data, environment)
        set_up_logs(
            [*tokens, *collect_secrets(settings, environment)],
            form=settings.server.log_format,
            level=logging.getLevelNamesMapping()[settings.server.log_level.upper()],
        )
        raise_file_limit()
        for program in (path for path, user in settings.programs.items() if user is None):
            _logger.warning("%s runs as the server's own user; %s", program, PROGRAM_AS_SERVER)
        chosen = settings.server
        with bind_socket(chosen.host, chosen.port) as bound:
            traces = set_up_traces(environment)
            build = partial(
                build_server, settings, data, environment, tokens, address=reachable_address(bound), config=config,
                traces=traces, role=role, migrates=migrates,
            )  # fmt: skip
            async with build_when_database_answers(SystemClock(), bound, build) as server:
                if is_new:
                    keep_admin_token(data, tokens[0])  # not earlier: a start that fails before this would never show it
                tune_interpreter()
                listener = Listener(server, bound, drain_seconds=chosen.drain_seconds)
                announcement = asyncio.create_task(_announce_ready(listener, on_ready, tokens[0] if is_new else None))
                try:
                    await listener.serve(sockets=[bound])
                finally:
                    announcement.cancel()


def _require_options_of_sqlite(role: Role, migrates: bool) -> None:
    if role is not Role.ALL:
        raise StartError(f"the role {role.value!r} needs PostgreSQL; set server.database_url, or use --role all")
    if not migrates:
        raise StartError("--no-migrate needs PostgreSQL; set server.database_url, or leave the option out")


class Listener(uvicorn.Server):
    """A uvicorn server that drains on SIGTERM, and stops on SIGINT or a second signal (GATE-49, CLU-31)."""

    def __init__(self, server: Server, bound: socket.socket, *, drain_seconds: float) -> None:
        super().__init__(build_http_config(server.app, max_requests=server.connection_limit.max_connections + 1))
        self._limit = server.connection_limit
        self._limit.connections = self.server_state.connections
        self._loop = asyncio.get_running_loop()
        self._drain = server.drain
        self._drain_seconds = drain_seconds
        self._drain_limit: asyncio.Timeout | None = None
        self.bound = bound
        self.ready = asyncio.Event()

    @property
    def url(self) -> str:
        return build_url(reachable_address(self.bound))

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop on SIGINT and SIGTERM, then let the caller of `serve` clean up.

        uvicorn would send the signal again, and its default action would end the process before the journal is written
        and the database closed. A handler that the process has of its own still hears of it.
        """
        mine = threading.current_thread() is threading.main_thread()
        before = {number: signal.signal(number, self.handle_exit) for number in (_SIGNALS if mine else ())}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        for number in self._captured_signals:
            handler = before.get(signal.Signals(number))
            if callable(handler) and handler is not signal.default_int_handler:
                handler(number, None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._captured_signals.append(sig)
        if self.should_exit or sig == signal.SIGINT:
            self._loop.call_soon_threadsafe(self._end_drain)
        self.should_exit = True

    def _end_drain(self) -> None:
        self._drain_seconds = 0.0
        if self._drain_limit is not None and not self._drain_limit.expired():
            self._drain_limit.reschedule(0.0)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, as many as files may be open."""
        await super().startup([])

        def build_protocol() -> GatewayHttpProtocol:
            return GatewayHttpProtocol(
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=self._loop
            )

        self.servers += [
            cast("asyncio.Server", Acceptor(bound, build_protocol, self._limit)) for bound in sockets or ()
        ]
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain while probes and the calls of pulses are answered, then end what is left."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain_seconds) as self._drain_limit:
                await self._drain.run(self.server_state.tasks)
        self._drain_limit = None
        await self._drain.stop()
        await asyncio.sleep(0)
        await super().shutdown(sockets)


def reachable_address(bound: socket.socket) -> tuple[str, int]:
    name: tuple[str, int] = bound.getsockname()[:2]
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name[0]) or name[0], name[1]


def raise_file_limit() -> None:
    """Raise the limit of open files to the maximum: each held call is a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def tune_interpreter() -> None:
    """Tune the garbage collector and thread switching, once everything is loaded.

    The collector skips the libraries' half a million permanent objects, and thousands of held calls make it run less
    often. Measured: a tenth of the CPU of a proxied call. What the imports freed goes back to the system. The middle
    generation has 100,000 objects at most, which take 40 ms: with 400,000, a collection took 190 ms while 10,000 calls
    were released.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 5, 200)
    give_memory_back()
    sys.setswitchinterval(SWITCH_SECONDS)


@contextmanager
def bind_socket(host: str, port: int) -> Generator[socket.socket]:
    """Yield a bound socket; a taken port raises StartError before anything else happens."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    with bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # per connection; not every event loop sets it
        try:
            bound.bind((host, port))
        except (OSError, UnicodeError) as error:
            is_port = isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES)
            why, option = getattr(error, "strerror", None) or error, "--port" if is_port else "--host"
            raise StartError(f"cannot listen on {host}:{port}: {why}; choose another with {option}") from error
        yield bound


async def _announce_ready(listener: Listener, on_ready: OnReady, new_token: str | None) -> None:
    await listener.ready.wait()
    on_ready(listener.url, new_token)


def collect_secrets(settings: Settings, environment: Mapping[str, str]) -> list[str]:
    """Return the values of all variables that the settings name; no setting holds a secret itself."""
    return [environment[name] for name in _secret_variables(settings.model_dump()) if environment.get(name)]


def _secret_variables(section: Mapping[str, Any]) -> Iterator[str]:
    for key, value in section.items():
        names = key.endswith(("_env", "env_from"))
        if isinstance(value, str) and names:
            yield value
        elif isinstance(value, Mapping):
            mapping = cast("Mapping[str, Any]", value)
            yield from mapping.values() if names else _secret_variables(mapping)
        elif isinstance(value, list | tuple) and names:
            yield from cast("Sequence[str]", value)


T = TypeVar("T")


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
        listener = _ProbeListener(build_http_config(self))
        serving = asyncio.create_task(listener.serve(sockets=[bound.dup()]))
        try:
            yield
        finally:
            listener.should_exit = True
            await serving


class _ProbeListener(uvicorn.Server):
    """A uvicorn server that leaves signals to the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
