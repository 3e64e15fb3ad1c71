"""A stdio MCP server as a child process: handshake, requests and answers, its end, and its restarts."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from importlib.metadata import version
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.dispatcher import CallOptions, DispatchContext, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import METHOD_NOT_FOUND, JSONRPCMessage, jsonrpc_message_adapter
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from circadia.child_process import CHUNK_BYTES, ChildProcess, wait_within
from circadia.clock import Clock
from circadia.errors import UpstreamFailed, UpstreamTimedOut
from circadia.gateway.payload.fields import load_with_halves
from circadia.output_tail import Tail
from circadia.settings import McpServerSettings

_logger = logging.getLogger(__name__)

START_SECONDS: Final = 120.0
"""Maximum wait for the handshake; a first start may have to fetch a package."""
LINE_BYTES: Final = 32 * 2**20
"""Longest line that is read; a child that sends a longer one is broken."""
GRACE_SECONDS: Final = 2.0
"""Time for a child to end by itself after its input is closed, and again after SIGTERM."""
_PING_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 1.0

Incoming = SessionMessage | Exception


class McpServerProcess:
    """One run of a server's process. `start` it once; it ends by itself or by `stop`."""

    def __init__(self, name: str, process: ChildProcess, answer_seconds: float, secrets: Sequence[str]) -> None:
        self.over = False
        """Whether it takes no more requests."""
        self.greeting: Mapping[str, Any] = {}
        self._name = name
        self._process = process
        self._answer_seconds = answer_seconds
        self._errors = Tail(secrets)
        self._stopping = asyncio.Event()
        self._incoming, incoming = anyio.create_memory_object_stream[Incoming](0)
        outgoing, self._outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(incoming, outgoing)
        self._patient = False
        self._reason = ""
        self._broken = ""
        self._by_itself = False
        self._talking = asyncio.Event()
        self._on_end: Callable[[], None] | None = None
        self._life: asyncio.Task[None] | None = None

    async def start(self, on_end: Callable[[], None]) -> None:
        """Do the handshake; `on_end` is called if the child later ends unasked.

        Raises:
            UpstreamFailed: it ended, or sent no MCP handshake.
            UpstreamTimedOut: it did not answer.
        """
        self._life = asyncio.create_task(self._run())
        hello = {
            "protocolVersion": LATEST_HANDSHAKE_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "circadia", "version": version("circadia")},
        }
        try:
            await self._talking.wait()
            seconds = min(START_SECONDS, self._answer_seconds)
            self.greeting = await self._request("initialize", hello, seconds, {"cancel_on_abandon": False})
            await self._dispatcher.notify("notifications/initialized", None)
        except MCPError as error:
            await self.stop()
            raise UpstreamFailed(f"MCP server {self._name!r} refused the handshake: {error}") from error
        except BaseException:
            await asyncio.shield(self.stop(patient=False))
            raise
        self._on_end = on_end

    async def ask(self, method: str, params: Mapping[str, Any], on_progress: ProgressFnT | None) -> dict[str, Any]:
        """Return the child's result.

        Raises:
            MCPError: the child answered with an error.
            UpstreamFailed: it ended.
            UpstreamTimedOut: it did not answer.
        """
        options: CallOptions = {} if on_progress is None else {"on_progress": on_progress}
        return await self._request(method, params, self._answer_seconds, options)

    async def is_responsive(self) -> bool:
        try:
            await self._request("ping", {}, min(_PING_SECONDS, self._answer_seconds), {})
        except MCPError:
            return True
        except UpstreamFailed:
            return False
        return True

    async def stop(self, *, patient: bool = True, reason: str = "") -> None:
        """End the child and everything it started, and wait for that; `reason` goes into its callers' error."""
        self.over = True
        self._patient = patient
        self._reason = self._reason or reason
        self._stopping.set()
        if self._life is not None:
            await asyncio.wait((self._life,))

    async def _request(
        self, method: str, params: Mapping[str, Any], seconds: float, options: CallOptions
    ) -> dict[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                return await self._dispatcher.send_raw_request(method, params, options)
        except TimeoutError as error:
            raise UpstreamTimedOut(f"MCP server {self._name!r} did not answer {method!r} in {seconds:g} s") from error
        except MCPError as error:
            if self.over:
                raise UpstreamFailed(self._end_reason()) from error
            raise

    def _end_reason(self) -> str:
        status = self._process.returncode
        if not self._by_itself:
            return f"MCP server {self._name!r} was stopped{self._reason} before it answered"
        how = f" after {self._broken}" if self._broken else "" if status is None else f" with exit status {status}"
        return f"MCP server {self._name!r} ended{how} before it answered; the next call starts it again"

    async def _run(self) -> None:
        """Pass lines until the child ends or must end; leave nothing of it behind."""
        process = self._process
        talking = asyncio.create_task(self._dispatcher.run(_refuse, _ignore, task_status=_ReadySignal(self._talking)))
        reading = asyncio.create_task(self._read_lines(self._incoming))
        writing = asyncio.create_task(self._write_lines(self._outgoing))
        errors = asyncio.create_task(self._keep_errors())
        exited = asyncio.create_task(process.exited.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            ends = (reading, writing, talking, exited, stopping)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if exited.done() and not stopping.done():
                await asyncio.wait((reading,), timeout=_DRAIN_SECONDS)  # its last lines may be on their way
            self.over = True
            if not stopping.done():
                self._by_itself = True
                if self._on_end is not None:
                    self._on_end()  # before the waiting callers learn of it and may ask again
            await self._end_process(patient=self._patient and not self._by_itself)
        finally:
            self.over = True
            self._incoming.close()  # wakes all who wait for an answer
            await asyncio.wait((talking, errors), timeout=_DRAIN_SECONDS)
            process.close()
            tasks = (talking, reading, writing, errors, exited, stopping)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._outgoing.close()
            if self._by_itself:
                _logger.warning("%s; its last words:\n%s", self._end_reason(), self._errors.text())

    async def _read_lines(self, incoming: MemoryObjectSendStream[Incoming]) -> None:
        try:
            async with aclosing(_split_lines(self._process.stdout)) as lines:
                async for line in lines:
                    if not line.strip():
                        continue
                    try:
                        message = _parse_message(line)
                    except ValueError:
                        _logger.debug("MCP server %r wrote a line that is not a JSON-RPC message", self._name)
                        continue
                    await incoming.send(SessionMessage(message))
        except UpstreamFailed as error:
            self._broken = error.message
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass  # the exit of the child reports its end

    async def _keep_errors(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(CHUNK_BYTES):
            self._errors.feed(chunk)

    async def _end_process(self, *, patient: bool) -> None:
        """End the child and everything it started; `patient` first closes its input, then sends SIGTERM."""
        if patient:
            assert self._process.stdin is not None
            self._process.stdin.close()
            await wait_within(GRACE_SECONDS, self._process.exited.wait())
        await self._process.end(grace_seconds=GRACE_SECONDS if patient else 0.0)

    async def _write_lines(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(OSError, anyio.ClosedResourceError):
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()


async def start_process(
    name: str, command: Sequence[str], environment: Mapping[str, str], folder: str | None
) -> ChildProcess:
    """Start the program of an MCP server. Raises UpstreamFailed if that fails."""
    try:
        return await ChildProcess.start(command, environment, folder)
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "bad command"
        raise UpstreamFailed(f"MCP server {name!r} cannot be started: {command[0]!r}: {reason}") from error


async def _split_lines(output: asyncio.StreamReader | None) -> AsyncGenerator[bytes]:
    """Yield the lines of the output until it is closed. Raises UpstreamFailed if a line is too long."""
    assert output is not None
    parts: list[bytes] = []
    length = 0
    while chunk := await output.read(CHUNK_BYTES):
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*parts, line])
            parts.clear()
            length = 0
        length += len(rest)
        if length > LINE_BYTES:
            raise UpstreamFailed(f"a line of more than {LINE_BYTES} bytes")
        if rest:
            parts.append(rest)


def _parse_message(line: bytes) -> JSONRPCMessage:
    """Parse a line, which may contain halves of characters. Raises ValueError if it is not a message."""
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return jsonrpc_message_adapter.validate_python(load_with_halves(line), by_name=False)


class _ReadySignal:
    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def started(self, value: None = None) -> None:
        self._event.set()


async def _refuse(
    context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Answer a request of the child: callers behind the gateway offer it nothing but a ping."""
    if method == "ping":
        return {}
    raise MCPError(METHOD_NOT_FOUND, f"Circadia offers no {method!r} to the servers behind it")


async def _ignore(context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None) -> None:
    """Drop a notification: callers keep no stream for it."""


_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0


class ChildSupervisor:
    """Starts one child at the first request, restarts it after a crash, and stops it when idle."""

    def __init__(
        self,
        name: str,
        settings: McpServerSettings,
        environment: Mapping[str, str],
        clock: Clock,
        on_idle: Callable[[], object],
    ) -> None:
        """`on_idle` is called once the child was stopped for being idle."""
        self._on_idle = on_idle
        self._name = name
        self._settings = settings
        self._environment = environment
        self._clock = clock
        self._child: McpServerProcess | None = None
        self._start_task: asyncio.Task[McpServerProcess] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle_task: asyncio.Task[None] | None = None
        self._busy = 0
        self._uses = 0
        """Number of requests so far."""
        self._crashes = 0
        self._not_before = 0.0

    async def greeting(self) -> Mapping[str, Any]:
        """Return the child's result of `initialize`. Raises as `ask`."""
        self._enter()
        try:
            return (await self._live_child()).greeting
        finally:
            self._leave()

    async def ask(
        self, method: str, params: Mapping[str, Any], on_progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        """Return the child's result; start it if needed. Raises MCPError, UpstreamFailed, UpstreamTimedOut."""
        self._enter()
        try:
            child = await self._live_child()
            try:
                answer = await child.ask(method, params, on_progress)
            except UpstreamTimedOut:
                self._spawn(self._replace_if_hung(child))
                raise
            self._crashes = 0
            return answer
        finally:
            self._leave()

    async def stop(self) -> None:
        waiting: list[asyncio.Task[Any]] = [*self._tasks]
        if self._start_task is not None:
            waiting.append(self._start_task)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if self._child is not None:
            await self._child.stop()

    async def _live_child(self) -> McpServerProcess:
        if self._child is not None and not self._child.over:
            return self._child
        if self._start_task is None or self._start_task.done():
            pause = self._not_before - self._clock.monotonic()
            if pause > 0:
                raise UpstreamFailed(
                    f"MCP server {self._name!r} ended {self._crashes} times in a row; it will not be restarted for "
                    f"{pause:.1f} s. Its log lines say why",
                    retry_after_seconds=pause,
                )
            self._start_task = asyncio.create_task(self._start_child())
            self._start_task.add_done_callback(_consume_exception)
        return await asyncio.shield(self._start_task)

    async def _start_child(self) -> McpServerProcess:
        if self._child is not None:
            await self._child.stop()  # until then it may hold what the next one needs
        settings = self._settings
        try:
            process = await start_process(self._name, settings.command, self._environment, settings.cwd)
            child = McpServerProcess(self._name, process, settings.answer_timeout_seconds, self._secrets())
            await child.start(self._record_crash)
        except UpstreamFailed:
            self._record_crash()
            raise
        self._child = child
        return child

    def _secrets(self) -> Sequence[str]:
        own = {*self._settings.env, *self._settings.env_from}
        return [value for name, value in self._environment.items() if name in own]

    def _record_crash(self) -> None:
        self._crashes += 1
        if self._crashes > 1:  # a single crash is not a pattern
            pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** (self._crashes - 2))
            self._not_before = self._clock.monotonic() + pause

    async def _replace_if_hung(self, child: McpServerProcess) -> None:
        if not child.over and not await child.is_responsive():
            await child.stop(patient=False, reason=", since it no longer answers,")

    def _enter(self) -> None:
        self._busy += 1
        self._uses += 1
        if self._idle_task is not None:
            self._idle_task.cancel()
            self._idle_task = None

    def _leave(self) -> None:
        self._busy -= 1
        if not self._busy:
            self._idle_task = self._spawn(self._stop_when_idle())

    async def _stop_when_idle(self) -> None:
        uses = self._uses
        await self._clock.sleep(self._settings.idle_seconds)
        if self._start_task is not None:  # its caller may be gone
            await asyncio.wait((self._start_task,))
        self._idle_task = None  # from now on a new request waits for the end and a fresh start
        if self._child is not None:
            await self._child.stop()
        if self._uses == uses and self._clock.monotonic() >= self._not_before:
            self._on_idle()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _consume_exception(opening: asyncio.Task[McpServerProcess]) -> None:
    """Read the outcome, in case all waiting callers are gone."""
    if not opening.cancelled():
        opening.exception()
