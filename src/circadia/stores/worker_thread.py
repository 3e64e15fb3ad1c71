"""A thread for work that the event loop must not wait for, such as SQLite's."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

_logger = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class ThreadJob:
    """A job for a thread, and the future of its result."""

    do: Callable[[], Any]
    future: asyncio.Future[Any] | None = None
    ended: bool = False
    """Done with the connection."""


class WorkerThread:
    """Runs jobs in order, each to its end even if its caller is cancelled. The first job starts the thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[ThreadJob | None] | None = None
        self._last: ThreadJob | None = None

    @property
    def is_idle(self) -> bool:
        """Whether all submitted jobs are done."""
        return self._last is None or self._last.ended

    async def run_job(self, job: Callable[[], T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(ThreadJob(do=job, future=future))
        return await future

    def submit(self, job: ThreadJob) -> None:
        if self._jobs is None:
            self._jobs = SimpleQueue()
            Thread(target=_run_jobs, args=(self._jobs,), name=self._name, daemon=True).start()
        self._last = job
        self._jobs.put(job)

    def end(self) -> None:
        """End the thread after the submitted jobs."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None


def _run_jobs(jobs: SimpleQueue[ThreadJob | None]) -> None:
    while (job := jobs.get()) is not None:
        outcome: Any = None
        error: BaseException | None = None
        try:
            outcome = job.do()
        except BaseException as raised:  # noqa: BLE001 - raised again where the job is awaited
            error = raised
        job.ended = True
        if job.future is None:
            if error is not None:
                _logger.error("a rollback failed", exc_info=error)
            continue
        with suppress(RuntimeError):  # the loop has ended, and the waiter with it
            job.future.get_loop().call_soon_threadsafe(_set_outcome, job.future, outcome, error)


def _set_outcome(future: asyncio.Future[Any], outcome: object, error: BaseException | None) -> None:
    if future.done():
        return  # the caller was cancelled
    if error is None:
        future.set_result(outcome)
    else:
        future.set_exception(error)
