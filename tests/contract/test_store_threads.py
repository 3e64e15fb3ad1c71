"""What every store promises of threads and of who takes part."""

from dataclasses import replace

import pytest

from circadia.errors import Conflict
from circadia.ids import ThreadId
from circadia.records.thread import JoinResult, Participant, ThreadStatus
from circadia.stores.base import Store
from tests.contract.conftest import Opener
from tests.contract.rows import agent, at, session, stored, thread

ADA, EVE = agent("ada"), agent("eve")
PLAN, WORK = thread("plan"), thread("work", created=1)


@pytest.fixture
async def team(store: Store) -> Store:
    """A store with two agents and two threads."""
    await stored(store, session(), ADA, EVE, PLAN, WORK)
    return store


async def test_a_thread_comes_back_as_it_was_stored(team: Store) -> None:
    one = replace(thread("old"), status=ThreadStatus.CLOSED, closed_at=at(5), summary="done: ½")
    await stored(team, one)
    async with team.begin_read() as tx:
        assert await tx.threads.get(one.id) == one
        assert await tx.threads.get(ThreadId("thr_unknown")) is None
    with pytest.raises(Conflict):
        await stored(team, one)


async def test_threads_are_listed_oldest_first_and_by_who_takes_part(team: Store) -> None:
    async with team.begin_write() as tx:
        await tx.threads.join(WORK.id, ADA.id, at(1))
        await tx.threads.join(PLAN.id, ADA.id, at(1))
        await tx.threads.join(PLAN.id, EVE.id, at(1))
        await tx.threads.leave(PLAN.id, ADA.id)
        await tx.threads.close(replace(PLAN, status=ThreadStatus.CLOSED))
    async with team.begin_read() as tx:
        everything = await tx.threads.find_by_session(session().id)
        assert [row.name for row in everything] == ["plan", "work"]
        assert [row.name for row in await tx.threads.find_by_session(session().id, closed=False)] == ["work"]
        assert [row.name for row in await tx.threads.find_by_session(session().id, agent_id=ADA.id)] == ["work"]
        assert [row.name for row in await tx.threads.find_by_session(session().id, agent_id=EVE.id)] == ["plan"]
        assert await tx.threads.find_by_session(session().id, agent_id=EVE.id, closed=False) == []


@pytest.mark.spec("GATE-20")
async def test_a_thread_closes_once(team: Store) -> None:
    closed = replace(PLAN, status=ThreadStatus.CLOSED, closed_at=at(9), summary="well")
    async with team.begin_write() as tx:
        assert await tx.threads.close(closed)
        assert not await tx.threads.close(replace(closed, summary="late"))
        assert not await tx.threads.close(thread("unknown"))
        assert await tx.threads.get(PLAN.id) == closed


@pytest.mark.spec("GATE-10", "GATE-11")
async def test_a_join_tells_what_it_meant_to_the_agent(team: Store, open_store: Opener) -> None:
    async with team.begin_write() as tx:
        assert await tx.threads.join(PLAN.id, ADA.id, at(1)) == JoinResult(
            added=True, first_ever=True, first_in_thread=True
        )
        assert await tx.threads.join(PLAN.id, ADA.id, at(2)) == JoinResult(
            added=False, first_ever=False, first_in_thread=False
        )
        assert await tx.threads.leave(PLAN.id, ADA.id)
        assert not await tx.threads.leave(PLAN.id, ADA.id)
        assert not await tx.threads.leave(WORK.id, ADA.id)
    await team.close()
    after_restart = await open_store()
    async with after_restart.begin_write() as tx:
        assert await tx.threads.join(PLAN.id, ADA.id, at(3)) == JoinResult(
            added=True, first_ever=False, first_in_thread=False
        )
        assert await tx.threads.join(WORK.id, ADA.id, at(4)) == JoinResult(
            added=True, first_ever=False, first_in_thread=True
        )
        assert await tx.threads.join(WORK.id, EVE.id, at(4)) == JoinResult(
            added=True, first_ever=True, first_in_thread=True
        )


@pytest.mark.spec("GATE-11")
async def test_a_first_time_counts_in_the_threads_session_alone(team: Store) -> None:
    await stored(team, session("other"), thread(of="other"))
    async with team.begin_write() as tx:
        await tx.threads.join(thread(of="other").id, ADA.id, at(1))
        joined = await tx.threads.join(PLAN.id, ADA.id, at(1))
    assert joined.first_ever


async def test_participants_are_the_active_agents_by_name(team: Store) -> None:
    gone = agent("bob")
    await stored(team, gone)
    async with team.begin_write() as tx:
        for member in (EVE, gone, ADA):
            await tx.threads.join(PLAN.id, member.id, at(1))
        await tx.agents.save(replace(gone, deleted_at=at(2)))
        await tx.threads.leave(PLAN.id, ADA.id)
        await tx.threads.join(PLAN.id, ADA.id, at(7))
        await tx.threads.join(WORK.id, EVE.id, at(1))
        assert await tx.threads.participants(PLAN.id) == [
            Participant(thread_id=PLAN.id, agent_id=ADA.id, name="ada", active=True, added_at=at(7)),
            Participant(thread_id=PLAN.id, agent_id=EVE.id, name="eve", active=True, added_at=at(1)),
        ]
        await tx.threads.leave(PLAN.id, EVE.id)
        assert [row.name for row in await tx.threads.participants(PLAN.id)] == ["ada"]


@pytest.mark.spec("GATE-20")
async def test_only_open_threads_in_which_the_agent_is_count(team: Store) -> None:
    async with team.begin_write() as tx:
        assert await tx.threads.count_open_of_agent(ADA.id) == 0
        await tx.threads.join(PLAN.id, ADA.id, at(1))
        await tx.threads.join(WORK.id, ADA.id, at(1))
        assert await tx.threads.count_open_of_agent(ADA.id) == 2
        await tx.threads.close(replace(PLAN, status=ThreadStatus.CLOSED))
        assert await tx.threads.count_open_of_agent(ADA.id) == 1
        await tx.threads.leave(WORK.id, ADA.id)
        assert await tx.threads.count_open_of_agent(ADA.id) == 0
