"""Supervises one child: starts it at the first request, restarts it after a crash, stops it when idle."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from mcp.shared.dispatcher import ProgressFnT

from circadia.clock import Clock
from circadia.errors import UpstreamFailed, UpstreamTimedOut
from circadia.gateway.mcp.child import McpServerProcess, start_process
from circadia.settings import McpServerSettings

_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0


class ChildSupervisor:
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
        if self._idle_task is not None:
            self._idle_task.cancel()
            self._idle_task = None

    def _leave(self) -> None:
        self._busy -= 1
        if not self._busy:
            self._idle_task = self._spawn(self._stop_when_idle())

    async def _stop_when_idle(self) -> None:
        await self._clock.sleep(self._settings.idle_seconds)
        self._idle_task = None  # from now on a new request waits for the end and a fresh start
        if self._child is not None:
            await self._child.stop()
        if not self._busy and self._clock.monotonic() >= self._not_before:
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
