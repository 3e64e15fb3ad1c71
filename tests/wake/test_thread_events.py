"""What befalls launched agents in threads, and gates that are open though nothing was launched."""

import pytest

from circadia.records.agent import Agent, WakeEvent
from circadia.records.pulse import PulseKind, PulseStatus
from circadia.records.schedule import Recurrence, RoutineSpec
from circadia.records.wake import Charge, Decision, Wake, WakeSource
from tests.wake.asks import minutes_today, rails, running
from tests.wake.fleet import FREE, LAUNCHED, Fleet


async def befalls(team: Fleet, agent: Agent, event: WakeEvent, *, by: str = "ann") -> None:
    async with team.store.begin_write() as tx:
        row = await team.row(agent)
        await team.registry.change(tx, row, wake_events=frozenset(WakeEvent), by="operator")
    async with team.store.begin_write() as tx:
        await team.tier.control.on_event(tx, await team.row(agent), event, by=by)


async def last_wake(team: Fleet) -> Wake:
    return (await team.wakes())[-1]


@pytest.mark.spec("WAKE-07", "WAKE-56")
@pytest.mark.parametrize("event", list(WakeEvent))
async def test_an_event_launches_an_agent_that_does_not_run_and_no_guardrail_is_asked(
    team: Fleet, event: WakeEvent
) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, rails(max_wakes_per_day=0))
    await befalls(team, bob, event)
    wake = await last_wake(team)
    assert (wake.source, wake.decision, wake.charge) == (WakeSource.THREAD, Decision.ADMITTED, Charge.NONE)
    pulse = await team.pulse(wake.pulse_id)
    assert (pulse.kind, pulse.status, pulse.launcher) == (PulseKind.WAKE, PulseStatus.PENDING, "fake")
    assert (await team.row(bob)).asleep
    await befalls(team, bob, event)
    assert (await last_wake(team)).decision is Decision.COALESCED
    await team.run(pulse.id, seconds=30)
    assert event.value in team.launcher.launches[0].prompt
    assert (await team.row(bob)).asleep
    assert [each.kind for each in await team.pulses()] == [PulseKind.WAKE]
    assert await minutes_today(team, bob) == 30
    assert (await team.ask(ann, bob)).rule == "max_wakes_per_day"


@pytest.mark.spec("WAKE-07", "WAKE-55", "WAKE-56")
async def test_an_event_while_the_server_stops_launches_the_agent_after_the_start(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED)
    await team.worker.drain(0)
    await befalls(team, bob, WakeEvent.MENTIONED)
    waiting = await last_wake(team)
    assert (waiting.decision, waiting.rule) == (Decision.DEFERRED, "draining")
    await team.stop()
    await team.worker.step()
    decided = await team.wake(waiting)
    assert (decided.decision, decided.charge) == (Decision.ADMITTED, Charge.NONE)
    await team.until(decided.pulse_id, PulseStatus.RUNNING)


@pytest.mark.spec("WAKE-07", "WAKE-20")
async def test_an_event_does_not_launch_an_agent_that_is_disabled(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED)
    async with team.store.begin_write() as tx:
        await team.registry.change(tx, bob, enabled=False, by="operator")
    await befalls(team, bob, WakeEvent.MENTIONED)
    assert ((await last_wake(team)).decision, (await last_wake(team)).rule) == (Decision.REFUSED, "enabled")
    assert await team.pulses() == []


@pytest.mark.spec("WAKE-56", "WAKE-21", "WAKE-53")
@pytest.mark.parametrize("how", ["gate", "wake"])
async def test_an_agent_that_gets_a_launcher_while_it_is_awake_sleeps_and_can_be_woken(team: Fleet, how: str) -> None:
    ann, bob = await team.agent("ann", FREE), await team.agent("bob", FREE)
    if how == "gate":
        await team.sleep(bob, False)
    else:
        await team.ask(ann, bob)
    team.clock.advance(60)
    await team.patch(bob, prompt_tokens=1000)
    assert not (await team.row(bob)).asleep
    await team.patch(bob, launcher="fake")
    assert (await team.row(bob)).asleep
    assert [each.status for each in await team.pulses()] == [PulseStatus.SUCCEEDED]
    team.clock.advance(7200)
    assert await minutes_today(team, bob) == 60
    wake = await team.ask(ann, bob)
    assert wake.decision is Decision.ADMITTED
    await team.run(wake.pulse_id)


@pytest.mark.spec("WAKE-56")
async def test_an_agent_that_loses_its_launcher_while_it_runs_ends_that_run(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    _, pulse = await running(team, bob)
    await team.patch(bob, launcher="resident")
    assert not (await team.row(bob)).asleep
    team.launcher.end(pulse.id)
    await team.until(pulse.id)
    assert (await team.row(bob)).asleep


@pytest.mark.spec("WAKE-56", "WAKE-20", "WAKE-10")
async def test_a_gate_that_the_operator_opened_is_closed_by_the_end_of_the_last_pulse(team: Fleet) -> None:
    ann, bob = await team.agent("ann", FREE), await team.agent("bob", LAUNCHED, FREE)
    await team.sleep(bob, False)
    wake = await team.ask(ann, bob)
    assert wake.rule == "busy"
    await team.routines(bob, RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60)))
    team.clock.advance(60)
    await team.worker.step()
    pulse = (await team.pulses())[-1]
    assert pulse.kind is PulseKind.SCHEDULE
    await team.run(pulse.id)
    assert (await team.row(bob)).asleep
    assert {each.status for each in await team.pulses()} == {PulseStatus.SUCCEEDED}
    await team.worker.step()
    assert (await team.wake(wake)).decision is not Decision.DEFERRED
