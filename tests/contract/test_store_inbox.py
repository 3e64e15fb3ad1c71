"""What every store promises of an inbox: the deliveries of an agent, as it and its senders see them."""

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from circadia.ids import MessageId, PulseId
from circadia.records.message import Delivery, DeliveryState, MessageType, Priority
from circadia.records.thread import ThreadStatus
from circadia.stores.base import Store
from circadia.stores.sql_store import SqlStore
from tests.contract.rows import agent, at, message, session, stored, thread
from tests.contract.wake_rows import wake

ANN, BOB, TALK = agent("ann"), agent("bob"), thread()
LEASED, HANDLED, UNREAD, DEAD = (
    DeliveryState.LEASED, DeliveryState.HANDLED, DeliveryState.UNREAD, DeliveryState.DEAD,
)  # fmt: skip


@pytest.fixture
async def inbox(store: Store) -> Store:
    """Seven messages from ann to bob: m0 … m6, of which m2 and m5 are urgent."""
    await stored(store, session(), ANN, BOB, TALK)
    async with store.begin_write() as tx:
        for number in range(7):
            priority = Priority.URGENT if number in (2, 5) else Priority.NORMAL
            row = replace(
                message(f"m{number}", to=TALK, sender=ANN, content=f"Text {number} 100%_a"), priority=priority
            )
            await tx.messages.add(replace(row, priority=priority), [(BOB.id, False)])
    return store


def ids(found: Sequence[Delivery]) -> list[str]:
    return [each.message.id for each in found]


def some(*names: str) -> list[MessageId]:
    return [MessageId(name) for name in names]


@pytest.mark.spec("WAKE-33", "WAKE-32")
async def test_an_inbox_is_paged_in_either_order_and_searched_whatever_the_case(inbox: Store) -> None:
    async with inbox.begin_read() as tx:
        assert ids(await tx.deliveries.fetch_inbox(BOB.id, limit=3)) == ["m0", "m1", "m2"]
        assert ids(await tx.deliveries.fetch_inbox(BOB.id, limit=3, after=MessageId("m2"))) == ["m3", "m4", "m5"]
        urgent = await tx.deliveries.fetch_inbox(BOB.id, urgent_first=True, limit=4)
        assert ids(urgent) == ["m2", "m5", "m0", "m1"]
        rest = await tx.deliveries.fetch_inbox(BOB.id, urgent_first=True, after=MessageId("m5"))
        assert ids(rest) == ["m0", "m1", "m3", "m4", "m6"]
        assert ids(await tx.deliveries.fetch_inbox(BOB.id, urgent_first=True, after=MessageId("m1"))) == [
            "m3",
            "m4",
            "m6",
        ]
        assert ids(await tx.deliveries.fetch_inbox(BOB.id, words="tEXT 3")) == ["m3"]
        assert len(await tx.deliveries.fetch_inbox(BOB.id, words="100%_A")) == 7
        assert ids(await tx.deliveries.fetch_inbox(BOB.id, words="%3")) == ["m3"]
        assert ids(await tx.deliveries.fetch_inbox(BOB.id, words="ext 3")) == []
        assert ids(await tx.deliveries.fetch_inbox(ANN.id)) == []


@pytest.mark.spec("WAKE-30", "WAKE-33", "WAKE-34")
async def test_a_delivery_moves_by_its_table_and_each_move_tells_what_moved(inbox: Store) -> None:
    async with inbox.begin_write() as tx:
        await tx.deliveries.lease_for_pulse(BOB.id, some("m1", "m0"), PulseId("p"))
    async with inbox.begin_write() as tx:
        leased = await tx.deliveries.get(BOB.id, MessageId("m0"))
        assert leased is not None
        assert leased.seen_at is None
        await tx.deliveries.mark_seen_by_pulse(BOB.id, PulseId("p"), at(1))
        assert await tx.deliveries.lease(BOB.id, some("m0"), at(9), now=at(2)) == []
        assert await tx.deliveries.mark_handled(BOB.id, some("m0", "m3"), at(3)) == ["m0", "m3"]
        assert await tx.deliveries.mark_handled(BOB.id, some("m0"), at(4)) == []
        assert await tx.deliveries.release(BOB.id, some("m0", "m1", "m2")) == ["m1"]
        assert await tx.deliveries.mark_dead(BOB.id, some("m4", "m0"), at(5)) == ["m4"]
        assert await tx.deliveries.lease(BOB.id, some("m4"), None, now=at(6)) == []
        assert await tx.deliveries.requeue(BOB.id, some("m4", "m0", "m1", "m2")) == ["m4"]
        assert await tx.deliveries.requeue(BOB.id, some("m4")) == []
        assert await tx.deliveries.mark_dead(BOB.id, some("m4"), at(6)) == ["m4"]
        await tx.deliveries.mark_seen(BOB.id, some("m0", "m5"), at(7))
    async with inbox.begin_read() as tx:
        assert await tx.deliveries.count_by_state(BOB.id) == {UNREAD: 4, LEASED: 0, HANDLED: 2, DEAD: 1}
        assert await tx.deliveries.count_unread(BOB.id) == 4
        handled = await tx.deliveries.get(BOB.id, MessageId("m0"))
        seen = await tx.deliveries.get(BOB.id, MessageId("m5"))
        assert await tx.deliveries.get(ANN.id, MessageId("m0")) is None
        sent = await tx.deliveries.find_sent(ANN.id, limit=3)
        assert ids(sent) == ["m6", "m5", "m4"]
        assert ids(await tx.deliveries.find_sent(ANN.id, before=MessageId("m1"))) == ["m0"]
    assert handled is not None
    assert (handled.state, handled.seen_at, handled.ended_at, handled.pulse_id) == (HANDLED, at(1), at(3), "p")
    assert seen is not None
    assert (seen.state, seen.seen_at, seen.ended_at) == (UNREAD, at(7), None)


@pytest.mark.spec("WAKE-30")
async def test_a_pulse_has_what_it_leased_until_that_is_snoozed_handled_or_released(inbox: Store) -> None:
    async with inbox.begin_write() as tx:
        await tx.deliveries.lease_for_pulse(BOB.id, some("m0", "m1", "m2", "m3", "m4"), PulseId("p"))
        assert set(await tx.deliveries.find_leased_by_pulse(PulseId("p"))) == {"m0", "m1", "m2", "m3", "m4"}
        await tx.deliveries.mark_handled(BOB.id, some("m0"), at(2))
        await tx.deliveries.release(BOB.id, some("m1", "m2"))
        await tx.deliveries.lease(BOB.id, some("m2"), at(60), now=at(2))
        assert set(await tx.deliveries.find_leased_by_pulse(PulseId("p"))) == {"m3", "m4"}
        assert list(await tx.deliveries.release_expired(at(59))) == []
        assert list(await tx.deliveries.release_expired(at(60))) == [BOB.id]
        assert set(await tx.deliveries.find_leased_by_pulse(PulseId("p"))) == {"m3", "m4"}
        await tx.deliveries.release(BOB.id, some("m4"))
        await tx.deliveries.mark_handled_by_pulse(BOB.id, PulseId("p"), at(61))
    async with inbox.begin_read() as tx:
        deliveries = await tx.deliveries.fetch_inbox(BOB.id, states=[HANDLED])
    assert [(each.message.id, each.ended_at) for each in deliveries] == [("m0", at(2)), ("m3", at(61))]


@pytest.mark.spec("WAKE-03", "WAKE-34", "WAKE-60")
async def test_a_message_keeps_its_key_its_chain_and_what_it_answers(inbox: Store) -> None:
    full = replace(
        message("m9", to=TALK, sender=ANN), type=MessageType.UNBLOCK, priority=Priority.HIGH, reply_to=MessageId("m0"),
        key="ann k", root_id="root", parent_id="w1", depth=2,
    )  # fmt: skip
    async with inbox.begin_write() as tx:
        await tx.messages.add(full, [(BOB.id, False)])
    async with inbox.begin_read() as tx:
        (full,) = [replace(full, number=each.number) for each in await tx.messages.find_by_root("root")]
        assert await tx.messages.get(full.id) == full
        assert await tx.messages.get_by_key("ann k") == full
        assert await tx.messages.get_by_key("bob k") is None
        assert await tx.messages.find_by_root("root") == [full]


@pytest.mark.spec("WAKE-30")
async def test_what_was_on_its_way_to_callers_can_be_freed_without_what_is_snoozed_or_in_a_prompt(inbox: Store) -> None:
    async with inbox.begin_write() as tx:
        await tx.deliveries.lease(BOB.id, some("m0"), at(60), now=at(1))
        await tx.deliveries.lease(BOB.id, some("m1"), at(30), now=at(1), snoozed=True)
        await tx.deliveries.lease_for_pulse(BOB.id, some("m2"), PulseId("p"))
        assert list(await tx.deliveries.end_waits()) == [BOB.id]
        assert list(await tx.deliveries.end_waits()) == []
    async with inbox.begin_read() as tx:
        assert ids(await tx.deliveries.fetch_inbox(BOB.id, states=[LEASED])) == ["m1", "m2"]
    async with inbox.begin_write() as tx:
        assert list(await tx.deliveries.release_expired(at(30))) == [BOB.id]
        await tx.deliveries.lease(BOB.id, some("m1"), at(90), now=at(31))
        assert list(await tx.deliveries.end_waits()) == [BOB.id]  # what was snoozed once is a wait's like any other


@pytest.mark.spec("WAKE-33")
@pytest.mark.parametrize("seed", range(3))
async def test_the_counts_are_those_of_the_rows_whatever_was_moved_undone_or_retired(inbox: Store, seed: int) -> None:
    draw = random.Random(seed)
    names = some(*(f"m{number}" for number in range(7)))
    for step in range(40):
        chosen = draw.sample(names, draw.randint(1, 4))
        with suppress(KeyError):
            async with inbox.begin_write() as tx:
                match draw.choice(["lease", "handle", "release", "kill", "expire", "end", "retire", "undo"]):
                    case "lease":
                        await tx.deliveries.lease(BOB.id, chosen, at(step + 2), now=at(step))
                    case "handle":
                        await tx.deliveries.mark_handled(BOB.id, chosen[:1], at(step))
                    case "release":
                        await tx.deliveries.release(BOB.id, chosen)
                    case "kill":
                        await tx.deliveries.mark_dead(BOB.id, chosen[:1], at(step))
                    case "expire":
                        await tx.deliveries.release_expired(at(step))
                    case "end":
                        await tx.deliveries.end_waits()
                    case "retire":
                        await tx.deliveries.delete_handled(at(step), limit=1)
                    case _:
                        await tx.deliveries.mark_handled(BOB.id, names, at(step))
                        raise KeyError
        async with inbox.begin_read() as tx:
            counts = await tx.deliveries.count_by_state(BOB.id)
            assert counts == {
                state: len(await tx.deliveries.fetch_inbox(BOB.id, states=[state])) for state in DeliveryState
            }, f"seed {seed}, step {step}"  # fmt: skip
            assert await tx.deliveries.count_unread(BOB.id) == counts[UNREAD]


@pytest.mark.spec("WAKE-33")
async def test_only_handled_deliveries_are_retired_the_oldest_first_and_only_after_their_time(inbox: Store) -> None:
    async with inbox.begin_write() as tx:
        for number in (3, 1, 2):
            await tx.deliveries.mark_handled(BOB.id, some(f"m{number}"), at(number))
        await tx.deliveries.lease(BOB.id, some("m4"), at(9), now=at(0))
        await tx.deliveries.mark_dead(BOB.id, some("m5"), at(0))
        assert await tx.deliveries.delete_handled(at(1), limit=10) == 0
        assert await tx.deliveries.delete_handled(at(9), limit=1) == 1
        assert ids(await tx.deliveries.fetch_inbox(BOB.id, states=[HANDLED])) == ["m2", "m3"]
        assert await tx.deliveries.delete_handled(at(3), limit=10) == 1
        assert await tx.deliveries.delete_handled(at(9), limit=10) == 1
        assert await tx.deliveries.delete_handled(at(9), limit=10) == 0
    async with inbox.begin_read() as tx:
        assert ids(await tx.deliveries.fetch_inbox(BOB.id, states=tuple(DeliveryState))) == ["m0", "m4", "m5", "m6"]
        assert await tx.messages.get(MessageId("m1")) is not None, "what was said in a thread stays"


@pytest.mark.spec("WAKE-33")
async def test_a_direct_message_goes_with_its_delivery_once_no_wake_and_no_answer_refers_to_it(store: Store) -> None:
    direct = replace(thread("direct"), status=ThreadStatus.DIRECT)
    await stored(store, session(), ANN, BOB, direct)
    answers = {"asked": None, "answered": "asked", "again": "answered", "woke": None, "plain": None}
    async with store.begin_write() as tx:
        for name, answer in answers.items():
            row = message(name, to=direct, sender=ANN)
            await tx.messages.add(replace(row, reply_to=answer and MessageId(answer)), [(BOB.id, False)])
        await tx.wakes.add(wake("w1", BOB, message_id=MessageId("woke")))
        await tx.messages.index_next(limit=10)
        await tx.deliveries.mark_handled(BOB.id, some("asked", "answered", "woke", "plain"), at(1))

    async def left() -> list[str]:
        async with store.begin_read() as tx:
            return [name for name in answers if await tx.messages.get(MessageId(name)) is not None]

    async with store.begin_write() as tx:
        assert await tx.deliveries.delete_handled(at(2), limit=10) == 4
    assert await left() == ["asked", "answered", "again", "woke"]
    async with store.begin_write() as tx:
        await tx.deliveries.mark_handled(BOB.id, some("again"), at(1))
        assert await tx.deliveries.delete_handled(at(2), limit=10) == 1
    assert await left() == ["woke"]
    async with store.begin_read() as tx:
        assert await tx.deliveries.count_by_state(BOB.id) == dict.fromkeys(DeliveryState, 0)


@pytest.mark.spec("WAKE-30")
async def test_what_nobody_has_handled_is_listed_over_all_agents_newest_first(inbox: Store) -> None:
    async with inbox.begin_write() as tx:
        await tx.messages.add(message("m7", to=TALK, sender=ANN), [(BOB.id, False), (ANN.id, False)])
        await tx.deliveries.mark_dead(BOB.id, some("m2", "m7"), at(1))
        await tx.deliveries.mark_dead(ANN.id, some("m7"), at(1))
        await tx.deliveries.mark_handled(BOB.id, some("m5"), at(1))
        await tx.deliveries.lease(BOB.id, some("m6"), at(9), now=at(1))
    async with inbox.begin_read() as tx:
        dead = await tx.deliveries.find_unhandled([DEAD], limit=9)
        assert [(each.message.id, each.agent_id) for each in dead] == [
            ("m7", ANN.id), ("m7", BOB.id), ("m2", BOB.id)
        ]  # fmt: skip
        assert ids(await tx.deliveries.find_unhandled([DEAD], before=MessageId("m7"), limit=9)) == ["m2"]
        assert ids(await tx.deliveries.find_unhandled([UNREAD, LEASED], limit=3)) == ["m6", "m4", "m3"]
        assert {each.agent_id for each in await tx.deliveries.find_by_message(MessageId("m7"))} == {ANN.id, BOB.id}


async def copy_messages(store: Store, count: int) -> None:
    """Copy the only message that often by SQL; one in a thousand is dead, and all others are handled."""
    assert isinstance(store, SqlStore)
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
    statements = (
        "INSERT INTO messages (id, thread_id, session_id, sender, content, mentions, at) "
        f"{numbers} SELECT 'copy' || i, thread_id, session_id, sender, content, mentions, at FROM n, messages",
        "INSERT INTO deliveries (agent_id, message_id, number, state, mentioned) "
        "SELECT d.agent_id, m.id, m.number, CASE WHEN m.number % 1000 = 0 THEN 'dead' ELSE 'handled' END, d.mentioned "
        "FROM messages m, deliveries d WHERE m.id LIKE 'copy%'",
    )
    async with store.writer.begin(()) as block:
        for statement in statements:
            await block.run(lambda connection, text=statement: connection.exec_driver_sql(text))
