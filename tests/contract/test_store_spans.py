"""What every store promises of spans of agents' time, and of their sums."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from circadia.records.agent import Agent
from circadia.records.span import START, Span, SpanKind, SpanPlace, SpanSum
from circadia.stores.base import Store
from tests.contract.rows import agent, session, stored

pytestmark = pytest.mark.spec("UI-15")

ANN, BOB, EVE = agent("ann"), agent("bob"), agent("eve", of="lab")
NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


def minute(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def span(of: Agent, begin: float, end: float, kind: SpanKind = SpanKind.ASLEEP, **more: Any) -> Span:
    return Span(
        agent_id=of.id, session=of.session, agent=of.name, kind=kind, started_at=minute(begin), ended_at=minute(end),
        **more,
    )  # fmt: skip


async def add(store: Store, *spans: Span) -> None:
    async with store.begin_write() as tx:
        for each in spans:
            await tx.spans.add(each)


async def window(
    store: Store, begin: float, end: float, *of: Agent, after: SpanPlace = START, limit: int = 100
) -> Sequence[Sequence[Span]]:
    async with store.begin_read() as tx:
        ids = [each.id for each in of]
        return await tx.spans.find_window(ids, minute(begin), minute(end), after=after, limit=limit)


def times(spans: Sequence[Span]) -> list[tuple[float, float]]:
    return [
        ((s.started_at - NOON) / timedelta(minutes=1), ((s.ended_at or NOON) - NOON) / timedelta(minutes=1))
        for s in spans
    ]


async def test_a_window_has_what_began_before_it_and_what_ends_after_it_long_or_short(store: Store) -> None:
    await add(
        store,
        span(ANN, -9_000, -20), span(ANN, -20, 0), span(ANN, -9, 1), span(ANN, -8_000, 2),
        span(ANN, 3, 3, SpanKind.WAKE), span(ANN, 9, 11), span(ANN, 9, 9_000),
        span(ANN, 10, 12), span(ANN, 10, 9_001),
        span(BOB, 4, 5),
    )  # fmt: skip
    ann, bob = await window(store, 0, 10, ANN, BOB)
    assert times(ann) == [(-9, 1), (-8_000, 2), (3, 3), (9, 11), (9, 9_000)]
    assert times(bob) == [(4, 5)]


async def test_windows_side_by_side_have_each_mark_once(store: Store) -> None:
    await add(
        store, span(ANN, 10, 10, SpanKind.REFUSAL, by="bob", reason="blocker", outcome="cooldown_seconds", ref="w")
    )
    (before,), (after,) = await window(store, 0, 10, ANN), await window(store, 10, 20, ANN)
    assert not before
    (mark,) = after
    assert (mark.by, mark.reason, mark.outcome, mark.ref) == ("bob", "blocker", "cooldown_seconds", "w")


async def test_pages_go_on_within_an_agent_where_the_last_one_ended(store: Store) -> None:
    await add(store, *(span(ANN, n, n + 1) for n in range(5)), span(BOB, 0, 1))
    first, *rest = await window(store, 0, 9, ANN, BOB, limit=3)
    assert (times(first), rest) == ([(0, 1), (1, 2), (2, 3)], [])
    last = first[-1]
    assert last.ended_at is not None
    second, third = await window(store, 0, 9, ANN, BOB, after=SpanPlace(last.ended_at, last.number), limit=3)
    assert (times(second), times(third)) == ([(3, 4), (4, 5)], [(0, 1)])


def figures(sums: Sequence[SpanSum]) -> list[tuple[str, float, float, float]]:
    return [
        (each.session, (each.at - NOON) / timedelta(minutes=1), each.asleep / 60_000_000, each.awake / 60_000_000)
        for each in sums
    ]


async def sums(
    store: Store, begin: float, end: float, *, session: str | None = None, fleet: bool = False, limit: int = 5_000
) -> list[SpanSum]:
    async with store.begin_read() as tx:
        found = await tx.spans.find_sums(
            minute(begin), minute(end), minute(60), session=session, by_session=not fleet, limit=limit
        )
        return list(found)


async def sum_up(store: Store, *, limit: int = 100) -> int:
    async with store.begin_write() as tx:
        return await tx.spans.sum_up(limit=limit, not_before=minute(-60))


async def test_sums_are_the_same_before_and_after_the_leader_has_added_them_up(store: Store) -> None:
    await add(store, span(ANN, -500, 20), span(BOB, 1, 2), span(EVE, 14, 46, SpanKind.AWAKE))
    expected = [
        ("default", 0, 16, 0), ("lab", 0, 0, 1), ("default", 15, 5, 0), ("lab", 15, 0, 15), ("lab", 30, 0, 15),
    ]  # fmt: skip
    assert figures(await sums(store, 0, 45)) == expected
    assert [await sum_up(store, limit=2), await sum_up(store, limit=2), await sum_up(store)] == [2, 1, 0]
    assert figures(await sums(store, 0, 45)) == expected
    assert figures(await sums(store, 0, 45, fleet=True)) == [("", 0, 16, 1), ("", 15, 5, 15), ("", 30, 0, 15)]
    assert figures(await sums(store, 0, 45, session="lab")) == [row for row in expected if row[0] == "lab"]
    assert figures(await sums(store, -75, -45)) == [("default", -60, 15, 0)]  # the time before is not kept


async def test_a_page_of_sums_ends_with_a_whole_quarter(store: Store) -> None:
    await stored(store, session(), session("lab"), replace(BOB, since=minute(-700)))
    await add(store, span(ANN, 0, 45), span(EVE, 0, 45))
    expected = [("default", 0, 15, 15), ("lab", 0, 15, 0), ("default", 15, 15, 15), ("lab", 15, 15, 0)]
    for _ in range(2):  # before and after the leader has added them up
        assert figures(await sums(store, 0, 60, limit=3)) == expected
        assert figures(await sums(store, 0, 60, limit=1)) == expected[:2]
        assert len(await sums(store, 0, 60)) == 7
        await sum_up(store)


async def test_what_agents_do_now_is_in_the_sums_of_the_time_since_it_began(store: Store) -> None:
    await stored(
        store, session(), session("lab"),
        replace(ANN, asleep=True, since=minute(-700)), replace(BOB, since=minute(10)), replace(EVE, since=minute(50)),
    )  # fmt: skip
    assert figures(await sums(store, 0, 90)) == [
        ("default", 0, 15, 5), ("default", 15, 15, 15), ("default", 30, 15, 15), ("default", 45, 15, 15),
        ("lab", 45, 0, 10),
    ]  # fmt: skip
    assert figures(await sums(store, 45, 60, fleet=True)) == [("", 45, 15, 25)]


async def test_sums_count_pulses_wakes_and_refusals_in_the_quarter_of_their_end(store: Store) -> None:
    await add(
        store,
        span(ANN, 1, 16, SpanKind.PULSE, outcome="failed"), span(ANN, 2, 3, SpanKind.PULSE, outcome="succeeded"),
        span(ANN, 1, 1, SpanKind.WAKE), span(ANN, 4, 4, SpanKind.REFUSAL), span(ANN, 5, 6, SpanKind.HELD),
    )  # fmt: skip
    await sum_up(store)
    first, second = await sums(store, 0, 30)
    assert (first.pulses, first.failed, first.wakes, first.refusals, first.held) == (1, 0, 1, 1, 60_000_000)
    assert (second.pulses, second.failed, second.pulse) == (1, 1, 60_000_000)


async def test_the_present_states_of_agents_are_summed_whatever_their_number(store: Store) -> None:
    """64 bits hold the microseconds since 1970 of about 5,200 agents, and of 40 in the year 9000."""
    late = datetime(9000, 1, 1, tzinfo=UTC)
    agents = [replace(agent(f"a{number}"), since=late) for number in range(50)]
    await stored(store, session(), *agents)
    async with store.begin_read() as tx:
        (found,) = await tx.spans.find_sums(
            late, late + timedelta(minutes=15), late + timedelta(minutes=1), limit=5_000
        )
    assert (found.session, found.awake) == ("default", 50 * 60_000_000)
