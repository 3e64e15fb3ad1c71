"""Contract of the places of held calls, on both stores."""

from datetime import datetime

import pytest

from circadia.ids import AgentId, MemberId
from circadia.records.member import Member, Role
from circadia.stores.base import Store
from tests.contract.rows import agent, at, session

ANN, BOB = AgentId("ann"), AgentId("bob")
ONE, TWO, DEAD = MemberId("one"), MemberId("two"), MemberId("dead")


def member(member_id: MemberId, lease_until: datetime) -> Member:
    return Member(
        id=member_id, role=Role.GATEWAY, version="1", host="h", address="a", token_check="c", started_at=at(0),
        lease_until=lease_until,
    )  # fmt: skip


@pytest.mark.spec("CLU-04")
async def test_places_of_live_members_count_and_those_of_a_dead_one_come_back_with_its_lease(store: Store) -> None:
    async with store.begin_write() as tx:
        for member_id, lease_until in ((ONE, at(20)), (TWO, at(20)), (DEAD, at(10))):
            await tx.members.put(member(member_id, lease_until))
        await tx.hold_places.put(ONE, {ANN: 1})
        await tx.hold_places.put(TWO, {ANN: 2, BOB: 3})
        await tx.hold_places.put(DEAD, {ANN: 4})
    async with store.begin_read() as tx:
        assert await tx.hold_places.sum_of_others(ONE, {ANN, BOB}, at(9)) == {ANN: 6, BOB: 3}
        assert await tx.hold_places.sum_of_others(ONE, {ANN}, at(10)) == {ANN: 2}, "the lease of one is over"
        assert await tx.hold_places.sum_of_others(TWO, {ANN, BOB}, at(10)) == {ANN: 1}
    async with store.begin_write() as tx:
        await tx.hold_places.put(TWO, {ANN: 0, BOB: 1})
    async with store.begin_read() as tx:
        assert await tx.hold_places.sum_of_others(ONE, {ANN, BOB}, at(10)) == {BOB: 1}


@pytest.mark.spec("CLU-04")
async def test_the_holds_of_other_live_members_are_listed_most_first_with_their_agents(store: Store) -> None:
    ann, bob, every = agent("ann", of="team"), agent("bob", of="team"), AgentId("")
    async with store.begin_write() as tx:
        await tx.sessions.add(session("team"))
        await tx.agents.add(ann)
        await tx.agents.add(bob)
        for member_id, lease_until in ((ONE, at(20)), (TWO, at(20)), (DEAD, at(10))):
            await tx.members.put(member(member_id, lease_until))
        await tx.hold_places.put(ONE, {ann.id: 9, every: 9})
        await tx.hold_places.put(TWO, {ann.id: 2, bob.id: 3, every: 5})
        await tx.hold_places.put(DEAD, {ann.id: 4, every: 4})

    async def find(now: datetime, limit: int = 10, **filters: str) -> tuple[list[tuple[str, str, int]], int]:
        async with store.begin_read() as tx:
            holds, total = await tx.hold_places.find_of_others(ONE, now, limit=limit, **filters)
        assert all((each.session, each.address) == ("team", "a") for each in holds)
        return [(each.agent, each.member_id, each.holds) for each in holds], total

    assert await find(at(9)) == ([("ann", DEAD, 4), ("bob", TWO, 3), ("ann", TWO, 2)], 9)
    assert await find(at(10)) == ([("bob", TWO, 3), ("ann", TWO, 2)], 5), "the lease of one is over"
    assert await find(at(10), limit=1) == ([("bob", TWO, 3)], 5)
    assert await find(at(10), agent="ann") == ([("ann", TWO, 2)], 2)
    assert await find(at(10), session="team", agent="bob") == ([("bob", TWO, 3)], 3)
    assert await find(at(10), session="other") == ([], 0)


@pytest.mark.spec("CLU-04")
async def test_places_of_members_that_are_gone_are_deleted(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.members.put(member(TWO, at(20)))
        for member_id in (TWO, DEAD):
            await tx.hold_places.put(member_id, {ANN: 1})
        await tx.hold_places.delete_of_gone_members()
        await tx.members.put(member(DEAD, at(20)))
    async with store.begin_read() as tx:
        assert await tx.hold_places.sum_of_others(ONE, {ANN}, at(1)) == {ANN: 1}
