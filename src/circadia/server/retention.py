"""Deletes rows after their time, oldest first, a page of each kind at a time (GATE-81)."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from circadia.clock import Clock
from circadia.records.retention import RetentionKind
from circadia.settings import Settings
from circadia.stores.base import Store

_logger = logging.getLogger(__name__)

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
        RetentionKind.USER_SUMS: of(kept.calls_days),
        RetentionKind.SUMS: of(kept.sums_days),
        RetentionKind.WAKES: of(kept.wakes_days),
        RetentionKind.PULSES: of(kept.pulses_days),
        RetentionKind.CONVERSATIONS: of(kept.conversations_days),
        RetentionKind.PROVIDER_IDS: of(kept.provider_ids_days),
        RetentionKind.ALERTS: of(kept.events_days),
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
        RetentionKind.NOTES: beside_passes(kept.memory_days),
        RetentionKind.BLOCKS: beside_passes(kept.memory_days),
    }
