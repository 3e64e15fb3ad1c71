"""Messages and wakes by Redis name all their locks at once, in whichever direction they go."""

from itertools import count, permutations

import pytest

from circadia.records.wake import WakeReason
from circadia.server.wake_wiring import build_wake_services
from circadia.settings import Settings
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.testing.clock import ManualClock
from circadia.wake.redis_bridge.delivery import InboxEntry, RedisDelivery, WakeCall
from tests.contract.rows import T0, agent, session, stored
from tests.wake.fleet import CountedIds

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
