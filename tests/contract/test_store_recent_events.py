"""Named events that both databases keep for an hour."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from circadia.ids import AgentId, NamedEventId
from circadia.records.named_event import RecentEvent
from circadia.stores.base import Store

pytestmark = pytest.mark.spec("WAKE-81")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FIRST = RecentEvent(
    id=NamedEventId("nev_2"), name="built", content='{"id":7}', key="k", sender_id=AgentId("agt_ann"), root_id="msg_1",
    parent_id="wak_1", depth=3, at=NOW,
)  # fmt: skip
PLAIN = replace(FIRST, id=NamedEventId("nev_1"), key=None, sender_id=None, root_id=None, parent_id=None, depth=0)
LATER = replace(PLAIN, id=NamedEventId("nev_0"), at=NOW + SECOND)
OTHER = replace(PLAIN, id=NamedEventId("nev_3"), name="tested")


async def test_events_are_found_by_name_in_their_order_page_by_page_and_end_with_their_time(store: Store) -> None:
    async with store.begin_write() as tx:
        for each in (LATER, FIRST, PLAIN, OTHER):
            await tx.recent_events.keep(each)
    async with store.begin_write() as tx:
        assert await tx.recent_events.find_since("built", NOW, limit=2) == [PLAIN, FIRST]
        assert await tx.recent_events.find_since("built", NOW, after=PLAIN, limit=2) == [FIRST, LATER]
        assert await tx.recent_events.find_since("built", NOW, after=LATER, limit=2) == []
        assert await tx.recent_events.find_since("built", NOW + SECOND, limit=2) == [LATER]
    async with store.begin_write() as tx:
        assert await tx.recent_events.delete_before(NOW, limit=2) == 2
        assert await tx.recent_events.delete_before(NOW, limit=2) == 1
        assert await tx.recent_events.find_since("built", NOW - SECOND, limit=9) == [LATER]
