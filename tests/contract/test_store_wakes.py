"""What every store promises of wake requests: the ledger that budgets are counted from."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from circadia.errors import Conflict
from circadia.ids import AgentId, MessageId, PulseId, WakeId
from circadia.records.message import Priority
from circadia.records.pulse import PulseKind, PulseStatus
from circadia.records.wake import Charge, Decision, GuardrailCheck, GuardrailCounts, WakeSource
from circadia.stores.base import Store, Tx
from tests.contract.rows import agent, at
from tests.contract.wake_rows import pulse, wake

ANN, BOB = agent("ann"), agent("bob")


async def kept(store: Store, *rows: Any) -> None:
    async with store.begin_write() as tx:
        for row in rows:
            await (tx.pulses.add(row) if hasattr(row, "epoch") else tx.wakes.add(row))


async def tally(store: Store, to: AgentId = BOB.id, *, now: datetime | None = None, **more: Any) -> GuardrailCounts:
    given: dict[str, Any] = {
        "wake_id": WakeId("new"), "sender_id": ANN.id, "sender_pulse": None, "asked_since": at(0), "root_id": "root",
        "day": at(0), "utc_day": at(0), "now": now or at(100), "fleet_open_most": 100, "fleet_wakes_most": 100, **more,
    }  # fmt: skip
    async with store.begin_read() as tx:
        return await tx.wakes.tally(to, **given)


@pytest.mark.spec("WAKE-71", "WAKE-13")
async def test_a_request_is_kept_as_it_was_given(store: Store) -> None:
    full = wake(
        "w1",
        BOB,
        by=ANN,
        seconds=1,
        source=WakeSource.THREAD,
        sender_pulse=PulseId("p0"),
        priority=Priority.HIGH,
        message_id=MessageId("m1"),
        routine="r",
        decision=Decision.DEFERRED,
        rule="busy",
        detail="wait – ünïcode",
        not_before=at(5),
        expires_at=at(9),
        charge=Charge.NONE,
        pulse_id=PulseId("p1"),
        root_id="root",
        parent_id="w0",
        depth=3,
        key="k",
        overridden_by="operator: why",
        timeout_seconds=90.5,
        trace=(
            GuardrailCheck(rule="busy", passed=False, limit=1.5, value=2, detail="x"),
            GuardrailCheck(rule="money", passed=True),
        ),
    )
    await kept(store, full)
    async with store.begin_read() as tx:
        assert await tx.wakes.get(full.id) == full
        assert await tx.wakes.get_by_key("k") == full
        assert await tx.wakes.find_by_pulse(PulseId("p1")) == [full]
        assert await tx.wakes.find_by_root("root") == [full]
        assert await tx.wakes.find_deferred(BOB.id) == [full]
        assert await tx.wakes.get(WakeId("none")) is None
        assert await tx.wakes.get_by_key("none") is None


@pytest.mark.spec("WAKE-03")
async def test_a_second_request_of_the_same_key_is_refused(store: Store) -> None:
    await kept(store, wake("w1", BOB, key="k"))
    with pytest.raises(Conflict):
        await kept(store, wake("w2", BOB, key="k"))
    await kept(store, wake("w3", BOB), wake("w4", BOB))


@pytest.mark.spec("WAKE-20")
async def test_only_a_deferred_request_is_decided_again(store: Store) -> None:
    first = wake("w1", BOB, decision=Decision.DEFERRED, charge=Charge.NONE, not_before=at(5), expires_at=at(9))
    await kept(store, first)
    admitted = replace(
        first, decision=Decision.ADMITTED, charge=Charge.RESERVED, not_before=None, decided_at=at(6),
        pulse_id=PulseId("p"), overridden_by="operator: now", trace=(GuardrailCheck(rule="busy", passed=True),),
    )  # fmt: skip
    async with store.begin_write() as tx:
        assert await tx.wakes.save(admitted)
        assert not await tx.wakes.save(replace(admitted, decision=Decision.EXPIRED))
        assert await tx.wakes.get(first.id) == admitted


@pytest.mark.spec("WAKE-21", "WAKE-25")
async def test_agents_whose_requests_are_to_be_looked_at_are_found(store: Store) -> None:
    waits: dict[str, Any] = {"decision": Decision.DEFERRED, "charge": Charge.NONE}
    await kept(
        store,
        wake("w1", ANN, not_before=at(5), rule="fleet", priority=Priority.HIGH, **waits),
        wake("w2", BOB, not_before=at(50), expires_at=at(7), rule="fleet", priority=Priority.URGENT, **waits),
        wake("w3", BOB, not_before=at(60), rule="busy", **waits),
        wake("w4", agent("cid"), not_before=at(1)),
    )
    async with store.begin_read() as tx:
        assert await found(tx, at(4.9)) == []
        assert await found(tx, at(5)) == [ANN.id]
        assert await found(tx, at(7)) == [BOB.id, ANN.id]
        assert await found(tx, at(0), of=None) == [BOB.id, ANN.id]
        assert await found(tx, at(0), of=[ANN.id, agent("cid").id]) == [ANN.id]
        assert await found(tx, at(0), of=[AgentId(f"x{number}") for number in range(40_000)] + [BOB.id]) != []
        assert await found(tx, at(0), rule="fleet") == [BOB.id, ANN.id]
        assert await found(tx, at(0), rule="fleet", limit=1) == [BOB.id]
        assert await found(tx, at(0), rule="money") == []
        assert [await tx.wakes.has_deferred_by(rule) for rule in ("fleet", "busy", "money")] == [True, True, False]


async def found(tx: Tx, now: datetime, **more: Any) -> list[AgentId]:
    return [each.agent_id for each in await tx.wakes.find_due_agents(now, ageing_seconds=10, **more)]


@pytest.mark.spec("WAKE-25")
async def test_the_most_pressing_agents_come_first_and_waiting_makes_each_more_pressing(store: Store) -> None:
    waits: dict[str, Any] = {"decision": Decision.DEFERRED, "charge": Charge.NONE}
    await kept(
        store,
        wake("w1", ANN, seconds=0, priority=Priority.NORMAL, **waits),
        wake("w2", ANN, seconds=9, priority=Priority.LOW, **waits),
        wake("w3", BOB, seconds=11, priority=Priority.HIGH, **waits),
        wake("w4", agent("cid"), seconds=30, priority=Priority.URGENT, **waits),
        wake("w5", agent("dan"), seconds=500, priority=Priority.URGENT, **waits),  # before the clock was set back
    )
    ranks = {each: each.rank for each in Priority}
    assert ranks[Priority.URGENT] - ranks[Priority.NORMAL] == 2, "the numbers below rest on it"
    async with store.begin_read() as tx:
        assert await found(tx, at(12), of=None) == [agent("cid").id, agent("dan").id, ANN.id, BOB.id]
        assert await found(tx, at(29), of=None) == [ANN.id, BOB.id, agent("cid").id, agent("dan").id]
        (first, *_) = await tx.wakes.find_due_agents(at(29), ageing_seconds=10, of=None, limit=1)
        assert (first.pressing, first.since) == (ranks[Priority.NORMAL] + 2, at(0))


@pytest.mark.spec("WAKE-13", "WAKE-14")
async def test_what_is_reserved_or_charged_counts_from_the_start_of_the_day_to_its_release(store: Store) -> None:
    await kept(
        store,
        wake("w1", BOB, by=ANN, seconds=-0.000001, pulse_id=PulseId("p1")),
        wake("w2", BOB, by=ANN, seconds=0, pulse_id=PulseId("p2"), root_id="root"),
        wake("w3", BOB, seconds=1, charge=Charge.CHARGED),
        wake("w4", ANN, by=BOB, seconds=2, pulse_id=PulseId("p4")),
        wake("w5", BOB, by=ANN, seconds=3, charge=Charge.NONE, decision=Decision.REFUSED),
        wake("w6", BOB, by=ANN, seconds=4, charge=Charge.RELEASED),
    )
    counts = await tally(store)
    assert (counts.wakes_today, counts.by_sender_today, counts.of_sender_today) == (2, 1, 1)
    assert (counts.last_wake_at, counts.visits, counts.fleet_wakes_today) == (at(1), 1, 3)
    assert [(await tally(store, fleet_wakes_most=most)).fleet_wakes_today for most in (0, 2, 9)] == [0, 2, 3]
    async with store.begin_write() as tx:
        await tx.wakes.charge_reserved(PulseId("p2"))
        assert await tx.wakes.release_reserved(PulseId("p2")) == 0, "it is charged"
    assert (await tally(store)).wakes_today == 2
    async with store.begin_write() as tx:
        assert await tx.wakes.release_reserved(PulseId("p4")) == 1
    counts = await tally(store)
    assert (counts.wakes_today, counts.of_sender_today, counts.fleet_wakes_today) == (2, 0, 2)
    assert (await tally(store, sender_id=None)).by_sender_today == 0


@pytest.mark.spec("WAKE-10", "WAKE-13")
async def test_what_a_sender_asked_for_counts_in_its_pulse_or_time_awake(store: Store) -> None:
    one, two = PulseId("p1"), PulseId("p2")
    await kept(
        store,
        wake("w1", BOB, by=ANN, seconds=1, sender_pulse=one),
        wake("w2", BOB, by=ANN, seconds=2, sender_pulse=one, decision=Decision.DEFERRED, charge=Charge.NONE),
        wake("w3", BOB, by=ANN, seconds=3, sender_pulse=one, decision=Decision.EXPIRED, charge=Charge.NONE),
        wake("w4", BOB, by=ANN, seconds=4, sender_pulse=one, decision=Decision.REFUSED, charge=Charge.NONE),
        wake("w5", BOB, by=ANN, seconds=5, sender_pulse=one, decision=Decision.COALESCED, charge=Charge.NONE),
        wake("w6", BOB, by=ANN, seconds=6, sender_pulse=two),
        wake("w7", BOB, by=BOB, seconds=7, sender_pulse=one),
    )
    assert (await tally(store, sender_pulse=one)).asked_in_session == 3
    assert (await tally(store, sender_pulse=one, wake_id=WakeId("w2"))).asked_in_session == 2
    assert (await tally(store, sender_pulse=two)).asked_in_session == 1
    assert (await tally(store)).asked_in_session == 4
    assert (await tally(store, asked_most=2)).asked_in_session == 2
    assert (await tally(store, asked_most=0)).asked_in_session == 0
    assert (await tally(store, asked_since=at(3))).asked_in_session == 2


@pytest.mark.spec("WAKE-10", "WAKE-17", "WAKE-53")
async def test_pulses_are_counted_by_where_they_stand_and_how_long_they_have_run_today(store: Store) -> None:
    started: dict[str, Any] = {"started_at": at(10), "prompted_at": at(9)}
    ended: dict[str, Any] = {**started, "status": PulseStatus.FAILED}
    await kept(
        store,
        pulse("p1", BOB),
        pulse("p2", BOB, status=PulseStatus.STARTING, prompted_at=at(9)),
        pulse("p3", BOB, status=PulseStatus.RUNNING, **started),
        pulse("p4", BOB, kind=PulseKind.GATE, status=PulseStatus.RUNNING, **started),
        pulse("p5", BOB, ended_at=at(20), run_seconds=5.0, **ended),
        pulse("p6", BOB, status=PulseStatus.FAILED, started_at=at(-50), ended_at=at(7)),
        pulse("p7", BOB, status=PulseStatus.FAILED, started_at=at(-50), ended_at=at(0)),
        pulse("p8", BOB, status=PulseStatus.FAILED, started_at=at(90), ended_at=at(30)),
        pulse("p9", ANN, status=PulseStatus.RUNNING, **started),
    )
    counts = await tally(store)
    assert (counts.joinable, counts.under_way, counts.open_pulses, counts.fleet_open) == (PulseId("p1"), 3, 4, 4)
    assert [(await tally(store, fleet_open_most=most)).fleet_open for most in (0, 2, 9)] == [0, 2, 4]
    assert counts.run_seconds_today == 90 + 90 + 15 + 7
    assert (await tally(store, ANN.id)).joinable is None


@pytest.mark.spec("WAKE-71", "WAKE-70")
async def test_requests_are_listed_newest_first_in_pages_and_refusals_by_rule(store: Store) -> None:
    refused: dict[str, Any] = {"decision": Decision.REFUSED, "charge": Charge.NONE}
    rows = [wake(f"w{number}", BOB if number % 2 else ANN, by=ANN, seconds=number) for number in range(6)]
    rows += [wake(f"x{n}", BOB, seconds=10 + n, rule=rule, **refused) for n, rule in enumerate(["a", "a", "b"])]
    await kept(store, *rows)
    newest = rows[::-1]
    async with store.begin_read() as tx:
        assert await tx.wakes.find_all(limit=4) == newest[:4]
        assert await tx.wakes.find_all(limit=4, before=newest[3].id) == newest[4:8]
        assert await tx.wakes.find_all(agent_id=ANN.id) == [each for each in newest if each.agent_id == ANN.id]
        assert await tx.wakes.find_all(sender_id=ANN.id) == newest[3:]
        assert await tx.wakes.find_all(decision=Decision.REFUSED) == newest[:3]
        assert await tx.wakes.find_all(since=at(2), until=at(4)) == [rows[3], rows[2]]
        assert await tx.wakes.count_refused_by_rule(BOB.id, at(0)) == {"a": 2, "b": 1}
        assert await tx.wakes.count_refused_by_rule(BOB.id, at(11)) == {"a": 1, "b": 1}
        assert await tx.wakes.count_by_sender(BOB.id, at(0)) == {"ann": 3}
        counted = {(each.sender, each.agent, each.decision): each.count for each in await tx.wakes.count_by_pair()}
    assert counted == {
        ("ann", "ann", Decision.ADMITTED): 3, ("ann", "bob", Decision.ADMITTED): 3,
        ("operator", "bob", Decision.REFUSED): 3,
    }  # fmt: skip
