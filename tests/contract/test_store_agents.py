"""What every store promises of agents."""

import asyncio
from dataclasses import replace

import pytest

from circadia.errors import Conflict, StorageUnavailable
from circadia.ids import AgentId
from circadia.records.agent import Agent, AgentPolicy, Cause, OnWake, SleepEvent, WakeEvent
from circadia.records.coordination import RESIDENT, Setting, SettingSource, build_coordination
from circadia.records.session import SessionStatus
from circadia.stores.base import Store
from tests.contract.conftest import Opener
from tests.contract.rows import agent, at, event, session, stored


def full() -> Agent:
    """An agent in which every field differs from its default."""
    return replace(
        agent(),
        enabled=False,
        asleep=True,
        generation=2**40,
        since=at(0.000001),
        cause=Cause.TOOL,
        actor="eve",
        sleep_events=frozenset({SleepEvent.AGENT_STARTED, SleepEvent.LAST_THREAD_CLOSED}),
        wake_events=frozenset(WakeEvent),
        policy=AgentPolicy(
            upstreams=("openai",),
            mcp_servers=(),
            sessions=("other",),
            may_wake=("a", "b"),
            may_sleep=("*",),
            models=("gpt", "claude"),
            max_calls_per_day=1,
            max_tokens_per_day=2,
            max_usd_per_day=0.1,
            on_wake=OnWake.REFRESH,
            include_usage=False,
            hold_max_seconds=1.5,
            hold_lists=True,
            abort_streams=True,
        ),
        description="Grüße 👋\n\"'",
        deleted_at=None,
    )


@pytest.mark.spec("GATE-03", "GATE-05")
@pytest.mark.parametrize("one", [agent(), full()], ids=["plain", "full"])
async def test_an_agent_comes_back_as_it_was_stored(store: Store, open_store: Opener, one: Agent) -> None:
    await stored(store, session(), one)
    await store.close()
    after_restart = await open_store()
    async with after_restart.begin_read() as tx:
        assert await tx.agents.get(one.id) == one
        assert await tx.agents.get_by_token(one.token_hash) == one
        assert await tx.agents.get_by_name(one.session_id, one.name) == one
        assert await tx.agents.get_by_name(one.session_id, "nobody") is None
        assert await tx.agents.get_by_token("no such hash") is None
        assert await tx.agents.get(AgentId("agt_unknown")) is None


async def test_an_agents_name_is_unique_in_its_session_only(store: Store) -> None:
    await stored(store, session("one"), session("two"), agent(of="one"), agent(of="two"))
    async with store.begin_write() as tx:
        with pytest.raises(Conflict):
            await tx.agents.add(agent(of="one", key="agt_other"))
        await tx.agents.add(agent("eve", of="one"))
        assert [row.name for row in await tx.agents.find_by_session(session("one").id)] == ["ada", "eve"]


@pytest.mark.spec("GATE-07")
async def test_a_deleted_agent_is_found_by_id_only_and_frees_its_name(store: Store) -> None:
    one = agent()
    await stored(store, session(), one)
    async with store.begin_write() as tx:
        await tx.agents.save(replace(one, deleted_at=at(1)))
        await tx.agents.add(agent(key="agt_again"))
    async with store.begin_read() as tx:
        assert await tx.agents.get(one.id) == replace(one, deleted_at=at(1))
        assert await tx.agents.get_by_token(one.token_hash) is None
        by_name = await tx.agents.get_by_name(one.session_id, one.name)
        assert by_name is not None
        assert by_name.id == "agt_again"
        assert [row.id for row in await tx.agents.find_by_session(one.session_id)] == ["agt_again"]


async def test_agents_of_a_session_come_by_name(store: Store) -> None:
    names = ["b-a", "b", "a_b", "ab", "a-b", "0", "a"]
    await stored(store, session(), *(agent(name) for name in names))
    async with store.begin_read() as tx:
        assert [row.name for row in await tx.agents.find_by_session(session().id)] == sorted(names)


async def test_save_leaves_the_sleep_state_and_move_leaves_the_rest(store: Store) -> None:
    before = agent()
    await stored(store, session(), before)
    other = full()
    async with store.begin_write() as tx:
        await tx.agents.save(other)
        saved = await tx.agents.get(before.id)
        assert saved == replace(
            other, asleep=False, generation=0, since=before.since, cause=before.cause, actor=before.actor
        )
        await tx.agents.save_sleep_state(replace(other, description="not written"), from_generation=0)
        assert await tx.agents.get(before.id) == other


async def test_a_name_that_is_taken_cannot_be_saved(store: Store) -> None:
    await stored(store, session(), agent("ada"), agent("eve"))
    with pytest.raises(Conflict):
        async with store.begin_write() as tx:
            await tx.agents.save(replace(agent("eve"), name="ada"))
    async with store.begin_read() as tx:
        assert [row.name for row in await tx.agents.find_by_session(session().id)] == ["ada", "eve"]


@pytest.mark.spec("GATE-03", "GATE-04")
async def test_of_many_moves_from_one_generation_only_one_is_written(open_store: Opener) -> None:
    stores = [await open_store(), await open_store()]
    await stored(stores[0], session(), agent())

    async def move(n: int) -> bool:
        try:
            async with stores[n % 2].begin_write() as tx:
                wish = replace(agent(), asleep=True, generation=1, actor=f"actor {n}")
                await tx.agents.save_sleep_state(wish, from_generation=0)
        except Conflict:
            return False
        return True

    moved = await asyncio.gather(*(move(n) for n in range(20)))
    assert moved.count(True) == 1
    async with stores[0].begin_read() as tx:
        found = await tx.agents.get(agent().id)
    assert found is not None
    assert (found.generation, found.actor) == (1, f"actor {moved.index(True)}")


@pytest.mark.spec("GATE-03", "GATE-04")
@pytest.mark.parametrize("count", [2, 20])
async def test_a_block_that_moves_agents_writes_nothing_if_one_of_them_has_moved_on(store: Store, count: int) -> None:
    rows = [agent(f"agent-{number:02}") for number in range(count)]
    await stored(store, session(), *rows)

    async def move() -> None:
        async with store.begin_write() as tx:
            for row in rows:
                known = int(row.name == "agent-01")
                await tx.agents.save_sleep_state(replace(row, asleep=True, generation=known + 1), from_generation=known)
            await tx.events.add([event(1)])

    with pytest.raises(Conflict, match="agent-01"):
        await move()
    async with store.begin_read() as tx:
        assert await tx.agents.find_by_session(session().id) == rows
        assert await tx.events.last_number() == 0
    async with store.begin_write() as tx:
        for row in rows:
            await tx.agents.save_sleep_state(replace(row, asleep=True, generation=1), from_generation=0)
            await tx.agents.save_sleep_state(replace(row, generation=2), from_generation=1)
    async with store.begin_read() as tx:
        assert await tx.agents.find_by_session(session().id) == [replace(row, generation=2) for row in rows]


async def test_an_agent_that_a_block_has_read_is_changed_by_nobody_else_until_it_ends(open_store: Opener) -> None:
    stores = [await open_store(), await open_store()]
    await stored(stores[0], session(), agent())

    async def count(n: int) -> None:
        async with stores[n % 2].begin_write() as tx:
            found = await tx.agents.get(agent().id)
            assert found is not None
            moved = replace(found, generation=found.generation + 1)
            await tx.agents.save_sleep_state(moved, from_generation=found.generation)

    await asyncio.gather(*(count(n) for n in range(20)))
    async with stores[1].begin_read() as tx:
        found = await tx.agents.get(agent().id)
    assert found is not None
    assert found.generation == 20


async def test_an_agent_of_no_session_is_refused_and_its_block_undone(store: Store) -> None:
    async def add() -> None:
        async with store.begin_write() as tx:
            await tx.sessions.add(session("other"))
            await tx.agents.add(agent())

    async def add_and_go_on() -> None:
        async with store.begin_write() as tx:
            await tx.sessions.add(session("other"))
            with pytest.raises(Conflict):
                await tx.agents.add(agent())

    with pytest.raises(Conflict):
        await add()
    with pytest.raises(StorageUnavailable):
        await add_and_go_on()
    async with store.begin_read() as tx:
        assert await tx.sessions.find_all() == []


async def test_agents_of_open_sessions_are_listed(store: Store) -> None:
    rows = [agent("b-a"), agent("b", asleep=True), replace(agent("off"), enabled=False), agent("ada", of="a")]
    closed = replace(session("shut"), status=SessionStatus.CLOSED)
    await stored(store, session(), session("a"), closed, *rows, agent("eve", of="shut"))
    async with store.begin_write() as tx:
        await tx.agents.add(agent("gone"))
    async with store.begin_write() as tx:
        await tx.agents.save(replace(agent("gone"), deleted_at=at(1)))
    async with store.begin_read() as tx:
        listed = await tx.agents.find_in_open_sessions(limit=10)
        assert [(row.session, row.name) for row in listed] == [
            ("a", "ada"), ("default", "b"), ("default", "b-a"), ("default", "off")
        ]  # fmt: skip
        assert len(await tx.agents.find_in_open_sessions(limit=2)) == 2


@pytest.mark.spec("WAKE-87")
async def test_launched_agents_that_are_awake_are_found(store: Store) -> None:
    def launched(one: Agent, launcher: str = "away") -> Agent:
        setting = Setting(value=launcher, source=SettingSource.PATCH, at=at(1))
        return replace(
            one, settings={"launcher": setting}, coordination=build_coordination({"launcher": launcher})
        )  # fmt: skip

    awake, resident = launched(agent("ada")), launched(agent("eve"), RESIDENT)
    await stored(store, session(), awake, launched(agent("bob", asleep=True)), resident, agent("zoe"))
    async with store.begin_read() as tx:
        assert [row.name for row in await tx.agents.find_awake_launched()] == ["ada"]
    async with store.begin_write() as tx:
        await tx.agents.save(replace(awake, deleted_at=at(2)))
    async with store.begin_read() as tx:
        assert await tx.agents.find_awake_launched() == []
