"""Launcher that runs a pulse as a call of an async Python function in the server's process."""

import asyncio
import importlib
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from circadia.errors import ConfigError
from circadia.ids import PulseId
from circadia.output_tail import redact_tail
from circadia.wake.launchers.base import Launch, LaunchResult, prompt_bytes, run_shielded

_logger = logging.getLogger(__name__)

AgentFunction = Callable[[Launch], Awaitable[object]]
"""Returns None or a text on success, or a `LaunchResult`."""
_LAST_SECONDS: Final = 1.0


def import_agent_function(name: str) -> AgentFunction:
    """Import the function that settings name as `package.module:function`. Raises ConfigError."""
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        _logger.exception("the module %r cannot be imported", module_name)
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"launcher function {name!r}: {module_name!r} cannot be imported ({reason})") from error
    function: object = getattr(module, function_name, None)
    if not inspect.iscoroutinefunction(function):
        what = "is missing" if function is None else "is not an async function"
        raise ConfigError(f"launcher function {name!r}: {function_name!r} {what}; write `async def {function_name}`")
    return cast("AgentFunction", function)


class CallableLauncher:
    """Runs a function as a task of this process; an exception means failure.

    Nothing of it outlives the process. A stop cancels it; if it goes on after its grace period, its coroutine is
    closed. Threads that it started and blocking calls cannot be ended.
    """

    kind = "callable"

    def __init__(self, function: AgentFunction, *, grace_seconds: float) -> None:
        self._function = function
        self._grace_seconds = grace_seconds
        self._running: dict[tuple[PulseId, int], asyncio.Task[object]] = {}

    async def run(self, launch: Launch, started: Callable[[], Awaitable[None]]) -> LaunchResult:
        prompt_bytes(launch)
        await started()
        task = asyncio.create_task(self._call_function(launch))
        key = (launch.pulse_id, launch.epoch)
        self._running[key] = task
        try:
            await asyncio.wait((task,))
            return _result_of_task(task, launch)
        finally:
            try:
                await run_shielded(self._end(task, launch.pulse_id))
            finally:
                self._running.pop(key, None)

    async def clear(self, pulse_id: PulseId, *, below_epoch: int) -> None:
        """Cancel the runs of the pulse's earlier epochs in this process."""
        older = [task for (key, epoch), task in self._running.items() if key == pulse_id and epoch < below_epoch]
        for task in older:
            await run_shielded(self._end(task, pulse_id))

    async def _call_function(self, launch: Launch) -> object:
        return await self._function(launch)

    async def _end(self, task: asyncio.Task[object], pulse_id: PulseId) -> None:
        if task.done():
            return
        task.cancel()
        await asyncio.wait((task,), timeout=self._grace_seconds)
        if not task.done():
            _close_coroutine(task)
            await asyncio.wait((task,), timeout=_LAST_SECONDS)
        if not task.done():
            _logger.error("the function of pulse %s does not end", pulse_id)


def _close_coroutine(task: asyncio.Task[object]) -> None:
    """Close a coroutine that swallows its cancellation; `cancel` wakes its task, which then ends."""
    coroutine = cast("Any", task.get_coro())
    try:
        coroutine.close()
    except RuntimeError:
        pass  # it swallows that too
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # retrieve the exception of the close
    task.cancel()


def _result_of_task(task: asyncio.Task[object], launch: Launch) -> LaunchResult:
    if task.cancelled():
        return LaunchResult(succeeded=False, detail="it was cancelled")
    error = task.exception()
    if error is not None:
        return LaunchResult(succeeded=False, detail=redact_tail(f"{type(error).__name__}: {error}", (launch.token,)))
    result = task.result()
    if isinstance(result, LaunchResult):
        return LaunchResult(succeeded=result.succeeded, detail=redact_tail(result.detail, (launch.token,)))
    return LaunchResult(succeeded=True, detail="" if result is None else redact_tail(str(result), (launch.token,)))
