"""What every store promises of messages and their deliveries."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from circadia.errors import Conflict, InvalidRequest
from circadia.ids import AgentId, MessageId
from circadia.records.message import Delivery, DeliveryState
from circadia.stores.base import Store
from tests.contract.rows import agent, at, event, message, session, stored, tags, thread

ADA, EVE = agent("ada"), agent("eve")
PLAN, WORK = thread("plan"), thread("work")


@pytest.fixture
async def team(store: Store) -> Store:
    """A store with two agents and two threads."""
    await stored(store, session(), ADA, EVE, PLAN, WORK)
    return store


async def sent(store: Store, *keys: str) -> list[MessageId]:
    """Send messages from eve to ada."""
    async with store.begin_write() as tx:
        for key in keys:
            await tx.messages.add(message(key, to=PLAN, sender=EVE), [(ADA.id, False)])
    return [MessageId(key) for key in keys]


async def unread(store: Store) -> list[str]:
    async with store.begin_read() as tx:
        return ids(await tx.deliveries.find_unread(ADA.id))


def ids(deliveries: Sequence[Delivery]) -> list[str]:
    return [delivery.message.id for delivery in deliveries]


async def test_a_message_comes_back_as_it_was_stored_with_a_number(team: Store) -> None:
    one = replace(message("m1", to=PLAN, sender=ADA, content="“½” 👋\n"), mentions=("eve", "other:bob"))
    two = message("m2", to=PLAN)
    async with team.begin_write() as tx:
        await tx.messages.add(one, [])
        await tx.messages.add(two, [])
    async with team.begin_read() as tx:
        first, second = await tx.messages.find_by_thread(PLAN.id)
        assert 0 < first.number < second.number
        assert [first, second] == [replace(one, number=first.number), replace(two, number=second.number)]
        assert await tx.messages.find_by_thread(PLAN.id, after=first.number) == [second]
        assert await tx.messages.find_by_thread(PLAN.id, limit=1) == [first]
        assert await tx.messages.find_by_thread(WORK.id) == []
        assert await tx.messages.find_latest(PLAN.id, limit=1) == [second]
        assert await tx.messages.find_latest(PLAN.id, limit=9) == [first, second]
        assert await tx.messages.find_latest(WORK.id, limit=9) == []


async def test_a_text_that_cannot_be_stored_is_the_callers_mistake(team: Store) -> None:
    with pytest.raises(InvalidRequest):
        async with team.begin_write() as tx:
            await tx.messages.add(message("m1", to=PLAN, content="half \ud800"), [])
    await sent(team, "m2")
    assert await unread(team) == ["m2"]


async def test_a_text_with_a_null_character_is_kept_whole_or_refused(team: Store) -> None:
    text = "before\x00after"
    try:
        async with team.begin_write() as tx:
            await tx.messages.add(message("m1", to=PLAN, content=text), [])
    except InvalidRequest:
        return
    async with team.begin_read() as tx:
        assert [row.content for row in await tx.messages.find_by_thread(PLAN.id)] == [text]


async def test_what_is_told_of_a_text_that_cannot_be_stored_does_not_hold_it(team: Store) -> None:
    with pytest.raises(InvalidRequest) as caught:
        async with team.begin_write() as tx:
            await tx.messages.add(message("m1", to=PLAN, content="my password \ud800"), [])
    assert "password" not in str(caught.value)


async def test_a_message_is_stored_once(team: Store) -> None:
    await sent(team, "m1")
    with pytest.raises(Conflict) as caught:
        await sent(team, "m1")
    assert "m1" not in str(caught.value)
    assert await unread(team) == ["m1"]


@pytest.mark.spec("GATE-71")
async def test_unread_deliveries_come_in_order_and_by_filter(team: Store) -> None:
    async with team.begin_write() as tx:
        await tx.messages.add(message("m1", to=PLAN, sender=EVE), [(ADA.id, True)])
        await tx.messages.add(message("m2", to=WORK, sender=EVE), [(ADA.id, False)])
        await tx.messages.add(message("m3", to=PLAN), [(ADA.id, False), (EVE.id, True)])
    async with team.begin_read() as tx:
        found = await tx.deliveries.find_unread(ADA.id)
        first = await tx.messages.get(MessageId("m1"))
        assert first is not None
        assert found[0] == Delivery(
            message=first, agent_id=ADA.id, thread="plan", state=DeliveryState.UNREAD, mentioned=True
        )
        assert ids(found) == ["m1", "m2", "m3"]
        assert ids(await tx.deliveries.find_unread(EVE.id)) == ["m3"]
        assert ids(await tx.deliveries.find_unread(ADA.id, mentioned=True)) == ["m1"]
        assert ids(await tx.deliveries.find_unread(ADA.id, mentioned=False)) == ["m2", "m3"]
        assert ids(await tx.deliveries.find_unread(ADA.id, sender="operator")) == ["m3"]
        assert ids(await tx.deliveries.find_unread(ADA.id, mentioned=False, sender="eve")) == ["m2"]
        assert await tx.deliveries.count_unread(ADA.id) == 3
        assert await tx.deliveries.count_unread(agent("nobody").id) == 0


@pytest.mark.spec("WAKE-88")
async def test_mentions_that_found_their_agent_awake_are_missed_until_they_are_noticed(team: Store) -> None:
    async with team.begin_write() as tx:
        for key, missed in (("m1", (ADA.id,)), ("m2", (EVE.id,)), ("m3", (ADA.id, EVE.id))):
            await tx.messages.add(message(key, to=PLAN), [(ADA.id, True), (EVE.id, True)], missed=missed)
        await tx.deliveries.mark_noticed(ADA.id, [MessageId("m1"), MessageId("m2")])
    async with team.begin_read() as tx:
        found = await tx.deliveries.find_unread(ADA.id, mentioned=True, newest=True)
        assert [(each.message.id, each.missed) for each in found] == [("m3", True), ("m2", False), ("m1", False)]
        assert [each.missed for each in await tx.deliveries.find_unread(EVE.id)] == [False, True, True]


async def test_who_has_unread_messages_is_told_with_their_number_and_the_newest(team: Store) -> None:
    first, second = await sent(team, "m1", "m2")
    async with team.begin_write() as tx:
        agents = [ADA.id, EVE.id, AgentId("agt_none")]
        assert await tx.deliveries.count_unread_by_agent([]) == {}
        before = await tx.deliveries.count_unread_by_agent(agents)
        assert before[ADA.id][0] == 2
        await tx.deliveries.mark_handled(ADA.id, [second], at(5))
        after = await tx.deliveries.count_unread_by_agent(agents)
        assert after[ADA.id][0] == 1
        assert after[ADA.id][1] < before[ADA.id][1]
        await tx.deliveries.lease(ADA.id, [first], at(10), now=at(5))
        assert ADA.id not in await tx.deliveries.count_unread_by_agent(agents)


@pytest.mark.spec("GATE-71")
async def test_a_lease_takes_what_is_unread_and_gives_it_to_one(team: Store) -> None:
    first, second, third = await sent(team, "m1", "m2", "m3")
    async with team.begin_write() as tx:
        assert await tx.deliveries.lease(ADA.id, [second, first], at(10), now=at(5)) == [second, first]
        assert await tx.deliveries.lease(ADA.id, [first, third, MessageId("none")], at(10), now=at(5)) == [third]
        assert await tx.deliveries.lease(ADA.id, [], at(10), now=at(5)) == []
        assert await tx.deliveries.lease(EVE.id, [first], at(10), now=at(5)) == []
        assert await tx.deliveries.count_unread(ADA.id) == 0


@pytest.mark.spec("GATE-71")
async def test_what_is_handled_stays_handled(team: Store) -> None:
    leased, plain = await sent(team, "m1", "m2")
    async with team.begin_write() as tx:
        await tx.deliveries.lease(ADA.id, [leased], at(10), now=at(5))
        await tx.deliveries.mark_handled(ADA.id, [leased, plain], at(5))
        await tx.deliveries.mark_handled(ADA.id, [], at(5))
        await tx.deliveries.release(ADA.id, [leased, plain])
        assert await tx.deliveries.lease(ADA.id, [leased, plain], at(10), now=at(5)) == []
        assert await tx.deliveries.release_expired(at(99)) == set()
        assert await tx.deliveries.find_unread(ADA.id) == []


@pytest.mark.spec("GATE-47", "GATE-71")
async def test_a_lease_that_is_given_back_is_unread_in_its_old_place(team: Store) -> None:
    first, second = await sent(team, "m1", "m2")
    async with team.begin_write() as tx:
        await tx.deliveries.lease(ADA.id, [first, second], at(10), now=at(5))
        await tx.deliveries.release(EVE.id, [first])
        assert await tx.deliveries.find_unread(ADA.id) == []
        await tx.deliveries.release(ADA.id, [second])
        await tx.deliveries.release(ADA.id, [first])
    assert await unread(team) == ["m1", "m2"]


@pytest.mark.spec("GATE-71")
async def test_a_lease_that_ran_out_falls_back_to_unread(team: Store) -> None:
    first, second = await sent(team, "m1", "m2")
    async with team.begin_write() as tx:
        await tx.deliveries.lease(ADA.id, [first], at(10), now=at(5))
        await tx.deliveries.lease(ADA.id, [second], at(20), now=at(5))
        assert await tx.deliveries.release_expired(at(9.999999)) == set()
        assert await tx.deliveries.release_expired(at(10)) == {ADA.id}
        assert await tx.deliveries.release_expired(at(10)) == set()
    assert await unread(team) == ["m1"]


@pytest.mark.parametrize(("messages", "readers"), [(2, 1), (3, 4), (9, 1), (1, 9), (9, 9), (2, 0)])
async def test_messages_of_one_block_keep_their_order_whatever_their_number(
    team: Store, messages: int, readers: int
) -> None:
    others = [agent(f"reader-{number}") for number in range(readers)]
    await stored(team, *others)
    names = [f"m{number}" for number in range(messages)]
    async with team.begin_write() as tx:
        await tx.events.add([event("before")])
        for name in names:
            await tx.messages.add(message(name, to=PLAN, sender=EVE), [(each.id, False) for each in others])
        await tx.events.add([event("after")])
    async with team.begin_read() as tx:
        rows = await tx.messages.find_by_thread(PLAN.id)
        assert [row.id for row in rows] == names
        for each in others:
            assert [delivery.message for delivery in await tx.deliveries.fetch_inbox(each.id)] == rows
    assert await tags(team) == ["before", "after"]


async def test_a_block_touches_several_sessions(team: Store) -> None:
    await stored(team, session("second"), session("third"))
    async with team.begin_write() as tx:
        homes = {home.name: home for home in await tx.sessions.find_all()}
        for seconds, name in enumerate(("default", "second", "default"), start=7):
            await tx.sessions.touch(homes[name].id, at(seconds))
        await tx.events.add([event("touched")])
    await team.save_touches()
    async with team.begin_read() as tx:
        touched = {home.name: home.touched_at for home in await tx.sessions.find_all()}
    assert touched == {"default": at(9), "second": at(8), "third": at(0)}
    assert await tags(team) == ["touched"]
