"""What every store promises of the usage ledger."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from circadia.errors import InvalidRequest
from circadia.ids import AnswerId, CallId
from circadia.records.call import AgentSpend, Call, CallFilter, CallPage, CallStatus, CallText, UsageGroup
from circadia.records.pulse import PulseStatus
from circadia.records.session import build_reference
from circadia.stores.base import Store
from tests.contract.conftest import Opener
from tests.contract.rows import T0, agent, at, call
from tests.contract.wake_rows import pulse

ADA, EVE, BOB = agent("ada"), agent("eve"), agent("bob", of="team")


async def keep(store: Store, *calls: Call) -> None:
    async with store.begin_write() as tx:
        await tx.calls.add(calls)


async def spent(store: Store, day: float = 0) -> AgentSpend:
    async with store.begin_read() as tx:
        return await tx.calls.sum_day(ADA, at(day))


@pytest.mark.spec("GATE-66")
async def test_a_reservation_counts_until_it_is_settled_or_taken_back(store: Store) -> None:
    reserved = replace(call("c1", by=ADA, status=CallStatus.RESERVED), reserved_tokens=1000, reserved_nanousd=5_000)
    await keep(store, reserved, replace(reserved, id=call("c2", by=ADA).id))
    assert await spent(store) == AgentSpend(calls=2, tokens=2000, nanousd=10_000)
    async with store.begin_write() as tx:
        await tx.calls.remove(call("c2", by=ADA).id)
        await tx.calls.remove(call("unknown", by=ADA).id)
    settled = replace(reserved, status=CallStatus.DONE, input_tokens=7, output_tokens=0, cost_nanousd=0)
    await keep(store, settled)
    assert await spent(store) == AgentSpend(calls=1, tokens=7, nanousd=0)
    await keep(store, replace(settled, input_tokens=None, output_tokens=None, cost_nanousd=None))
    assert await spent(store) == AgentSpend(calls=1, tokens=1000, nanousd=5_000)


@pytest.mark.spec("GATE-66")
async def test_what_is_spent_is_the_agents_own_of_a_utc_day(store: Store) -> None:
    midnight = T0.replace(hour=0, minute=0, second=0, microsecond=0)
    day = [midnight + timedelta(seconds=seconds) for seconds in (-0.000001, 0, 86399.999999, 86400)]
    await keep(
        store,
        replace(call("c1", by=ADA), at=day[0], input_tokens=1),
        replace(call("c2", by=ADA), at=day[1], input_tokens=10, cost_nanousd=2**40),
        replace(call("c3", by=ADA), at=day[2], output_tokens=100, cost_nanousd=2**40),
        replace(call("c4", by=EVE), at=day[1], input_tokens=1000),
        replace(call("c5", by=ADA, status=CallStatus.RESERVED), at=day[0], reserved_tokens=10_000),
        replace(call("c6", by=ADA, status=CallStatus.RESERVED), at=day[1], reserved_tokens=100_000),
        replace(call("c7", by=ADA, status=CallStatus.FAILED), at=day[1], reserved_tokens=5, reserved_nanousd=1),
    )
    assert await spent(store) == AgentSpend(calls=4, tokens=100_115, nanousd=2**41 + 1)
    assert await spent(store, 86400) == AgentSpend(calls=0, tokens=0, nanousd=0)


@pytest.mark.spec("GATE-66", "LARGE-03")
async def test_what_is_spent_today_is_read_without_the_days_calls(store: Store) -> None:
    await keep(store, *(replace(call(f"c{n}", by=ADA), input_tokens=1) for n in range(50)))
    async with store.begin_write() as tx:  # the sums stay
        await tx.calls.remove(call("c0", by=ADA).id)
    assert await spent(store) == AgentSpend(calls=50, tokens=50, nanousd=0)


@pytest.mark.spec("GATE-66")
async def test_a_count_read_and_raised_in_one_block_is_never_passed(open_store: Opener) -> None:
    stores = [await open_store(), await open_store()]

    async def admit(n: int) -> bool:
        async with stores[n % 2].begin_write() as tx:
            if (await tx.calls.sum_day(ADA, at(0))).calls >= 5:
                return False
            await tx.calls.add([call(f"c{n}", by=ADA, status=CallStatus.RESERVED)])
            return True

    admitted = await asyncio.gather(*(admit(n) for n in range(40)))
    assert admitted.count(True) == 5
    assert (await spent(stores[0])).calls == 5


@pytest.mark.spec("GATE-64")
async def test_a_group_sums_what_is_known_and_counts_what_is_not(store: Store) -> None:
    await keep(
        store,
        replace(
            call("c1", by=ADA), input_tokens=1, output_tokens=2, cached_tokens=3, reasoning_tokens=4, cost_nanousd=5
        ),
        replace(call("c2", by=ADA), output_tokens=20, held_seconds=0.5),
        replace(call("c3", by=ADA, status=CallStatus.FAILED), held_seconds=0.25),
        call("c4", by=ADA, status=CallStatus.RESERVED),
        call("c5", by=BOB),
    )
    async with store.begin_read() as tx:
        groups = await tx.calls.sum_by_group("agent")
    assert groups == [
        UsageGroup(
            keys=("ada",),
            calls=3,
            unknown=1,
            failed=1,
            input_tokens=1,
            output_tokens=22,
            cached_tokens=3,
            reasoning_tokens=4,
            cost_nanousd=5,
            unpriced=2,
            held_seconds=0.75,
        ),
        UsageGroup(
            keys=("team:bob",),
            calls=1,
            unknown=1,
            failed=0,
            input_tokens=0,
            output_tokens=0,
            cached_tokens=0,
            reasoning_tokens=0,
            cost_nanousd=0,
            unpriced=1,
            held_seconds=0.0,
        ),
    ]


@pytest.mark.spec("GATE-64")
@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("agent", {"ada": 2, "team:bob": 1}),
        ("model", {"gpt": 2, "claude": 1}),
        ("tier", {"hot": 2, "sleep": 1}),
        ("session", {"default": 2, "team": 1}),
        ("upstream", {"openai": 2, "local": 1}),
        ("end_user", {"": 2, "u1": 1}),
        ("conversation", {"": 2, "v1": 1}),
        ("day", {"2026-03-29": 2, "2026-03-30": 1}),
    ],
)
async def test_usage_is_grouped_by(store: Store, by: str, keys: dict[str, int]) -> None:
    other = replace(call("c3", by=BOB), at=datetime(2026, 3, 30, tzinfo=UTC), model="claude", tier="sleep")
    other = replace(other, upstream="local", end_user="u1", conversation="v1")
    last = datetime(2026, 3, 29, 23, 59, 59, 999_999, tzinfo=UTC)
    await keep(store, call("c1", by=ADA), replace(call("c2", by=ADA), at=last), other)
    async with store.begin_read() as tx:
        groups = await tx.calls.sum_by_group(by)
    assert [(group.key, group.calls) for group in groups] == sorted(keys.items())


@pytest.mark.spec("UI-11")
async def test_usage_is_grouped_by_two_keys(store: Store) -> None:
    later = replace(call("c3", by=BOB), at=datetime(2026, 3, 30, tzinfo=UTC), tier="sleep")
    await keep(store, call("c1", by=ADA), call("c2", by=BOB), later)
    async with store.begin_read() as tx:
        groups = await tx.calls.sum_by_group("day", "agent")
    assert [(group.keys, group.key, group.calls) for group in groups] == [
        (("2026-03-29", "ada"), "2026-03-29,ada", 1),
        (("2026-03-29", "team:bob"), "2026-03-29,team:bob", 1),
        (("2026-03-30", "team:bob"), "2026-03-30,team:bob", 1),
    ]


async def test_usage_is_chosen_by_time_session_and_agent(store: Store) -> None:
    await keep(store, call("c1", by=ADA), call("c2", by=EVE, seconds=1), call("c3", by=BOB, seconds=2))
    async with store.begin_read() as tx:
        since = await tx.calls.sum_by_group("agent", since=at(1))
        until = await tx.calls.sum_by_group("agent", until=at(1))
        team = await tx.calls.sum_by_group("agent", session="team")
        ada = await tx.calls.sum_by_group("agent", agent="ada")
        none = await tx.calls.sum_by_group("agent", since=at(1) + timedelta(days=1))
    assert [[group.key for group in groups] for groups in (since, until, team, ada, none)] == [
        ["eve", "team:bob"],
        ["ada"],
        ["team:bob"],
        ["ada"],
        [],
    ]


async def test_usage_by_an_unknown_key_is_refused_with_the_known_ones(store: Store) -> None:
    async with store.begin_read() as tx:
        with pytest.raises(InvalidRequest, match=r"agent, model, tier"):
            await tx.calls.sum_by_group("colour")


@pytest.mark.spec("UI-05")
async def test_calls_from_the_creation_of_a_pulse_to_its_end_are_summed_up_for_its_chain(store: Store) -> None:
    async with store.begin_write() as tx:
        for key, of, begins, ends in (("first", ADA, 0, 10), ("second", BOB, 5, 15), ("silent", EVE, 0, 30)):
            given = pulse(key, of, seconds=begins, status=PulseStatus.SUCCEEDED, ended_at=at(ends), root_id="root")
            await tx.pulses.add(given)
        await tx.pulses.add(pulse("running", ADA, seconds=20, root_id="root"))
        await tx.pulses.add(pulse("other", BOB, seconds=20, root_id="other"))
    await keep(
        store,
        replace(call("early", by=BOB, seconds=4), input_tokens=1),
        replace(call("c1", by=ADA, seconds=0), input_tokens=10, cost_nanousd=5),
        replace(call("c2", by=ADA, seconds=10), output_tokens=100, cost_nanousd=7),
        call("c3", by=BOB, seconds=9, status=CallStatus.FAILED),
        replace(call("between", by=ADA, seconds=15), input_tokens=1_000),
        replace(call("c4", by=ADA, seconds=25), input_tokens=10_000),
        call("open", by=ADA, seconds=26, status=CallStatus.RESERVED),
        replace(call("c5", by=BOB, seconds=25), input_tokens=100_000),
    )
    async with store.begin_read() as tx:
        of_root, of_other, of_nothing = [await tx.calls.sum_by_pulse(root) for root in ("root", "other", "nothing")]
    assert {
        key: (group.calls, group.failed, group.input_tokens, group.output_tokens, group.cost_nanousd, group.unpriced)
        for key, group in of_root.items()
    } == {"first": (2, 0, 10, 100, 12, 0), "second": (1, 1, 0, 0, 0, 1), "running": (1, 0, 10_000, 0, 0, 1)}
    assert {key: group.input_tokens for key, group in of_other.items()} == {"other": 100_000}
    assert of_nothing == {}


async def keep_odd_lines(store: Store, random: Random) -> dict[str, Call]:
    """Store calls, most of them several times with other values; return the last of each."""
    lines: dict[str, Call] = {}
    for batch in range(20):
        some: list[Call] = []
        for number in range(random.randrange(1, 12)):
            key = random.choice([*lines, f"c{batch}_{number}"])
            by = random.choice((ADA, EVE, BOB))
            status = random.choice((CallStatus.RESERVED, CallStatus.DONE, CallStatus.FAILED))
            if key in lines and lines[key].status is not CallStatus.RESERVED:
                status = random.choice((CallStatus.DONE, CallStatus.FAILED))
            seconds = lines[key].at.timestamp() - at(0).timestamp() if key in lines else random.randrange(6 * 86_400)
            line = replace(
                call(key, by=by, seconds=seconds, status=status), model=random.choice(("gpt", "claude")),
                input_tokens=random.choice((None, 3, 40)), cost_nanousd=random.choice((None, 7)),
                end_user=random.choice((None, "u1", "u2")), conversation=random.choice((None, "v1", "v2", "v3")),
            )  # fmt: skip
            lines[key] = line
            some.append(line)
        await keep(store, *some)
        await keep(store, *{line.id: line for line in some}.values())  # as after a commit whose answer was lost
    return lines


@pytest.mark.spec("LARGE-05", "GATE-64")
async def test_reports_are_exact_over_any_range_whatever_was_settled_corrected_or_written_twice(store: Store) -> None:
    random = Random(5)
    lines = await keep_odd_lines(store, random)
    times = [None, *(at(random.randrange(6 * 86_400)) for _ in range(6)), datetime(2026, 3, 31, tzinfo=UTC)]
    groupings = ("agent", "model", "session", "day", "end_user", "conversation")
    async with store.begin_read() as tx:
        for _ in range(60):
            by = random.sample(groupings, random.choice((1, 2)))
            since, until, of = random.choice(times), random.choice(times), random.choice((None, "ada"))
            fitting = [
                line
                for line in lines.values()
                if line.status is not CallStatus.RESERVED
                and (since is None or line.at >= since)
                and (until is None or line.at < until)
                and of in (None, line.agent)
            ]
            expected = sums(fitting, by)
            found = await tx.calls.sum_by_group(*by, since=since, until=until, agent=of)
            assert {group.keys: (group.calls, group.input_tokens, group.unpriced) for group in found} == expected
            pages: list[UsageGroup] = []
            after: str | None = None
            while not pages or after is not None:
                page = await tx.calls.find_usage_page(
                    *by, since=since, until=until, agent=of, limit=random.choice((2, 3, 50)), after=after
                )
                pages += page.groups
                after = page.next
                assert page.total.calls == len(fitting)
                if not page.groups and after is None:
                    break
            listed = {group.keys: (group.calls, group.input_tokens, group.unpriced) for group in pages}
            assert len(listed) == len(pages)
            if len({*by} & {"agent", "end_user", "conversation"}) < 2:
                assert listed == expected


def sums(lines: Sequence[Call], by: Sequence[str]) -> dict[tuple[str, ...], tuple[int, int, int]]:
    """Return calls, input tokens and unpriced calls by the keys of the groupings."""
    groups: dict[tuple[str, ...], tuple[int, int, int]] = {}
    for line in lines:
        names = {"agent": build_reference(line.session, line.agent), "day": line.at.date().isoformat()}
        keys = tuple(names.get(each) or getattr(line, each) or "" for each in by)
        calls, tokens, unpriced = groups.get(keys, (0, 0, 0))
        groups[keys] = (calls + 1, tokens + (line.input_tokens or 0), unpriced + (line.cost_nanousd is None))
    return groups


def ids(page: CallPage) -> list[str]:
    return [each.id for each in page.calls]


@pytest.mark.spec("UI-17")
async def test_calls_are_listed_newest_first_by_each_filter_page_by_page(store: Store) -> None:
    made = [
        replace(call("c1", by=ADA), model="a", upstream="x", end_user="u", conversation="v"),
        replace(call("c2", by=BOB), at=at(1), tier="ready", status=CallStatus.FAILED),
        replace(call("c3", by=ADA), at=at(1), status=CallStatus.RESERVED),
        replace(call("c4", by=ADA), at=at(2), stop_reason="length", retries=2, memory="[]", answer_id=AnswerId("n")),
    ]
    await keep(store, *made)
    async with store.begin_read() as tx:
        for wanted, expected in (
            (CallFilter(), ["c4", "c3", "c2", "c1"]),
            (CallFilter(agent="ada"), ["c4", "c3", "c1"]),
            (CallFilter(session="team"), ["c2"]),
            (CallFilter(model="a"), ["c1"]),
            (CallFilter(tier="ready"), ["c2"]),
            (CallFilter(tier="hot"), ["c4", "c3", "c1"]),
            (CallFilter(status=CallStatus.FAILED), ["c2"]),
            (CallFilter(status=CallStatus.RESERVED), ["c3"]),
            (CallFilter(status=CallStatus.DONE, agent="ada"), ["c4", "c1"]),
            (CallFilter(upstream="x"), ["c1"]),
            (CallFilter(end_user="u"), ["c1"]),
            (CallFilter(conversation="v"), ["c1"]),
            (CallFilter(conversation="v", agent="bob"), []),
            (CallFilter(since=at(1)), ["c4", "c3", "c2"]),
            (CallFilter(until=at(1)), ["c1"]),
            (CallFilter(tier="sleep"), []),
        ):
            page = await tx.calls.find_page(wanted, limit=10)
            assert (ids(page), page.next) == (expected, None), wanted
        seen: list[str] = []
        after: str | None = None
        for _ in range(4):
            page = await tx.calls.find_page(CallFilter(), limit=1, after=after)
            seen, after = [*seen, *ids(page)], page.next
        assert (seen, after) == (["c4", "c3", "c2", "c1"], None)
        assert await tx.calls.get(made[3].id) == made[3]
        for wrong in ("x", "1", "-1_c", "9" * 30 + "_c", ""):
            with pytest.raises(InvalidRequest):
                await tx.calls.find_page(CallFilter(), limit=1, after=wrong)


@pytest.mark.spec("UI-17", "LARGE-03")
async def test_a_page_looks_at_a_bounded_number_of_calls_and_the_next_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("circadia.stores.sql.calls.SCANNED", 5)
    await keep(
        store, *(replace(call(f"c{n:02}", by=ADA), at=at(n), model="rare" if n == 1 else "m") for n in range(12))
    )
    found: list[str] = []
    after: str | None = None
    pages = 0
    async with store.begin_read() as tx:
        while pages == 0 or after is not None:
            page = await tx.calls.find_page(CallFilter(model="rare"), limit=10, after=after)
            found, after, pages = [*found, *ids(page)], page.next, pages + 1
    assert (found, pages) == (["c01"], 3)


@pytest.mark.spec("UI-17")
async def test_the_text_of_a_call_is_kept_once_and_read_by_its_id(store: Store) -> None:
    text = CallText(id=CallId("c1"), at=T0, request="hello", response="hi")
    async with store.begin_write() as tx:
        await tx.calls.keep_texts([text, replace(text, id=CallId("c0"))])
        await tx.calls.keep_texts([replace(text, request="other")])
        await tx.calls.keep_texts([])
    async with store.begin_read() as tx:
        assert await tx.calls.get_text(text.id) == text
        assert await tx.calls.get_text(CallId("c9")) is None
