"""Settings of wakes by the file and by people: for each key the later one holds, and a change can be taken back."""

from collections.abc import Mapping

import pytest

from circadia.errors import InvalidRequest, NotFound
from circadia.records.agent import Agent
from circadia.records.coordination import SettingSource
from circadia.records.event import EventType
from circadia.records.wake import Decision
from tests.wake.asks import rails
from tests.wake.fleet import FREE, LAUNCHED, Fleet

pytestmark = pytest.mark.spec("WAKE-16")

DAY = "wake_guardrails.max_wakes_per_day"


async def read(team: Fleet, agent: Agent, most: object) -> None:
    """Read a file that states this limit of the day, and nothing else; `...` states nothing."""
    stated: Mapping[str, object] = {} if most is ... else {DAY: most}
    async with team.store.begin_write() as tx:
        await team.tier.coordinations.apply_file(tx, await team.row(agent), stated)


async def reset(team: Fleet, agent: Agent, key: str = DAY) -> None:
    async with team.store.begin_write() as tx:
        await team.tier.coordinations.reset(tx, await team.row(agent), key, by="operator")


async def limit(team: Fleet, agent: Agent) -> tuple[object, SettingSource]:
    row = await team.row(agent)
    made = row.settings.get(DAY)
    source = SettingSource.DEFAULT if made is None else made.source
    return row.coordination.wake_guardrails.max_wakes_per_day, source


@pytest.mark.parametrize("stated", [7, None])
async def test_of_file_and_change_the_later_one_holds_also_where_the_file_says_null(
    team: Fleet, stated: int | None
) -> None:
    bob = await team.agent("bob", rails(max_wakes_per_day=4))
    await read(team, bob, stated)
    assert await limit(team, bob) == (stated, SettingSource.FILE)
    await team.patch(bob, **rails(max_wakes_per_day=5))
    await read(team, bob, stated)
    assert await limit(team, bob) == (5, SettingSource.PATCH)
    await read(team, bob, 9)
    assert await limit(team, bob) == (9, SettingSource.FILE)
    await read(team, bob, ...)
    assert await limit(team, bob) == (12, SettingSource.DEFAULT)


@pytest.mark.parametrize("stated", [7, None])
async def test_what_is_taken_back_is_again_as_the_file_says(team: Fleet, stated: int | None) -> None:
    bob = await team.agent("bob")
    await read(team, bob, stated)
    await team.patch(bob, **rails(max_wakes_per_day=5))
    await read(team, bob, stated)
    await reset(team, bob)
    assert await limit(team, bob) == (stated, SettingSource.FILE)
    await read(team, bob, stated)
    assert await limit(team, bob) == (stated, SettingSource.FILE)


async def test_what_the_file_no_longer_says_is_the_default_again_when_it_is_taken_back(team: Fleet) -> None:
    bob = await team.agent("bob")
    await read(team, bob, None)
    await team.patch(bob, **rails(max_wakes_per_day=5))
    await read(team, bob, ...)
    assert await limit(team, bob) == (5, SettingSource.PATCH)
    await reset(team, bob)
    assert await limit(team, bob) == (12, SettingSource.DEFAULT)


async def test_a_change_that_is_taken_back_is_recorded_and_looks_again_at_what_waits(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, FREE, {"max_concurrent_pulse_sessions": 0})
    wake = await team.ask(ann, bob)
    assert wake.decision is Decision.DEFERRED
    await reset(team, bob, "max_concurrent_pulse_sessions")
    told = (await team.events(EventType.COORDINATION))[-1]
    assert told.data == {"by": "operator", "changed": {"max_concurrent_pulse_sessions": 2}}
    await team.worker.step()
    assert (await team.wake(wake)).decision is Decision.ADMITTED


async def test_only_a_change_can_be_taken_back_and_only_of_a_key_that_there_is(team: Fleet) -> None:
    bob = await team.agent("bob")
    await read(team, bob, 7)
    before = await team.row(bob)
    await reset(team, bob)
    await reset(team, bob, "on_busy")
    assert await team.row(bob) == before
    with pytest.raises(NotFound, match=f"did you mean '{DAY}'"):
        await reset(team, bob, "max_wakes_per_day")


async def test_what_does_not_go_with_the_other_settings_is_not_taken_back(team: Fleet) -> None:
    bob = await team.agent("bob", {"launcher": "fake"})
    async with team.store.begin_write() as tx:
        row = await team.tier.coordinations.apply_file(tx, await team.row(bob), {"launcher": "missing"})
        await team.tier.coordinations.patch(tx, row, {"launcher": "fake"}, by="operator")
    launchers = {"resident", "fake"}
    fewer = type(team.tier.coordinations)(team.clock, team.event_log, team.tier.routines, team.tier.pulses, launchers)
    with pytest.raises(InvalidRequest, match="'missing'"):
        async with team.store.begin_write() as tx:
            await fewer.reset(tx, await team.row(bob), "launcher", by="operator")
    assert (await team.row(bob)).coordination.launcher == "fake"


@pytest.mark.parametrize("turned", [False, True])
async def test_a_key_that_is_given_nested_and_by_its_flat_name_is_refused(team: Fleet, *, turned: bool) -> None:
    bob = await team.agent("bob")
    forms: list[tuple[str, object]] = [("wake_guardrails", {"max_wakes_per_day": 4}), (DAY, 9)]
    with pytest.raises(InvalidRequest, match=f"'{DAY}' is given twice"):
        await team.patch(bob, **dict(reversed(forms) if turned else forms))
    assert (await limit(team, bob))[1] is SettingSource.DEFAULT
