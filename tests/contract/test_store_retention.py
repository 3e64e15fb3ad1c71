"""What every store promises of rows that were kept long enough."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from circadia.ids import AgentId, ConversationId, MessageId
from circadia.records.call import Call, CallStatus, UsageGroup
from circadia.records.pulse import PulseStatus
from circadia.records.retention import RetentionKind
from circadia.records.wake import Decision
from circadia.stores.base import Store
from tests.contract.rows import agent, at, call, conversation, event, message, number_events, session, stored, thread
from tests.contract.wake_rows import pulse, wake

DAY = 86_400.0
ADA, EVE = agent("ada"), agent("eve")


async def retired(store: Store, what: RetentionKind, before_day: float, limit: int = 500) -> int:
    async with store.begin_write() as tx:
        return (await tx.retention.delete_page(what, at(before_day * DAY), limit=limit)).deleted


async def grouped(store: Store, by: str) -> list[UsageGroup]:
    async with store.begin_read() as tx:
        return [replace(each, held_seconds=round(each.held_seconds, 6)) for each in await tx.calls.sum_by_group(by)]


@pytest.mark.spec("GATE-81", "GATE-64")
async def test_the_calls_of_a_year_become_sums_by_day_and_every_report_stays_as_it_was(store: Store) -> None:
    made: list[Call] = []
    for day in range(365):
        for number in range(6):
            one = call(f"c{day}_{number}", by=(ADA, EVE)[number % 2], seconds=day * DAY + number * 3600)
            known = {"input_tokens": 10 + number, "output_tokens": number or None, "cost_nanousd": 5 + day}
            one = replace(one, held_seconds=0.25, end_user="ann", **(known if number < 4 else {}))
            made.append(replace(one, status=CallStatus.FAILED) if number == 3 else one)
    reserved = replace(call("open", by=ADA, status=CallStatus.RESERVED), reserved_tokens=9)
    async with store.begin_write() as tx:
        await tx.calls.add([*made, reserved])
    keys = ("agent", "model", "tier", "session", "upstream", "day")
    before = {by: await grouped(store, by) for by in keys}
    for kind in (RetentionKind.CALLS, RetentionKind.USER_SUMS):
        while await retired(store, kind, 275):
            pass
    assert {by: await grouped(store, by) for by in keys} == before
    people = {each.key: each.calls for each in await grouped(store, "end_user")}
    assert people == {"ann": 90 * 6, "": 275 * 6}
    async with store.begin_read() as tx:
        latest = await tx.calls.find_latest(ADA.id, 10_000)
        assert len(latest) == 90 * 3, "sums are no calls"
        assert min(each.at for each in latest) >= at(275 * DAY)
        week = await tx.calls.sum_by_group("day", since=at(100 * DAY) - timedelta(hours=24), until=at(107 * DAY))
    assert sum(each.calls for each in week) >= 7 * 6


@pytest.mark.spec("GATE-81", "GATE-80")
async def test_old_events_go_but_the_newest_stays_and_numbers_go_on(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.events.add([replace(event(day), at=at(day * DAY)) for day in range(10)])
    await number_events(store)
    assert await retired(store, RetentionKind.EVENTS, 4, limit=3) == 3
    assert await retired(store, RetentionKind.EVENTS, 4, limit=3) == 1
    async with store.begin_read() as tx:
        assert (await tx.events.first_number(), await tx.events.last_number()) == (5, 10)
    assert await retired(store, RetentionKind.EVENTS, 1000) == 5
    async with store.begin_write() as tx:
        await tx.events.add([event("more")])
    await number_events(store)
    async with store.begin_read() as tx:
        assert [each.number for each in await tx.events.find_after(0)] == [10, 11]


@pytest.mark.spec("GATE-81")
async def test_old_wakes_and_pulses_go_once_they_are_over(store: Store) -> None:
    await stored(store, session(), ADA)
    async with store.begin_write() as tx:
        for day in range(10):
            waits: dict[str, Any] = {"decision": Decision.DEFERRED} if day == 1 else {}
            await tx.wakes.add(wake(f"w{day}", ADA, seconds=day * DAY, **waits))
            over: dict[str, Any] = {} if day == 2 else {"status": PulseStatus.SUCCEEDED, "ended_at": at(day * DAY)}
            await tx.pulses.add(pulse(f"p{day}", ADA, seconds=day * DAY, **over))
    assert (await retired(store, RetentionKind.WAKES, 5), await retired(store, RetentionKind.PULSES, 5)) == (4, 4)
    async with store.begin_read() as tx:
        assert [each.id for each in await tx.wakes.find_all(limit=100)] == ["w9", "w8", "w7", "w6", "w5", "w1"]
        assert sorted(each.id for each in await tx.pulses.find_all(limit=100)) == ["p2", "p5", "p6", "p7", "p8", "p9"]


@pytest.mark.spec("GATE-81")
async def test_old_conversations_and_owners_of_ids_go(store: Store) -> None:
    async with store.begin_write() as tx:
        await tx.conversations.add([conversation(f"v{day}", of=ADA, seconds=day * DAY) for day in range(10)])
        for day in range(10):
            await tx.provider_ids.add("openai", f"resp_{day}", ADA.id, at(day * DAY))
    assert await retired(store, RetentionKind.CONVERSATIONS, 4) == 4
    assert await retired(store, RetentionKind.PROVIDER_IDS, 6, limit=2) == 2
    assert await retired(store, RetentionKind.PROVIDER_IDS, 6) == 4
    async with store.begin_read() as tx:
        ids = [ConversationId(f"v{day}") for day in range(10)]
        assert [key for key in ids if await tx.conversations.get(ADA.id, key) is not None] == ids[4:]
        owners = [await tx.provider_ids.owner("openai", f"resp_{day}") for day in range(10)]
    assert owners == [None] * 6 + [AgentId(ADA.id)] * 4


@pytest.mark.spec("GATE-81", "WAKE-33")
async def test_old_messages_go_once_they_are_in_no_inbox_and_no_wake(store: Store) -> None:
    talk = thread()
    await stored(store, session(), ADA, EVE, talk)
    async with store.begin_write() as tx:
        for day in range(6):
            one = replace(message(f"m{day}", to=talk, sender=ADA, content=f"word{day} of all"), at=at(day * DAY))
            await tx.messages.add(one, [(EVE.id, False)] if day == 1 else [])
        await tx.wakes.add(replace(wake("w", EVE, seconds=9 * DAY), message_id=MessageId("m2")))
    assert await retired(store, RetentionKind.MESSAGES, 4) == 2
    async with store.begin_read() as tx:
        assert [each.id for each in await tx.messages.find_by_thread(talk.id, limit=100)] == ["m1", "m2", "m4", "m5"]
