"""What every store promises of the checks for due passes."""

from dataclasses import replace

import pytest

from circadia.ids import BankId
from circadia.records.agent import Agent, AgentPolicy
from circadia.records.due_work import AgentsCheck, DueCheck
from circadia.records.sleep_pass import SleepState
from circadia.stores.base import Store
from tests.contract.conftest import Opener
from tests.contract.rows import agent, at, session, stored
from tests.contract.test_store_passes import banks_of, said

pytestmark = pytest.mark.spec("LARGE-06")


async def due(store: Store, seconds: float = 100) -> dict[BankId, int]:
    """Return the banks that are due then, with how many rows ask for each."""
    async with store.begin_read() as tx:
        found = await tx.due_checks.find_due(at(seconds), limit=100)
    return {bank_id: len(numbers) for bank_id, numbers in found.banks.items()}


async def settle(store: Store, *checks: DueCheck) -> None:
    """Delete all that asks for a check, and set when these banks are checked again."""
    async with store.begin_write() as tx:
        found = await tx.due_checks.find_due(at(0), limit=100)
        numbers = [number for rows in found.banks.values() for number in rows] + [each.number for each in found.agents]
        await tx.due_checks.settle(numbers, checks)


async def asked_by_agents(store: Store) -> list[tuple[str, bool]]:
    """Return for which bound names agents ask, and delete that."""
    async with store.begin_read() as tx:
        found = await tx.due_checks.find_due(at(0), limit=100)
    await settle(store)
    return [(each.bound_name, each.if_asleep) for each in found.agents]


def bound(name: str, bank: str, *, asleep: bool = False) -> Agent:
    return replace(agent(name, asleep=asleep), policy=AgentPolicy(bank=bank))


async def test_each_change_of_a_bank_asks_for_a_check_until_somebody_has_decided(store: Store) -> None:
    team, quiet = await banks_of(store, "team", "quiet")
    assert set(await due(store)) == {team, quiet}
    await settle(store)
    assert await due(store) == {}
    await said(store, team, "e1", seconds=1)
    assert await due(store) == {team: 1}
    await settle(store)
    async with store.begin_write() as tx:
        await tx.banks.mark_edited(quiet, at(2))
    assert set(await due(store)) == {quiet}
    await settle(store)
    async with store.begin_write() as tx:
        (episode,) = await tx.episodes.find_all(team)
        await tx.episodes.demote(episode.id, ())
        await tx.sleep_states.put(SleepState(bank_id=quiet))
    assert set(await due(store)) == {team, quiet}
    await settle(store)
    async with store.begin_write() as tx:
        await tx.sleep_states.record_gate(team, "empty", "", at(3))
    assert await due(store) == {}, "a decision asks for no other"


async def test_what_is_said_while_somebody_decides_asks_again(open_store: Opener) -> None:
    """Two blocks say something in the bank at once; the check of the one that was not there yet stays."""
    store, other = await open_store(), await open_store()
    (team,) = await banks_of(store, "team")
    async with store.begin_read() as tx:
        seen = (await tx.due_checks.find_due(at(0), limit=100)).banks[team]
    await said(other, team, "e1", seconds=1)
    async with store.begin_write() as tx:
        await tx.due_checks.settle(seen, [DueCheck(bank_id=team, at=None, has_backlog=False)])
    assert await due(store) == {team: 1}


async def test_a_bank_is_due_again_at_its_time_or_when_its_agents_all_sleep(store: Store) -> None:
    team, quiet, empty = await banks_of(store, "team", "quiet", "empty")
    await settle(
        store,
        DueCheck(bank_id=team, at=at(50), has_backlog=True),
        DueCheck(bank_id=quiet, at=None, has_backlog=True),
        DueCheck(bank_id=empty, at=at(50), has_backlog=False),
    )
    assert await due(store, 49) == {}
    assert set(await due(store, 50)) == {team, empty}
    async with store.begin_write() as tx:
        for name in ("team", "quiet", "empty"):
            await tx.due_checks.expand(AgentsCheck(number=0, bound_name=name, if_asleep=True), at(10), limit=100)
    assert set(await due(store, 10)) == {team, quiet}, "asleep or not, nothing waits in the third"
    async with store.begin_write() as tx:
        check = AgentsCheck(number=0, bound_name="empty", if_asleep=False)
        assert [await tx.due_checks.expand(check, at(11), limit=100) for _ in range(2)] == [1, 0]
        await tx.banks.remove(empty)
    assert set(await due(store, 11)) == {team, quiet}


async def test_agents_ask_for_a_check_of_their_bank_when_they_fall_asleep_come_or_go(store: Store) -> None:
    ada, bob = bound("ada", "team"), bound("bob", "of-{user}", asleep=True)
    await stored(store, session(), ada, bob, agent("eve"))
    assert sorted(await asked_by_agents(store)) == [("of-{user}", True), ("team", True)]
    async with store.begin_write() as tx:
        assert not await tx.sleep_states.are_agents_asleep(["team"])
        assert await tx.sleep_states.are_agents_asleep(["of-{user}"])
        assert not await tx.sleep_states.are_agents_asleep(["nobody"])
        await tx.agents.save_sleep_state(replace(ada, asleep=True, generation=2), from_generation=ada.generation)
    assert await asked_by_agents(store) == [("team", True)]
    async with store.begin_write() as tx:
        assert await tx.sleep_states.are_agents_asleep(["team", "of-{user}"])
        await tx.agents.save_sleep_state(replace(ada, asleep=False, generation=3), from_generation=2)
    assert await asked_by_agents(store) == [], "an agent that wakes makes nothing due"
    async with store.begin_write() as tx:
        await tx.agents.save(replace(ada, enabled=False, deleted_at=at(9)))
    assert await asked_by_agents(store) == [("team", True)]


async def test_a_backlog_is_found_among_the_banks_that_were_changed_or_have_one_noted(store: Store) -> None:
    team, _ = await banks_of(store, "team", "quiet")
    await settle(store)
    await said(store, team, "e1", seconds=1)
    async with store.begin_read() as tx:
        assert await tx.sleep_states.find_banks_with_backlog() == [team]
    await settle(store, DueCheck(bank_id=team, at=None, has_backlog=True))
    async with store.begin_read() as tx:
        assert await tx.sleep_states.find_banks_with_backlog() == [team]
    await settle(store, DueCheck(bank_id=team, at=None, has_backlog=False))
    async with store.begin_read() as tx:
        assert await tx.sleep_states.find_banks_with_backlog() == []
        assert await tx.sleep_states.find_banks_with_backlog(noted=False) == [team]
