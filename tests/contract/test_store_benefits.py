"""What every store promises of benefits, and of what operations cost."""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from circadia.ids import AgentId, BankId
from circadia.records.retention import RetentionKind
from circadia.records.sleep_call import Benefit, SleepCost
from circadia.stores.base import Store
from tests.contract.rows import agent, at, call, expire
from tests.contract.sleep_rows import asked, banks_of

DAY = date(2026, 3, 29)
NEXT = DAY + timedelta(days=1)


def gain(bank: BankId, operation: str = "consolidate", *, day: date = DAY, **more: Any) -> Benefit:
    made = Benefit(
        bank_id=bank, operation=operation, day=day, uses=1, saved_tokens=10, saved_seconds=0.5, saved_nanousd=2**40,
        unpriced_tokens=3,
    )  # fmt: skip
    return replace(made, **more)


@pytest.mark.spec("SLEEP-86")
async def test_benefits_of_a_day_add_up_and_go_with_their_bank(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    async with store.begin_write() as tx:
        await tx.benefits.add([])
        await tx.benefits.add([gain(team), gain(team, day=NEXT), gain(team, "reflect"), gain(other)])
        await tx.benefits.add([gain(team, uses=2, saved_tokens=5)])
    both = gain(team, uses=3, saved_tokens=15, saved_seconds=1.0, saved_nanousd=2**41, unpriced_tokens=6)
    async with store.begin_read() as tx:
        assert await tx.benefits.find_all(team, since=DAY) == [both, gain(team, day=NEXT), gain(team, "reflect")]
        assert await tx.benefits.find_all(team, since=NEXT) == [gain(team, day=NEXT)]
        assert await tx.benefits.sum_saved_tokens(since=DAY) == 45
        assert await tx.benefits.sum_saved_tokens(since=NEXT + timedelta(days=1)) == 0
    async with store.begin_write() as tx:
        await expire(tx, datetime.combine(NEXT, time(), UTC), RetentionKind.BENEFITS)
        assert await tx.benefits.find_all(team, since=DAY) == [gain(team, day=NEXT)]
        await tx.benefits.add([gain(other)])
    async with store.begin_write() as tx:
        await tx.banks.remove(team)
    async with store.begin_read() as tx:
        assert await tx.benefits.find_all(team, since=DAY) == []
        assert await tx.benefits.find_all(other, since=DAY) == [gain(other)]


@pytest.mark.spec("SLEEP-86")
async def test_what_operations_cost_is_told_with_what_failed(store: Store) -> None:
    team, other = await banks_of(store, "team", "other")
    lines = [
        ("c1", team, 0, {"input_tokens": 10, "output_tokens": 1, "cost_nanousd": 7, "total_seconds": 0.5}),
        ("c2", team, 60, {"reserved_tokens": 20, "reserved_nanousd": 9}),  # failed: nobody knows what it used
        ("c3", team, 3600 * 24, {"input_tokens": 5}),
        ("c4", other, 0, {"input_tokens": 99}),
    ]
    unknown = {"input_tokens": None, "output_tokens": None, "cost_nanousd": None, "total_seconds": None}
    async with store.begin_write() as tx:
        for key, bank, seconds, used in lines:
            await tx.calls.add([replace(call(key, by=agent()), **{**unknown, "at": at(seconds), **used})])
            await tx.sleep_calls.add(asked(key, bank, at=at(seconds)))
    later = SleepCost(calls=1, tokens=5, nanousd=0, seconds=0.0)
    both = SleepCost(calls=3, tokens=36, nanousd=16, seconds=0.5)
    async with store.begin_read() as tx:
        assert await tx.sleep_calls.sum_cost_by_operation(team, since=at(0)) == {"consolidate": both}
        assert await tx.sleep_calls.sum_cost_by_operation(team, since=at(61)) == {"consolidate": later}


@pytest.mark.spec("SLEEP-86")
async def test_an_agent_s_last_calls_are_told_the_last_one_first(store: Store) -> None:
    made = [replace(call(f"c{n}", by=agent()), at=at(n), agent_id=AgentId("agt_a" if n else "agt_b")) for n in range(4)]
    async with store.begin_write() as tx:
        await tx.calls.add(made)
    async with store.begin_read() as tx:
        assert await tx.calls.find_latest(AgentId("agt_a"), 2) == [made[3], made[2]]
        assert await tx.calls.find_latest(AgentId("none"), 2) == []
