"""Periodic sweeps: expired leases, stalled sessions, indexing, and the deletion of rows after their time (GATE-81)."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from circadia.agents.approvals import ApprovalService
from circadia.agents.sessions import SessionService
from circadia.agents.waits import Waits
from circadia.clock import Clock
from circadia.gateway.accounting.write_behind import NAME_PREFIX
from circadia.jobs.loops import DueWatch, run_guarded
from circadia.memory.forgetting import find_old_episodes, forget_by_rule, forget_old_episodes
from circadia.records.episode import RESTORABLE
from circadia.records.retention import RetentionKind
from circadia.settings import Settings
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.locks import SPANS_KEY
from circadia.wake.named_events import MAX_SINCE_SECONDS

_logger = logging.getLogger(__name__)

STALLS_SECONDS = 5.0
INDEXED_AT_ONCE = 50
"""Messages per indexing transaction, so that nobody waits for it."""
INDEXING_SECONDS = 0.5
SUMMED_AT_ONCE = 5_000
"""Spans per transaction, so that nobody waits for it."""
LONGEST_SUMS = timedelta(days=366)
"""How far back sums begin if events are kept forever."""
RETIRED_AT_ONCE = 500
EXPIRE_EVERY_SECONDS = 60.0
RETIRE_EVERY_SECONDS = 3600.0
"""From the begin of one look to the next: what comes due while a look lasts waits no longer than that."""
ABANDONED_AFTER = timedelta(days=90)
"""Age of a killed process's backlog whose cursor is deleted."""
EXPIRED_AT_ONCE = 1_000
BANKS_AT_ONCE = 100
"""Banks whose oldest episodes one sweep looks at."""
FORGOTTEN_AT_ONCE = 200
"""Episodes of a bank deleted per sweep, in one transaction; each takes its notes and parts of blocks with it."""


class Sweeps:
    def __init__(
        self, clock: Clock, store: Store, events: EventLog, waits: Waits, sessions: SessionService,
        approvals: ApprovalService, settings: Settings,
        leads: Callable[[], bool] = lambda: True,
        due: DueWatch | None = None,
    ) -> None:  # fmt: skip
        """`leads` tells whether this process does the sweeps that one at a time does."""
        days = settings.limits.keep_handled_days
        self._clock = clock
        self._store = store
        self._events = events
        self._waits = waits
        self._sessions = sessions
        self._approvals = approvals
        self._leads = leads
        self._due = due or DueWatch(clock, store)
        self._stalls_at = 0.0
        self._stall_seconds = settings.defaults.stall_seconds
        self._kept = None if days is None else timedelta(days=days)
        events_days = settings.retention.events_days
        self._sums_kept = LONGEST_SUMS if events_days is None else timedelta(days=events_days)
        self._retire_at = self._forget_at = self._expire_at = 0.0
        self._forget_after = ""
        self._leading = (
            self._release_leases, self._report_stalls, self._index_messages, self._sum_spans, self._retire_deliveries,
            RetentionSweep(clock, store, settings).sweep, self._forget_episodes,
            self._forget_expired_episodes, self._expire_leftovers,
        )  # fmt: skip

    async def run(self) -> None:
        """Sweep until cancelled; log a failing sweep and try it again."""
        while True:
            await self._due.wait_for_tick()
            for sweep in (self._store.save_touches, *(self._leading if self._leads() else ())):
                await run_guarded("a sweep", sweep)

    async def _release_leases(self) -> None:
        if (await self._due.look()).leases:
            await self._waits.sweep()

    async def _report_stalls(self) -> None:
        now = self._clock.monotonic()
        if now < self._stalls_at:
            return
        self._stalls_at = now + STALLS_SECONDS
        before = self._clock.now() - timedelta(seconds=self._stall_seconds)
        async with self._store.begin_single_read() as tx:
            if not await tx.sessions.find_silent_since(before):
                return
        async with self._store.begin_write() as tx:
            for name in await self._sessions.report_stalls(tx, self._stall_seconds):
                _logger.warning("session %r has stalled: all its agents sleep, and nobody acts", name)

    async def _index_messages(self) -> None:
        if not (await self._due.look()).messages:
            return
        until = self._clock.monotonic() + INDEXING_SECONDS
        done = INDEXED_AT_ONCE
        while done == INDEXED_AT_ONCE and self._clock.monotonic() < until:
            async with self._store.begin_write() as tx:
                done = await tx.messages.index_next(limit=INDEXED_AT_ONCE)

    async def _sum_spans(self) -> None:
        """Add ended spans to the sums of their quarters of an hour (UI-15)."""
        done = SUMMED_AT_ONCE if (await self._due.look()).spans else 0
        while done == SUMMED_AT_ONCE:
            async with self._store.begin_write(SPANS_KEY) as tx:
                kept = self._clock.now() - self._sums_kept
                done = await tx.spans.sum_up(limit=SUMMED_AT_ONCE, not_before=kept)

    async def _retire_deliveries(self) -> None:
        """Delete old handled deliveries: a batch each second until none is left, then hourly (WAKE-33)."""
        began = self._clock.monotonic()
        if self._kept is None or began < self._retire_at:
            return
        async with self._store.begin_write() as tx:
            retired = await tx.deliveries.delete_handled(self._clock.now() - self._kept, limit=RETIRED_AT_ONCE)
        if retired < RETIRED_AT_ONCE:
            self._retire_at = began + RETIRE_EVERY_SECONDS
        if retired:
            _logger.info("%d deliveries were handled %d days ago and are deleted", retired, self._kept.days)

    async def _forget_episodes(self) -> None:
        """Delete episodes that their bank no longer keeps: a page of each of some banks (MEM-03).

        The next sweep goes on with these banks, or with the next ones; after all banks, the sweep rests for an hour.
        """
        began, now = self._clock.monotonic(), self._clock.now()
        if began < self._forget_at:
            return
        async with self._store.begin_read() as tx:
            page = await tx.banks.find_all(expiring=True, after=self._forget_after, limit=BANKS_AT_ONCE)
            banks = [bank for bank in page if await find_old_episodes(tx, bank, now, limit=1)]
        more = False
        for bank in banks:
            async with self._store.begin_write() as tx:
                deleted = await forget_old_episodes(tx, self._events, bank, now, limit=FORGOTTEN_AT_ONCE)
            more |= deleted.episodes == FORGOTTEN_AT_ONCE
            _logger.info("%d episodes of bank %r are older than it keeps and are deleted", deleted.episodes, bank.name)
        if not more:
            is_last = len(page) < BANKS_AT_ONCE
            self._forget_after = "" if is_last else page[-1].name
            self._forget_at = began + RETIRE_EVERY_SECONDS if is_last else 0.0

    async def _forget_expired_episodes(self) -> None:
        """Delete episodes whose time has passed, some of all banks at each tick (MEM-40)."""
        if not (await self._due.look()).expired:
            return
        async with self._store.begin_read() as tx:
            expired = await tx.episodes.find_expired(self._clock.now(), limit=FORGOTTEN_AT_ONCE)
        for bank_id, ids in expired.items():
            async with self._store.begin_write() as tx:
                bank = await tx.banks.get(bank_id)
                deleted = None if bank is None else await forget_by_rule(tx, self._events, bank, ids)
            if bank is not None and deleted is not None:
                _logger.info("%d episodes of bank %r have expired and are deleted", deleted.episodes, bank.name)

    async def _expire_leftovers(self) -> None:
        """Delete or end what calls and processes have left behind."""
        now = self._clock.monotonic()
        if now < self._expire_at:
            return
        await self._approvals.expire_due(self._store)
        abandoned_at = (self._clock.now() - ABANDONED_AFTER).timestamp() * 1000
        first, last = (f"{NAME_PREFIX}_{int(at):012x}" for at in (0, abandoned_at))
        async with self._store.begin_write() as tx:
            expired = await tx.provenances.delete_expired(self._clock.now(), limit=EXPIRED_AT_ONCE)
            await tx.hold_places.delete_of_gone_members()
            await tx.cursors.retire(first, last)
            given_up = await tx.event_waits.delete_expired(self._clock.now(), limit=EXPIRED_AT_ONCE)
            kept_from = self._clock.now() - timedelta(seconds=MAX_SINCE_SECONDS)
            old = await tx.recent_events.delete_before(kept_from, limit=EXPIRED_AT_ONCE)
        if max(expired, given_up, old) < EXPIRED_AT_ONCE:
            self._expire_at = now + EXPIRE_EVERY_SECONDS


PAGE: Final = 500
"""Rows of a kind per transaction, so that nobody waits for it."""
EVERY_SECONDS: Final = 3600.0
"""From the begin of one look to the next: what comes due while a look lasts waits no longer than that."""
START_SECONDS: Final = 5.0
"""Before the first look, which would make a start slower: 0.3 s of processor time for all kinds."""
APART_SECONDS: Final = 0.2
"""Between the first looks at two kinds."""
AGAIN_SECONDS: Final = 7 * 86_400.0
"""Time between two looks at rows that were due and still needed."""
CHAIN: Final = (
    RetentionKind.DELIVERIES, RetentionKind.MESSAGES, RetentionKind.THREADS, RetentionKind.AGENTS,
    RetentionKind.SESSIONS,
)  # fmt: skip
"""Each needs rows of the next ones, which wait until none is due."""
STATISTICS_DAYS: Final = 366
"""Days for which daily figures are kept: one more than the longest window."""


@dataclass
class _Walk:
    """How far the deletion of one kind has come."""

    look_at: float = 0.0
    after: datetime | None = None
    """Older rows have been looked at."""
    again_at: float = 0.0


class RetentionSweep:
    def __init__(self, clock: Clock, store: Store, settings: Settings) -> None:
        self._clock = clock
        self._store = store
        self._ages = {what: age for what, age in list_ages(settings).items() if age is not None}
        began = clock.monotonic() + START_SECONDS
        self._walks = {what: _Walk(look_at=began + number * APART_SECONDS) for number, what in enumerate(self._ages)}

    async def sweep(self) -> None:
        """Delete a page of each kind that is due, and none of those that had nothing left within the hour."""
        may_follow = True
        for what, walk in self._walks.items():
            began = self._clock.monotonic()
            if began >= walk.look_at and (may_follow or what not in CHAIN):
                is_full = await self._delete_page(what, walk, began)
                may_follow &= not (is_full and what in CHAIN)

    async def _delete_page(self, what: RetentionKind, walk: _Walk, began: float) -> bool:
        """Delete a page, and return whether more may be due."""
        if began >= walk.again_at:
            walk.after, walk.again_at = None, began + AGAIN_SECONDS
        age = self._ages[what]
        async with self._store.begin_write() as tx:
            page = await tx.retention.delete_page(what, self._clock.now() - age, limit=PAGE, after=walk.after)
        if not page.is_full:
            walk.look_at = began + EVERY_SECONDS
        walk.after = page.last or walk.after
        if page.deleted:
            _logger.info("%d %s are older than %d days and are deleted", page.deleted, what.value, age.days)
        return page.is_full


def list_ages(settings: Settings) -> Mapping[RetentionKind, timedelta | None]:
    """Return the age at which each kind of row is deleted; None if never."""
    kept, passes = settings.retention, settings.sleeptime.keep_days

    def of(days: int | None) -> timedelta | None:
        return None if days is None else timedelta(days=days)

    def beside_passes(days: int | None) -> timedelta | None:
        return None if days is None else timedelta(days=max(days, passes))

    return {
        RetentionKind.EVENTS: of(kept.events_days),
        RetentionKind.CALLS: of(kept.calls_days),
        RetentionKind.CALL_TEXTS: of(settings.calls.text_days),
        RetentionKind.USER_SUMS: of(kept.calls_days),
        RetentionKind.SUMS: of(kept.sums_days),
        RetentionKind.WAKES: of(kept.wakes_days),
        RetentionKind.PULSES: of(kept.pulses_days),
        RetentionKind.APPROVALS: of(kept.wakes_days),
        RetentionKind.CONVERSATIONS: of(kept.conversations_days),
        RetentionKind.PROVIDER_IDS: of(kept.provider_ids_days),
        RetentionKind.ALERTS: of(kept.events_days),
        RetentionKind.HOOK_DELIVERIES: of(kept.wakes_days),
        RetentionKind.SPANS: of(kept.events_days),
        RetentionKind.SPAN_SUMS: of(kept.events_days),
        RetentionKind.ALERT_HISTORY: of(kept.events_days),
        RetentionKind.DELIVERIES: of(kept.messages_days),
        RetentionKind.MESSAGES: of(kept.messages_days),
        RetentionKind.THREADS: of(kept.messages_days),
        RetentionKind.AGENTS: of(kept.messages_days),
        RetentionKind.SESSIONS: of(kept.messages_days),
        RetentionKind.PASSES: of(passes),
        RetentionKind.SLEEP_ANSWERS: of(passes),
        RetentionKind.SLEEP_CALLS: beside_passes(kept.calls_days),
        RetentionKind.DREAM_JOBS: of(passes),
        RetentionKind.ANSWERS: of(passes),
        RetentionKind.ANSWER_USES: of(passes),
        RetentionKind.ANSWER_FRAMES: of(passes),
        RetentionKind.ANSWER_VERDICTS: of(passes),
        RetentionKind.ANSWER_DAYS: of(STATISTICS_DAYS),
        RetentionKind.BENEFITS: of(STATISTICS_DAYS),
        RetentionKind.FORGOTTEN_EPISODES: RESTORABLE,
        RetentionKind.NOTES: beside_passes(kept.memory_days),
        RetentionKind.BLOCKS: beside_passes(kept.memory_days),
    }
