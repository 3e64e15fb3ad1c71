"""Two servers on one database: what one changes of an agent, the other knows after its next sweep."""

import asyncio
from dataclasses import dataclass

import pytest

from circadia.agents.change_follower import AgentChangeFollower
from circadia.agents.database_contact import DatabaseContact
from circadia.agents.identity import Identity
from circadia.agents.presence import Presence
from circadia.agents.registry import AgentRegistry
from circadia.errors import TargetGone, Unauthenticated
from circadia.ids import hash_token, new_token
from circadia.jobs.loops import DueWatch
from circadia.records.agent import Agent, AgentPolicy, Cause
from circadia.server.memory_wiring import build_memory_services
from circadia.server.sleeptime_wiring import build_sleeptime
from circadia.server.wake_wiring import build_wake_services
from circadia.settings import Settings
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.testing.clock import ManualClock
from tests.contract.conftest import Opener
from tests.contract.rows import T0, agent, number_events, session, stored
from tests.recording.statement_recorder import SentStatement, recorded
from tests.wake.fleet import CountedIds

pytestmark = pytest.mark.spec("GATE-42")


@dataclass(frozen=True, kw_only=True)
class LocalServer:
    """What a server knows of agents."""

    identity: Identity
    presence: Presence
    following: AgentChangeFollower
    signals: LocalSignals


class OtherServer:
    """Another server, which changes agents."""

    def __init__(self, store: Store) -> None:
        self.clock, ids, signals = ManualClock(T0), CountedIds(), LocalSignals()
        self.store = store
        settings = Settings.model_validate({})
        events = EventLog(self.clock, signals)
        self.tier = build_wake_services(settings, self.clock, ids, events)
        memory = build_memory_services(settings, self.clock, ids, events, None)
        self.dreams = build_sleeptime(settings, self.clock, ids, memory)
        self.registry = AgentRegistry(self.clock, ids, events, AgentPolicy(), self.tier.pulses.on_agent_deleted)

    async def sleep(self, ada: Agent, *, asleep: bool) -> None:
        async with self.store.begin_write() as tx:
            await self.tier.sleep.change_sleep(tx, ada.id, asleep=asleep, cause=Cause.OPERATOR, actor="operator")

    async def rotate(self, ada: Agent) -> str:
        async with self.store.begin_write() as tx:
            return await self.registry.rotate(tx, ada, by="operator")

    async def delete(self, ada: Agent) -> None:
        async with self.store.begin_write() as tx:
            await self.registry.delete(tx, ada, by="operator")


@pytest.fixture
async def elsewhere(store: Store) -> OtherServer:
    return OtherServer(store)


@pytest.fixture
async def here(open_store: Opener, elsewhere: OtherServer) -> LocalServer:
    own, signals = await open_store(), LocalSignals()
    identity, presence = Identity(own, signals, admin_token_hashes=["none"]), Presence(own, signals)
    clock = ManualClock(T0)
    contact = DatabaseContact(clock, is_shared=True, grace_seconds=30)
    following = AgentChangeFollower(clock, own, identity, presence, DueWatch(clock, own), contact)
    await following.sweep()
    return LocalServer(identity=identity, presence=presence, following=following, signals=signals)


async def follow(server: LocalServer, elsewhere: OtherServer) -> None:
    """Let the server look once; the other has numbered its events."""
    await number_events(elsewhere.store)
    await server.following.sweep()


async def test_a_token_that_is_rotated_elsewhere_opens_nothing_here(here: LocalServer, elsewhere: OtherServer) -> None:
    ada = agent()
    await stored(elsewhere.store, session(), ada)
    old = await elsewhere.rotate(ada)
    await follow(here, elsewhere)
    assert (await here.identity.authenticate(old)).agent is not None
    new = await elsewhere.rotate(ada)
    await follow(here, elsewhere)
    with pytest.raises(Unauthenticated):
        await here.identity.authenticate(old)
    known = (await here.identity.authenticate(new)).agent
    assert known is not None
    assert known.token_hash == hash_token(new)


async def test_a_call_that_is_held_here_goes_on_when_its_agent_is_woken_elsewhere(
    here: LocalServer, elsewhere: OtherServer
) -> None:
    ada = agent(asleep=True)
    await stored(elsewhere.store, session(), ada)
    cell = await here.presence.fetch_cell(ada.id)
    held = asyncio.create_task(here.presence.wait_until_awake(cell, object()))
    await asyncio.sleep(0)
    elsewhere.clock.advance(30)
    await elsewhere.sleep(ada, asleep=False)
    assert not held.done()
    await elsewhere.rotate(ada)
    await follow(here, elsewhere)
    await held
    assert cell.slept_seconds == 30
    await elsewhere.sleep(ada, asleep=True)
    await follow(here, elsewhere)
    assert cell.asleep


async def test_a_call_that_is_held_here_ends_with_its_agent_elsewhere(
    here: LocalServer, elsewhere: OtherServer
) -> None:
    ada = agent(asleep=True)
    await stored(elsewhere.store, session(), ada)
    cell = await here.presence.fetch_cell(ada.id)
    held = asyncio.create_task(here.presence.wait_until_awake(cell, object()))
    await asyncio.sleep(0)
    await elsewhere.delete(ada)
    await follow(here, elsewhere)
    with pytest.raises(TargetGone, match="deleted"):
        await held
    with pytest.raises(Unauthenticated):
        await here.identity.authenticate(new_token("agent"))


async def test_an_older_agent_of_the_same_name_ends_too(here: LocalServer, elsewhere: OtherServer) -> None:
    first, then = agent(asleep=True), agent(key="agt_2")
    await stored(elsewhere.store, session(), first)
    cell = await here.presence.fetch_cell(first.id)
    held = asyncio.create_task(here.presence.wait_until_awake(cell, object()))
    await asyncio.sleep(0)
    await elsewhere.delete(first)
    await stored(elsewhere.store, then)
    await follow(here, elsewhere)
    with pytest.raises(TargetGone):
        await held


@pytest.mark.spec("CLU-12")
async def test_an_agent_that_is_woken_elsewhere_goes_on_before_anybody_has_numbered_the_event(
    here: LocalServer, elsewhere: OtherServer
) -> None:
    ada, bob = agent(asleep=True), agent("bob", asleep=True)
    await stored(elsewhere.store, session(), ada, bob)
    cells = [await here.presence.fetch_cell(each.id) for each in (ada, bob)]
    await elsewhere.sleep(ada, asleep=False)
    await here.following.sweep()
    assert [cell.asleep for cell in cells] == [False, True]


@pytest.mark.spec("LARGE-06")
async def test_a_sweep_sends_and_reads_only_the_agents_that_were_changed(
    here: LocalServer, elsewhere: OtherServer
) -> None:
    agents = [agent(f"a{number:02}", asleep=True) for number in range(50)]
    await stored(elsewhere.store, session(), *agents)
    for each in agents:
        await here.presence.fetch_cell(each.id)
    await follow(here, elsewhere)
    sent: list[SentStatement] = []
    with recorded(sent.append):
        await here.following.sweep()
    assert len(sent) == 1, "nothing was changed, so it only looks whether anything was"
    await elsewhere.sleep(agents[7], asleep=False)
    await number_events(elsewhere.store)
    sent.clear()
    with recorded(sent.append):
        await here.following.sweep()
    values = [str(statement.values) for statement in sent]
    assert not any(
        each.id in value or f"'{each.name}'" in value for each in agents if each is not agents[7] for value in values
    )
    assert sum(f"'{agents[7].name}'" in value for value in values) == 1
    assert not here.presence.ensure_cell(agents[7].id).asleep
