"""What every store promises of sessions."""

from dataclasses import replace

import pytest

from circadia.errors import Conflict
from circadia.ids import SessionId
from circadia.records.session import SessionStatus
from circadia.stores.base import Store
from tests.contract.rows import agent, at, session, stored


async def test_a_session_comes_back_as_it_was_stored(store: Store) -> None:
    one = replace(session("team"), closed_at=at(7.000001), status=SessionStatus.CLOSED, stalled=True)
    await stored(store, one)
    async with store.begin_read() as tx:
        assert await tx.sessions.get(one.id) == one
        assert await tx.sessions.get(SessionId("ses_unknown")) is None


async def test_an_open_session_keeps_its_name_to_itself(store: Store) -> None:
    await stored(store, session("team", key="ses_1"))
    async with store.begin_write() as tx:
        with pytest.raises(Conflict):
            await tx.sessions.add(session("team", key="ses_2"))
        await tx.sessions.add(session("other"))  # a conflict does not spoil the block
    async with store.begin_read() as tx:
        assert {row.name for row in await tx.sessions.find_all()} == {"team", "other"}


async def test_the_name_of_a_closed_session_can_be_taken_again(store: Store) -> None:
    first, second, third = (session("team", key=f"ses_{n}", created=n) for n in (1, 2, 3))
    async with store.begin_write() as tx:
        for row, closed in ((first, 20), (second, 10)):
            await tx.sessions.add(row)
            await tx.sessions.save(replace(row, status=SessionStatus.CLOSED, closed_at=at(closed)))
        closed_last = await tx.sessions.get_by_name("team")
        await tx.sessions.add(third)
        assert await tx.sessions.get_by_name("team") == third
        assert await tx.sessions.get_by_name("nobody") is None
        assert [row.id for row in await tx.sessions.find_all()] == [third.id]
        assert [row.id for row in await tx.sessions.find_all(closed=True)] == [first.id, second.id, third.id]
    assert closed_last is not None
    assert closed_last.id == first.id


async def test_save_writes_what_may_change_and_nothing_else(store: Store) -> None:
    one = session("team")
    await stored(store, one)
    changed = replace(
        one, status=SessionStatus.CLOSED, closed_at=at(3), touched_at=at(2), stalled=True, name="x", created_at=at(9)
    )
    async with store.begin_write() as tx:
        await tx.sessions.save(changed)
    async with store.begin_read() as tx:
        assert await tx.sessions.get(one.id) == replace(changed, name="team", created_at=one.created_at)


@pytest.mark.spec("GATE-73")
async def test_silent_sessions_are_open_untold_and_all_asleep(store: Store) -> None:
    quiet, busy, empty, told, fresh = (session(name) for name in ("quiet", "busy", "empty", "told", "fresh"))
    await stored(store, quiet, busy, empty, replace(told, stalled=True), replace(fresh, touched_at=at(11)))
    await stored(store, *(agent(of=name, asleep=True) for name in ("quiet", "busy", "told", "fresh")))
    await stored(store, agent("eve", of="busy"))
    gone = agent("gone", of="quiet")
    await stored(store, gone)
    async with store.begin_write() as tx:
        await tx.agents.save(replace(gone, deleted_at=at(1)))
    async with store.begin_read() as tx:
        assert [row.name for row in await tx.sessions.find_silent_since(at(10))] == ["quiet"]
        assert [row.name for row in await tx.sessions.find_silent_since(at(0))] == ["quiet"]
        assert await tx.sessions.find_silent_since(at(-1)) == []


@pytest.mark.spec("GATE-73")
async def test_a_touch_ends_the_stall(store: Store) -> None:
    one = replace(session("team"), stalled=True)
    await stored(store, one)
    async with store.begin_write() as tx:
        await tx.sessions.touch(one.id, at(5))
    await store.save_touches()
    async with store.begin_read() as tx:
        assert await tx.sessions.get(one.id) == replace(one, touched_at=at(5), stalled=False)
