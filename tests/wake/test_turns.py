"""Who gets a place among the pulses of all agents when one is free."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from circadia.ids import PulseId
from circadia.records.message import Priority
from circadia.records.pulse import PulseStatus
from circadia.records.schedule import Recurrence, RoutineSpec
from circadia.records.wake import Decision, Wake, WakeSource
from circadia.wake.wake_rows import NewWake
from tests.wake.fleet import FREE, LAUNCHED, Fleet, fleet

AGEING_SECONDS = 600.0


@pytest.fixture
async def narrow(folder: Path) -> AsyncIterator[Fleet]:
    """A fleet with one place."""
    async with fleet(folder, settings={"fleet": {"max_concurrent_pulses": 1}}) as made:
        yield made


async def ends(team: Fleet, pulse_id: PulseId | None) -> None:
    """Let the running pulse end, and the worker do what follows."""
    await team.until(pulse_id, PulseStatus.RUNNING)
    assert pulse_id is not None
    team.launcher.end(pulse_id)
    await team.until(pulse_id)
    await team.worker.step()


async def admitted(team: Fleet, wake: Wake) -> bool:
    return (await team.wake(wake)).decision is Decision.ADMITTED


@pytest.mark.spec("WAKE-25", "WAKE-21")
async def test_an_agent_that_is_asked_for_again_and_again_gives_way_to_one_that_waits(narrow: Fleet) -> None:
    lead = await narrow.agent("lead", FREE)
    abe, zoe = await narrow.agent("abe", LAUNCHED, FREE), await narrow.agent("zoe", LAUNCHED, FREE)
    first = await narrow.ask(lead, abe)
    await narrow.worker.step()
    waits = await narrow.ask(lead, zoe)
    narrow.clock.advance(30)
    again = await narrow.ask(lead, abe, "again")
    assert (waits.rule, again.rule) == ("fleet", "busy")
    await ends(narrow, first.pulse_id)
    assert await admitted(narrow, waits)
    assert not await admitted(narrow, again)
    await ends(narrow, (await narrow.wake(waits)).pulse_id)
    assert await admitted(narrow, again)


@pytest.mark.spec("WAKE-25")
@pytest.mark.parametrize("kind", ["high", "routine"])
async def test_what_has_waited_long_enough_goes_before_what_is_more_urgent_and_fresh(narrow: Fleet, kind: str) -> None:
    lead, bob = await narrow.agent("lead", FREE), await narrow.agent("bob", LAUNCHED, FREE)
    current = (await narrow.ask(lead, await narrow.agent("x", LAUNCHED, FREE))).pulse_id
    await narrow.worker.step()
    if kind == "high":
        old = (await narrow.send(lead, bob, "high", wake=None, priority=Priority.HIGH)).wake
    else:
        spec = RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=86400))
        await narrow.routines(bob, spec)
        narrow.at(0, day=4)  # a Monday, as intervals are counted
        await narrow.worker.step()
        old = (await narrow.wakes())[-1]
    assert old is not None
    assert old.rule == "fleet"
    turns = 0
    while not await admitted(narrow, old):
        narrow.clock.advance(AGEING_SECONDS / 5)
        fresh = await narrow.ask(lead, await narrow.agent(f"y{turns}", LAUNCHED, FREE))
        await ends(narrow, current)
        current = (await narrow.wake(fresh)).pulse_id
        turns += 1
        assert turns < 30
    steps = Priority.URGENT.rank - old.priority.rank
    assert turns in (5 * steps, 5 * steps + 1)


@pytest.mark.spec("WAKE-25")
async def test_a_request_that_comes_when_a_place_is_free_does_not_pass_those_that_wait_for_it(narrow: Fleet) -> None:
    lead = await narrow.agent("lead", FREE)
    abe, bob, zoe = [await narrow.agent(name, LAUNCHED, FREE) for name in ("abe", "bob", "zoe")]
    first = await narrow.ask(lead, abe)
    await narrow.worker.step()
    waits = await narrow.ask(lead, zoe)
    await narrow.until(first.pulse_id, PulseStatus.RUNNING)
    assert first.pulse_id is not None
    narrow.launcher.end(first.pulse_id)
    await narrow.until(first.pulse_id)
    narrow.clock.advance(1)
    passing = await narrow.ask(lead, bob)
    assert (passing.decision, passing.rule) == (Decision.DEFERRED, "fleet")
    assert [each.rule for each in passing.trace if not each.passed] == ["fleet"]
    eve = await narrow.agent("eve", LAUNCHED, FREE, {"on_concurrency": "refuse"})
    assert (await narrow.ask(lead, eve)).decision is Decision.REFUSED
    assert (await narrow.ask(None, abe, override="now")).decision is Decision.ADMITTED
    await ends_of_override(narrow, abe.reference)
    assert await admitted(narrow, waits)
    await ends(narrow, (await narrow.wake(waits)).pulse_id)
    assert await admitted(narrow, passing)
    await ends(narrow, (await narrow.wake(passing)).pulse_id)
    assert (await narrow.ask(lead, abe)).decision is Decision.ADMITTED, "nobody waits any more"


@pytest.mark.spec("WAKE-71", "WAKE-25")
@pytest.mark.parametrize("on_concurrency", ["defer", "refuse"])
async def test_explain_tells_that_others_wait_for_the_place_that_is_free(narrow: Fleet, on_concurrency: str) -> None:
    abe, zoe = await narrow.agent("abe", LAUNCHED, FREE), await narrow.agent("zoe", LAUNCHED, FREE)
    bob = await narrow.agent("bob", LAUNCHED, FREE, {"on_concurrency": on_concurrency})
    first = await narrow.ask(None, abe)
    await narrow.worker.step()
    waits = await narrow.ask(None, zoe)
    await narrow.until(first.pulse_id, PulseStatus.RUNNING)
    assert first.pulse_id is not None
    narrow.launcher.end(first.pulse_id)
    await narrow.until(first.pulse_id)
    narrow.clock.advance(1)
    ask = NewWake(target=await narrow.row(bob), source=WakeSource.PERSON, by="operator", reason="user_request")
    async with narrow.store.begin_read() as tx:
        told = await narrow.tier.requests.explain(tx, ask)
    asked = await narrow.ask(None, bob)
    assert (told.decision, told.rule, told.detail) == (asked.decision, asked.rule, asked.detail)
    assert told.rule == "fleet"
    assert [each.rule for each in told.trace if not each.passed] == ["fleet"]
    await narrow.worker.step()
    assert await admitted(narrow, waits)


async def ends_of_override(team: Fleet, agent: str) -> None:
    pulse = next(each for each in (await team.pulses())[::-1] if each.agent == agent)
    await team.worker.step()
    await ends(team, pulse.id)
