"""What every store promises of the search over names and ids, and of pages that begin at a name or a number."""

from dataclasses import replace

import pytest

from circadia.records.search_match import SearchKind
from circadia.stores.base import Store
from tests.contract.rows import agent, call, message, session, stored, thread

pytestmark = pytest.mark.spec("UI-20")
ADA, EVE = agent("ada"), agent("co-ada")
PLAN = thread("adagio")


@pytest.fixture
async def named(store: Store) -> Store:
    """A store with two agents, a thread and its messages, and a call."""
    await stored(store, session(), ADA, EVE, PLAN)
    async with store.begin_write() as tx:
        for number in range(4):
            await tx.messages.add(message(f"msg_{number}", to=PLAN, sender=EVE, content="x" * 500), [(ADA.id, False)])
        await tx.calls.add([replace(call("call_1", by=ADA), model="m")])
    return store


async def test_names_are_found_by_their_beginning_then_by_a_part_and_ids_by_their_beginning(named: Store) -> None:
    async with named.begin_read() as tx:
        found = await tx.names.find("ada", limit=5)
        assert [(match.kind, match.name, match.session) for match in found] == [
            (SearchKind.AGENT, "ada", "default"), (SearchKind.AGENT, "co-ada", "default"),
            (SearchKind.THREAD, "adagio", "default"),
        ]  # fmt: skip
        assert [match.name for match in await tx.names.find("ada", limit=1)] == ["ada", "adagio"]
        (one,) = await tx.names.find("msg_2", limit=5)
        assert (one.kind, one.id, len(one.about)) == (SearchKind.MESSAGE, "msg_2", 120)
        assert [match.id for match in await tx.names.find("msg_", limit=2)] == ["msg_0", "msg_1"]
        assert [(match.kind, match.about) for match in await tx.names.find("call_1", limit=5)] == [
            (SearchKind.CALL, "m")
        ]
        for nothing in ("%", "_", "\\", "ada%"):
            assert await tx.names.find(nothing, limit=5) == []


async def test_messages_are_read_back_from_a_number(named: Store) -> None:
    async with named.begin_read() as tx:
        newest = await tx.messages.find_before(PLAN.id, 2**53, limit=2)
        assert [each.id for each in newest] == ["msg_3", "msg_2"]
        older = await tx.messages.find_before(PLAN.id, newest[-1].number, limit=9)
        assert [each.id for each in older] == ["msg_1", "msg_0"]
