"""What every store promises of routines."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from circadia.errors import Conflict
from circadia.records.schedule import BlackoutPolicy, Recurrence
from circadia.stores.base import Store
from circadia.stores.sql import routines
from tests.contract.rows import agent, at, session, stored
from tests.contract.wake_rows import routine

ANN, BOB = agent("ann"), agent("bob")


@pytest.fixture
async def store_with_agents(store: Store) -> Store:
    await stored(store, session(), ANN, BOB)
    return store


@pytest.mark.spec("WAKE-40", "WAKE-45")
async def test_a_routine_is_kept_as_it_was_given_until_it_is_taken_away(store_with_agents: Store) -> None:
    rows = [
        routine(
            "cron", BOB, recurrence=Recurrence(cron="0 9 * * 1-5", zone="Europe/Berlin", jitter_seconds=30),
            instructions="do – ünïcode", timeout_seconds=1.5, blackout_policy=BlackoutPolicy.DEFER,
            misfire_grace_seconds=None, next_at=at(5), deferred_from=at(1), last_at=at(0), skips=2, missed=3,
        ),
        routine("every", BOB, recurrence=Recurrence(every_seconds=90, anchor=at(0), offset_seconds=7), enabled=False),
        routine("once", BOB, recurrence=Recurrence(at=(datetime(2026, 5, 1, tzinfo=UTC),))),
    ]  # fmt: skip
    async with store_with_agents.begin_write() as tx:
        for row in rows:
            await tx.routines.add(row)
    async with store_with_agents.begin_read() as tx:
        assert await tx.routines.find_by_agent(BOB.id) == rows
        assert await tx.routines.get(BOB.id, "cron") == rows[0]
        assert await tx.routines.get(ANN.id, "cron") is None
    async with store_with_agents.begin_write() as tx:
        assert await tx.routines.remove(BOB.id, "cron")
        assert not await tx.routines.remove(BOB.id, "cron")
        assert await tx.routines.find_by_agent(BOB.id) == rows[1:]


@pytest.mark.spec("WAKE-45")
async def test_a_second_routine_of_the_same_name_is_refused(store_with_agents: Store) -> None:
    async with store_with_agents.begin_write() as tx:
        await tx.routines.add(routine("r", BOB))
        await tx.routines.add(routine("r", ANN))
        with pytest.raises(Conflict, match="'r'"):
            await tx.routines.add(replace(routine("r", BOB), id="other"))


@pytest.mark.spec("WAKE-43", "WAKE-45")
async def test_of_two_that_plan_the_same_occurrence_one_is_saved(store_with_agents: Store) -> None:
    first = routine("r", BOB, next_at=at(5))
    later = replace(first, next_at=at(65), last_at=at(5), skips=1)
    async with store_with_agents.begin_write() as tx:
        await tx.routines.add(first)
        assert await tx.routines.save(later, origin=first)
        assert not await tx.routines.save(replace(first, next_at=at(99)), origin=first)
        assert await tx.routines.get(BOB.id, "r") == later
        off = replace(later, spec=later.spec.model_copy(update={"enabled": False}), next_at=None)
        assert await tx.routines.save(off, origin=later)
        assert await tx.routines.save(later, origin=off)


@pytest.mark.spec("WAKE-41", "WAKE-45")
async def test_what_is_due_comes_the_longest_due_first_and_never_if_it_is_off(store_with_agents: Store) -> None:
    async with store_with_agents.begin_write() as tx:
        await tx.routines.add(routine("late", BOB, next_at=at(1)))
        await tx.routines.add(routine("later", ANN, next_at=at(0)))
        await tx.routines.add(routine("off", BOB, next_at=at(0), enabled=False))
        await tx.routines.add(routine("never", BOB))
        await tx.routines.add(routine("future", BOB, next_at=at(1.000001)))
    async with store_with_agents.begin_read() as tx:
        assert [each.name for each in await tx.routines.find_due(at(1), limit=9)] == ["later", "late"]
        assert [each.name for each in await tx.routines.find_due(at(1), limit=1)] == ["later"]
        assert [each.name for each in await tx.routines.find_due(at(-1), limit=9)] == []
        assert [await tx.routines.next_due_time(at(seconds)) for seconds in (-1, 0, 1)] == [at(0), at(1), at(1.000001)]
        assert await tx.routines.next_due_time(at(2)) is None
        for seconds, later in ((-1, "future late later"), (0, "future late"), (1, "future"), (2, "")):
            assert sorted(each.name for each in await tx.routines.find_due_after(at(seconds))) == later.split()


@pytest.mark.spec("WAKE-44", "WAKE-45")
async def test_one_that_cannot_be_read_is_as_none_and_keeps_no_other_from_its_time(
    store_with_agents: Store, caplog: pytest.LogCaptureFixture
) -> None:
    routines.log_unreadable_once.cache_clear()
    bad = [routine(f"bad {at_}", ANN, next_at=at(at_)) for at_ in range(2)]
    for each in bad:
        object.__setattr__(each.spec.recurrence, "zone", "Mars/Base")  # as after an upgrade whose time zones are fewer
    good = [routine("good", BOB, next_at=at(5)), routine("also good", BOB, next_at=at(6))]
    async with store_with_agents.begin_write() as tx:
        for each in (*bad, *good):
            await tx.routines.add(each)
    async with store_with_agents.begin_read() as tx:
        assert await tx.routines.find_due(at(10), limit=1) == good[:1]
        assert await tx.routines.find_due(at(10), limit=2) == good
        assert await tx.routines.find_due(at(10), limit=9) == good
        assert await tx.routines.find_due_after(at(-1)) == good
        assert await tx.routines.find_by_agent(ANN.id) == []
        assert await tx.routines.get(ANN.id, "bad 0") is None
    told = [each.getMessage() for each in caplog.records if "cannot be read" in each.getMessage()]
    assert len(told) == len(bad), "once for each"
    assert "Mars/Base" in told[0]
    async with store_with_agents.begin_write() as tx:
        await tx.routines.remove_others(ANN.id, [])
        await tx.routines.remove_others(BOB.id, ["good"])
        await tx.routines.add(routine("bad 0", ANN))
        assert [each.name for each in await tx.routines.find_by_agent(ANN.id)] == ["bad 0"]
        assert await tx.routines.find_by_agent(BOB.id) == good[:1]
