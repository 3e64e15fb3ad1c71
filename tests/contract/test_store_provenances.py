"""What every store promises of whose word recent texts are."""

from dataclasses import replace

import pytest

from circadia.ids import MessageId
from circadia.records.bank import Trust
from circadia.records.episode import Provenance
from circadia.stores.base import Store
from tests.contract.rows import at

ROW = Provenance(
    scope="one", speaker="ann", trust=Trust.AGENT, bank="memory", messages=[], fingerprints=b"\x00\x01\xff\xfe",
    whole=2**55 + 1, expires_at=at(10),
)  # fmt: skip
PROMPT = replace(ROW, scope="two", trust=None, bank=None, messages=[MessageId("msg_1"), MessageId("msg_2")])


@pytest.mark.spec("MEM-14", "SLEEP-63")
async def test_rows_of_a_scope_are_found_in_order_until_they_expire(store: Store) -> None:
    longer = replace(ROW, speaker="bob", expires_at=at(20))
    async with store.begin_write() as tx:
        await tx.provenances.add([ROW, PROMPT])
        await tx.provenances.add([longer])
    async with store.begin_read() as tx:
        found = await tx.provenances.find_recent("one", after=0, now=at(1), limit=10)
        assert [replace(each, number=0) for each in found] == [ROW, longer]
        assert 0 < found[0].number < found[1].number
        (prompt,) = await tx.provenances.find_recent("two", after=0, now=at(1), limit=10)
        assert replace(prompt, number=0) == PROMPT
        assert await tx.provenances.find_recent("one", after=found[0].number, now=at(1), limit=10) == [found[1]]
        assert await tx.provenances.find_recent("one", after=0, now=at(1), limit=1) == [found[1]], "the newest"
        assert await tx.provenances.find_recent("one", after=0, now=at(10), limit=10) == [found[1]]
        assert await tx.provenances.find_recent("three", after=0, now=at(1), limit=10) == []
    async with store.begin_write() as tx:
        assert await tx.provenances.delete_expired(at(10), limit=1) == 1
        await tx.provenances.delete_expired(at(10), limit=9)
    async with store.begin_read() as tx:
        assert await tx.provenances.find_recent("one", after=0, now=at(1), limit=10) == [found[1]], "it is deleted"


@pytest.mark.spec("MEM-14")
async def test_what_was_said_in_a_conversation_of_a_scope_expires_later(store: Store) -> None:
    here, there = replace(ROW, conversation="talk"), replace(ROW, conversation="other", whole=1)
    elsewhere = replace(ROW, conversation="talk", scope="two")
    async with store.begin_write() as tx:
        await tx.provenances.add([here, there, elsewhere])
        await tx.provenances.renew("one", "talk", at(20))
    async with store.begin_read() as tx:
        left = await tx.provenances.find_recent("one", after=0, now=at(10), limit=10)
        assert [replace(each, number=0) for each in left] == [replace(here, expires_at=at(20))]
        assert await tx.provenances.find_recent("two", after=0, now=at(10), limit=10) == []
