"""What every store promises of pulses: rows that are the truth and the outbox."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from circadia.ids import PulseId, WakeId
from circadia.records.pulse import PulseKind, PulseStatus
from circadia.stores.base import Store
from tests.contract.rows import agent, at
from tests.contract.test_store_wakes import kept
from tests.contract.wake_rows import pulse

ANN, BOB = agent("ann"), agent("bob")


async def claimable(
    store: Store, now: datetime, *, limit: int, launchers: Sequence[str] = ("resident",)
) -> Sequence[str]:
    """Return what a claim takes, and undo it."""
    claimed: Sequence[str] = ()
    with suppress(LookupError):
        async with store.begin_write() as tx:
            claimed = [job.id for job in await tx.pulses.claim("w", launchers, now=now, until=now, limit=limit)]
            raise LookupError
    return claimed


@pytest.mark.spec("WAKE-50")
async def test_a_pulse_is_kept_as_it_was_given(store: Store) -> None:
    full = pulse(
        "p1", BOB, seconds=1, kind=PulseKind.SCHEDULE, status=PulseStatus.RUNNING, launcher="fake",
        wake_id=WakeId("w"), by="ann", reason="blocker", routine="r", attempt=2, epoch=3, owner="exe",
        lease_until=at(9), not_before=at(2), prompted_at=at(3), started_at=at(4), run_seconds=1.25,
        timeout_seconds=60.5, detail="d",
        token_hash="hash", root_id="root", depth=4,
    )  # fmt: skip
    await kept(store, full)
    async with store.begin_read() as tx:
        assert await tx.pulses.get(full.id) == full
        assert await tx.pulses.get_by_token("hash") == full
        assert await tx.pulses.find_by_root("root") == [full]
        assert await tx.pulses.find_open(BOB.id) == [full]
        assert await tx.pulses.get(PulseId("none")) is None
        assert await tx.pulses.get_by_token("none") is None


@pytest.mark.spec("WAKE-50")
async def test_a_pulse_is_moved_only_from_where_it_was_seen_to_stand(store: Store) -> None:
    first = pulse("p1", BOB)
    await kept(store, first)
    taken = replace(first, status=PulseStatus.STARTING, epoch=1, owner="exe", lease_until=at(9), attempt=1)
    async with store.begin_write() as tx:
        assert await tx.pulses.save(taken, origin=first)
        assert not await tx.pulses.save(replace(taken, owner="other"), origin=first)
        assert not await tx.pulses.save(replace(taken, epoch=2), origin=replace(taken, epoch=0))
        assert await tx.pulses.get(first.id) == taken


@pytest.mark.spec("WAKE-52")
async def test_a_token_opens_nothing_once_its_pulse_has_ended(store: Store) -> None:
    await kept(store, pulse("p1", BOB, status=PulseStatus.FAILED, token_hash="hash", ended_at=at(1)))
    async with store.begin_read() as tx:
        assert await tx.pulses.get_by_token("hash") is None


@pytest.mark.spec("WAKE-50")
async def test_what_can_be_started_comes_oldest_first_once_its_time_has_come(store: Store) -> None:
    await kept(
        store,
        pulse("p3", BOB, seconds=3),
        pulse("p1", BOB, seconds=1, not_before=at(10)),
        pulse("p2", BOB, seconds=2),
        pulse("p4", BOB, seconds=0, status=PulseStatus.RUNNING),
    )
    assert await claimable(store, at(9), limit=9) == ["p2", "p3"]
    assert await claimable(store, at(10), limit=2) == ["p1", "p2"]
    async with store.begin_read() as tx:
        assert [each.id for each in await tx.pulses.find_open(BOB.id)] == ["p4", "p1", "p2", "p3"]


@pytest.mark.spec("CLU-106")
async def test_a_claim_takes_pulses_of_its_launchers_and_the_others_are_seen_to_wait(store: Store) -> None:
    rows = [pulse(f"p{number}", BOB, seconds=number, launcher=name) for number, name in enumerate("abac")]
    await kept(store, *rows, pulse("p4", BOB, seconds=1, launcher="a", owner="exe", lease_until=at(99)))
    now = at(10)
    for launchers, claimed in (((), []), (["b"], ["p1"]), (["c", "a"], ["p0", "p2", "p3"]), (["none"], [])):
        assert await claimable(store, now, limit=9, launchers=launchers) == claimed
        async with store.begin_read() as tx:
            assert await tx.pulses.has_startable(now, launchers) is bool(claimed)
            assert (await tx.due_work.find(now, fleet_rule="fleet", launchers=launchers)).pulses is bool(claimed)
    async with store.begin_read() as tx:
        assert [each.id for each in await tx.pulses.find_unclaimed(now, before=at(1), limit=9)] == ["p0", "p1"]
        assert [each.id for each in await tx.pulses.find_unclaimed(now, before=now, limit=3)] == ["p0", "p1", "p2"]


@pytest.mark.spec("WAKE-53", "WAKE-56")
async def test_times_awake_whose_time_is_up_are_found_to_the_microsecond(store: Store) -> None:
    await kept(
        store,
        pulse("p1", BOB, status=PulseStatus.RUNNING, started_at=at(0), timeout_seconds=1.5),
        pulse("p2", BOB, status=PulseStatus.RUNNING, started_at=at(0)),
        pulse("p3", BOB, status=PulseStatus.RUNNING, started_at=at(0), timeout_seconds=1.0, owner="exe"),
        pulse("p4", BOB, timeout_seconds=1.0),
    )
    async with store.begin_read() as tx:
        assert [each.id for each in await tx.pulses.find_overdue(at(1.499999))] == []
        assert [each.id for each in await tx.pulses.find_overdue(at(1.5))] == ["p1"]


@pytest.mark.spec("WAKE-53")
@pytest.mark.parametrize("some", [None, ["p1", "p4", "p5"]])
@pytest.mark.parametrize("seconds", [-3600.5, 3600.25])
async def test_open_pulses_are_moved_with_a_clock_that_was_set_but_for_those_that_began_since(
    store: Store, seconds: float, some: list[PulseId] | None
) -> None:
    runs: dict[str, Any] = {"status": PulseStatus.RUNNING}
    rows = [
        pulse("p1", BOB, started_at=at(10), **runs),
        pulse("p2", ANN, started_at=at(5000), **runs),
        pulse("p3", BOB, started_at=at(100), **runs),
        pulse("p4", BOB, started_at=at(10), status=PulseStatus.FAILED, ended_at=at(20)),
        pulse("p5", BOB),
    ]
    await kept(store, *rows)
    async with store.begin_write() as tx:
        await tx.pulses.shift_starts(seconds, of=some, but_from=at(99), but_to=at(101))
    async with store.begin_read() as tx:
        found = {each.id: each.started_at for each in await tx.pulses.find_all()}
    moved = 0.0 if some else seconds
    assert found == {"p1": at(10 + seconds), "p2": at(5000 + moved), "p3": at(100), "p4": at(10), "p5": None}


@pytest.mark.spec("WAKE-23", "WAKE-50")
async def test_a_process_renews_its_own_leases(store: Store) -> None:
    mine = pulse("p1", BOB, status=PulseStatus.STARTING, owner="exe", lease_until=at(5))
    theirs = replace(mine, id=PulseId("p2"), owner="other")
    await kept(store, mine, theirs, pulse("p3", BOB))
    async with store.begin_write() as tx:
        await tx.pulses.renew_leases("exe", at(20))
    async with store.begin_read() as tx:
        assert {each.id: each.lease_until for each in await tx.pulses.find_claimed()} == {"p1": at(20), "p2": at(5)}


@pytest.mark.spec("WAKE-54")
async def test_failures_in_a_row_are_counted_back_from_the_newest(store: Store) -> None:
    failed, good = PulseStatus.FAILED, PulseStatus.SUCCEEDED
    ends = [failed, good, PulseStatus.TIMED_OUT, PulseStatus.INTERRUPTED, failed]
    rows = [pulse(f"p{n}", BOB, status=status, ended_at=at(n)) for n, status in enumerate(ends)]
    gate = pulse("p8", BOB, kind=PulseKind.GATE, status=good, ended_at=at(8))
    await kept(store, *rows, gate, pulse("p9", BOB))
    of: dict[str, Any] = {
        "wake_id": WakeId("new"), "sender_id": None, "sender_pulse": None, "asked_since": at(0), "root_id": "root",
        "day": at(0), "utc_day": at(0), "now": at(100),
    }  # fmt: skip
    async with store.begin_read() as tx:
        for agent_id, limit, count, last in ((BOB.id, 10, 3, at(4)), (BOB.id, 2, 2, at(4)), (ANN.id, 10, 0, None)):
            assert await tx.pulses.count_failures(agent_id, limit=limit) == (count, last)
            tally = await tx.wakes.tally(agent_id, failures_most=limit, **of)
            assert (tally.failures, tally.failed_at) == (count, last)
        assert (await tx.wakes.tally(BOB.id, **of)).failures == 0, "nobody asked"


@pytest.mark.spec("WAKE-71")
async def test_pulses_are_listed_newest_first_in_pages(store: Store) -> None:
    rows = [pulse(f"p{number}", BOB if number else ANN, seconds=number) for number in range(5)]
    await kept(store, *rows)
    async with store.begin_read() as tx:
        assert await tx.pulses.find_all(limit=2) == [rows[4], rows[3]]
        assert await tx.pulses.find_all(limit=2, before=PulseId("p3")) == [rows[2], rows[1]]
        assert await tx.pulses.find_all(agent_id=ANN.id) == [rows[0]]
        assert await tx.pulses.find_all(since=at(3)) == [rows[4], rows[3]]
        assert await tx.pulses.find_all(status=PulseStatus.RUNNING) == []
