"""Retention: forgets episodes that are older than their bank's `keep_days`, with what rests on them (MEM-03)."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from circadia.ids import EpisodeId
from circadia.memory.forgetting import ForgetCounts, forget
from circadia.records.bank import Bank
from circadia.records.event import Event, EventType
from circadia.stores.base import Tx


async def find_expired_episodes(tx: Tx, bank: Bank, now: datetime, *, limit: int) -> Sequence[EpisodeId]:
    """Return episodes that happened more than the bank's `keep_days` ago, so many at most; none if it keeps them."""
    days = bank.policy.keep_days
    if days is None or days >= (now - datetime.min.replace(tzinfo=UTC)).days:
        return ()
    return await tx.episodes.find_matching_ids(bank.id, until=now - timedelta(days=days), limit=limit)


async def forget_expired_episodes(tx: Tx, bank: Bank, now: datetime, *, limit: int) -> ForgetCounts:
    """Forget what is due, so many episodes at most, and tell of it with an event."""
    old = await find_expired_episodes(tx, bank, now, limit=limit)
    if not old:
        return ForgetCounts(episodes=0, notes=0, versions=0)
    gone = await forget(tx, bank, old)
    if gone.episodes:
        counts = {"episodes": gone.episodes, "notes": gone.notes, "versions": gone.versions}
        data = {"bank": bank.name, "by": "circadia", "keep_days": bank.policy.keep_days, **counts}
        await tx.events.add([Event(type=EventType.FORGOTTEN, at=now, data=data)])
    return gone
