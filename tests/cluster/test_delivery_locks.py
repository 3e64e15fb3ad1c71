"""Messages and wakes name all their locks at once, in whichever direction they go and whoever comes meanwhile."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count, permutations

import pytest

from circadia.records.wake import Decision, WakeReason
from circadia.server.wake_wiring import build_wake_services
from circadia.settings import Settings
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import LockKey
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.testing.clock import ManualClock
from circadia.wake.redis_inboxes import InboxEntry, RedisDelivery, WakeCall
from tests.contract.rows import T0, agent, session, stored
from tests.wake.fleet import FREE, LAUNCHED, CountedIds, postgres_fleet
from tests.watched_store import HookedStore

pytestmark = pytest.mark.spec("CLU-01")

PLACES = count(1)


def entry(sender: str, target: str, priority: str) -> InboxEntry:
    fields = {"from": sender, "message": "look", "priority": priority}
    return InboxEntry(agent=target, id=f"{next(PLACES)}-0", fields=fields)


def call(sender: str, target: str, message: str | None = None) -> WakeCall:
    return WakeCall(agent=target, sender=sender, message=message, reason=WakeReason.USER_REQUEST, entry_id=None)


async def test_messages_and_wakes_by_redis_take_no_lock_out_of_order(
    postgres_url: str, late_locks: dict[str, str]
) -> None:
    store, clock = await open_postgres(postgres_url), ManualClock(T0)
    await stored(store, session(), agent("ann"), agent("bob"))
    tier = build_wake_services(Settings.model_validate({}), clock, CountedIds(), EventLog(clock, LocalSignals()))
    delivery = RedisDelivery(store, tier.inbox, tier.requests, "default")
    for sender, target in permutations(("ann", "bob", "somebody outside"), 2):
        if target != "somebody outside":
            first = entry(sender, target, "high")
            assert (await delivery.deliver(first)).message.id == (await delivery.deliver(first)).message.id
            told = await delivery.wake(call(sender, target), entry(sender, target, "normal"))
            asked = await delivery.wake(call(sender, target, "wake up"), None)
            alone = await delivery.wake(call(sender, target), None)
            assert None not in (told, asked, alone)
    await store.close()
    assert not late_locks


class InterruptedStore(HookedStore):
    """A store in which something happens just before the next write block that names its keys."""

    before_block: Callable[[], Awaitable[None]] | None = None

    @asynccontextmanager
    async def begin_write(self, *keys: LockKey) -> AsyncGenerator[Tx]:
        if keys and self.before_block is not None:
            happens, self.before_block = self.before_block, None
            await happens()
        async with super().begin_write(*keys) as tx:
            yield tx


@pytest.mark.spec("WAKE-22")
async def test_senders_that_come_while_their_target_is_decided_are_told_without_a_lock_out_of_order(
    postgres_url: str, late_locks: dict[str, str]
) -> None:
    async with postgres_fleet(postgres_url, "x") as team:
        senders = [await team.agent(f"sender{number}") for number in range(8)]
        bob = await team.agent("bob", LAUNCHED, FREE)
        direct, store = team.store, InterruptedStore(team.store)
        team.store = store
        worker = team.new_worker()
        team.store = direct
        await worker.step()
        await team.sleep(bob, False)
        assert (await team.ask(senders[0], bob)).decision is Decision.DEFERRED
        await team.sleep(bob)

        async def others_come() -> None:
            await team.sleep(bob, False)
            for sender in senders[1:]:
                assert (await team.ask(sender, bob)).decision is Decision.DEFERRED
            await team.patch(bob, wake_guardrails={"max_wakes_per_day": 0})
            await team.sleep(bob)

        store.before_block = others_come
        await worker.step()
        assert store.before_block is None
        for sender in senders:
            (told,) = await team.inbox(sender)
            assert "was refused: limit reached: 0 wakes a day" in told
    assert not late_locks
