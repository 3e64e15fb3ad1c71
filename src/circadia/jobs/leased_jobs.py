"""Jobs of one kind, as one process runs them: leases, heartbeat, recovery of dead processes, results and drain.

A claimed row belongs to its process until its lease runs out. A write with an older epoch is refused, so two processes
never both end a job.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, Generic, Protocol, TypeVar

from circadia.clock import Clock, Every, wait_for_event
from circadia.errors import Conflict, InvalidRequest, StorageUnavailable
from circadia.jobs.loops import run_guarded
from circadia.records.pulse import Pulse
from circadia.records.sleep_pass import Pass
from circadia.stores.base import Store, Tx
from circadia.stores.locks import LockKey

_logger = logging.getLogger(__name__)

LEASE_SECONDS: Final = 15.0
"""A process that does not renew its leases within this time counts as dead."""
BEAT_SECONDS: Final = LEASE_SECONDS / 3
RETRY_SECONDS: Final = 1.0
"""Pause before a result is written again after a database failure."""
MAX_FAILURES: Final = 5
"""Tries to write a result at a database that answers; one is enough if it cannot store a value."""
UNSTORABLE: Final = "its result cannot be stored; see the log"

T = TypeVar("T")
R = TypeVar("R", bound=Pulse | Pass)
R_co = TypeVar("R_co", bound=Pulse | Pass, covariant=True)


class JobRows(Protocol[R_co]):
    async def get(self, key: Any, /) -> R_co | None: ...


class LeasedRows(JobRows[R_co], Protocol[R_co]):
    """The rows of one kind of job, in a transaction."""

    async def has_startable(self, now: datetime) -> bool: ...

    async def claim(
        self, owner: str, *, now: datetime, until: datetime, limit: int, since: datetime | None = None
    ) -> Sequence[R_co]: ...

    async def find_claimed(self) -> Sequence[R_co]: ...

    async def renew_leases(self, owner: str, until: datetime) -> None: ...


async def fetch_claimed(rows: JobRows[R], row: R) -> R | None:
    """Return the present row of a pending job if a worker has only claimed it since; None if it was moved.

    A claim holds neither agent nor bank, so it may come between a read of the job and its end.
    """
    present = await rows.get(row.id)
    if present is None or present.epoch == row.epoch or not row.status.value == present.status.value == "pending":
        return None
    return present


class LeasedJobs(Generic[R]):
    """One per kind of job and process. `owner` names the process in the rows.

    `alone` means that no other process uses this database. `requeue_dead` puts back a job whose process died. `hold`
    holds all that the end of a job may change. `fail` ends a job, for a reason, whose result cannot be stored.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        rows: Callable[[Tx], LeasedRows[R]],
        requeue_dead: Callable[[Tx, R], Awaitable[None]],
        hold: Callable[[Tx, R], Awaitable[None]],
        fail: Callable[[Tx, R, str], Awaitable[R | None]],
        *,
        name: str,
        owner: str,
        alone: bool,
    ) -> None:
        self._clock = clock
        self._store = store
        self._rows = rows
        self._requeue_dead = requeue_dead
        self._hold = hold
        self._fail = fail
        self._name = name
        self._owner = owner
        self._alone = alone
        self._bell = asyncio.Event()
        self._renewals = Every(clock, BEAT_SECONDS)
        self._unanswered: datetime | None = None
        """End of the leases of the first claim whose answer was lost: the next claim takes its rows."""
        self._claimed_until: datetime | None = None
        self._seen_since: dict[tuple[str, int, datetime | None], float] = {}
        """Leases of others with their ends, so that a renewed one is new. Wall clocks may differ and play no part."""
        self.running: dict[str, asyncio.Task[None]] = {}
        self.claiming = asyncio.Lock()  # a drain waits until a job being claimed is running or put back
        self.draining = False

    def start(self, key: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.running[key] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self.running.pop(key, None))
        return task

    @property
    def has_unanswered_claim(self) -> bool:
        """Return whether jobs may be claimed of which this process does not know."""
        return self._unanswered is not None

    def ring(self) -> None:
        self._bell.set()

    async def wait_for_bell(self, seconds: float) -> None:
        """Return once `ring` is called, or after `seconds`."""
        try:
            await wait_for_event(self._clock, self._bell, seconds)
        finally:
            self._bell.clear()

    async def run_guarded(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Run `work`, log its failure, and return whether it succeeded."""
        return await run_guarded(self._name, work)

    async def claim(self, *, limit: int) -> Sequence[R]:
        """Claim up to `limit` jobs that may start; the caller starts them, or their leases run out.

        One claim at a time: hold `claiming`.
        """
        now = self._clock.now()
        # It needs no lease if it is alone: after a crash its next start takes the job at once.
        until = now if self._alone else now + timedelta(seconds=LEASE_SECONDS)
        if self._claimed_until is not None:  # a claim with an earlier end would take the rows of the last one again
            until = max(until, self._claimed_until + timedelta(microseconds=1))
        if self._alone:
            async with self._store.begin_single_read() as tx:
                if not await self._rows(tx).has_startable(now):
                    return ()
        self._unanswered = self._unanswered or until
        async with self._store.begin_write() as tx:
            claimed = await self._rows(tx).claim(
                self._owner, now=now, until=until, limit=limit, since=self._unanswered
            )  # fmt: skip
        self._unanswered, self._claimed_until = None, until
        return claimed

    async def recover(self) -> None:
        """Put back the jobs of dead processes: those whose lease was not renewed for one lease period.

        A process that is alone on the database knows that all others are dead. A job that it owns but does not run
        was claimed while the database was unreachable, so the answer got lost.
        """
        try:
            async with self._store.begin_read() as tx:
                claimed = await self._rows(tx).find_claimed()
            for row in self._find_dead(claimed):
                with suppress(Conflict):  # another process was first
                    async with self._store.begin_write() as tx:
                        await self._hold(tx, row)
                        await self._requeue_dead(tx, row)
        except StorageUnavailable:
            self.forget_leases()
            raise

    def _find_dead(self, claimed: Sequence[R]) -> Sequence[R]:
        others = [row for row in claimed if row.owner != self._owner]
        leases: dict[tuple[str, int, datetime | None], R] = {
            (row.id, row.epoch, row.lease_until): row for row in others
        }
        lost = [row for row in claimed if row.owner == self._owner and row.id not in self.running]
        return [*map(leases.__getitem__, leases if self._alone else self._find_expired(leases)), *lost]

    def forget_leases(self) -> None:
        """Watch all leases anew, after a time in which nobody could renew one, or this process did not look."""
        self._seen_since.clear()

    def _find_expired(self, seen: Iterable[tuple[str, int, datetime | None]]) -> list[tuple[str, int, datetime | None]]:
        now = self._clock.monotonic()
        self._seen_since = {key: self._seen_since.get(key, now) for key in seen}
        return [key for key, since in self._seen_since.items() if now - since >= LEASE_SECONDS]

    async def renew_leases(self) -> None:
        """Renew the leases of this process, and stop the jobs that it has lost."""
        if not self.running or not self._renewals.take():
            return
        watched = set(self.running)  # one that begins meanwhile may be claimed after the rows are read
        async with self._store.begin_write() as tx:
            await self._rows(tx).renew_leases(self._owner, self._clock.now() + timedelta(seconds=LEASE_SECONDS))
        async with self._store.begin_read() as tx:
            own = {row.id for row in await self._rows(tx).find_claimed() if row.owner == self._owner}
        for key in (watched - own) & self.running.keys():
            self.running[key].cancel("it was taken over or has ended")

    async def write_result(
        self,
        row: R,
        act: Callable[[Tx, R], Awaitable[R | None]],
        *,
        keys: Collection[LockKey] = (),
        at_once: bool = False,
    ) -> R | None:
        """Apply `act` to the current row if this attempt still owns it; retry until that is written. Return the row.

        Nobody else would: meanwhile the job counts as running. If the result cannot be stored, the job fails. At the
        end of the process (`at_once`) one try is enough, because the next process puts the job back. `keys` are those
        that `act` needs, if they are known.
        """

        async def write(act: Callable[[Tx, R], Awaitable[R | None]]) -> R | None:
            async with self._store.begin_write(*keys) as tx:
                if not keys:
                    await self._hold(tx, row)
                present = await self._rows(tx).get(row.id)
                if present is not None and present.epoch == row.epoch and present.lease_until is not None:
                    present = await act(tx, present)
            return present

        return await write_result(
            self._clock, row.id, lambda: write(act), lambda: write(lambda tx, row: self._fail(tx, row, UNSTORABLE)),
            is_last_try=lambda: at_once or self.draining,
        )  # fmt: skip

    async def drain(self, seconds: float | None = 0.0) -> None:
        """Claim nothing more, wait `seconds` for running jobs, then cancel the rest, which put themselves back.

        None waits without a limit.
        """
        self.draining = True
        async with self.claiming:
            pass
        if self.running and seconds != 0.0:
            await asyncio.wait(self.running.values(), timeout=seconds)
        for task in tuple(self.running.values()):
            task.cancel("the server is stopping")
        await asyncio.gather(*self.running.values(), return_exceptions=True)


async def write_result(
    clock: Clock,
    name: str,
    write: Callable[[], Awaitable[T]],
    fail: Callable[[], Awaitable[T]],
    *,
    is_last_try: Callable[[], bool] = lambda: False,
) -> T | None:
    """Call `write` until it succeeds; return its value, or None if it was not written.

    A database that is away is waited for. A result that cannot be stored, or fails again and again though the database
    answers, is given up by `fail`, which ends the job as failed: one that never ends would block its agent or bank.
    """
    failures, has_given_up = 0, False
    while True:
        try:
            return await write()
        except StorageUnavailable as error:
            _logger.warning("the result of %s is not written yet: %s", name, error)
        except Exception as error:
            _logger.exception("the result of %s is not written", name)
            failures += MAX_FAILURES if isinstance(error, InvalidRequest) else 1
        if is_last_try():
            return None
        if failures >= MAX_FAILURES:
            if has_given_up:
                return None
            _logger.error("the result of %s is given up; the job fails", name)
            write, failures, has_given_up = fail, 0, True
            continue
        await clock.sleep(RETRY_SECONDS)
