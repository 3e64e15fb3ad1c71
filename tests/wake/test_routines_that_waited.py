"""Routines that were due and had to wait: the rules of schedules hold when their turn comes."""

from datetime import timedelta

import pytest

from circadia.records.agent import Agent
from circadia.records.event import EventType
from circadia.records.pulse import Pulse, PulseStatus
from circadia.records.schedule import BlackoutPolicy, Recurrence, RoutineSpec
from circadia.records.wake import Decision, Wake
from tests.wake.asks import running
from tests.wake.fleet import FREE, LAUNCHED, Fleet

ONE = {"max_concurrent_pulse_sessions": 1}
NIGHT = {"blackouts": [{"kind": "recurring", "start": "22:00", "end": "06:00"}]}


async def waiting(team: Fleet, bob: Agent, spec: RoutineSpec) -> tuple[Wake, Pulse]:
    """Have a routine that was due at 21:50 and waits for a pulse to end."""
    await team.routines(bob, spec)
    team.at(21, 40)
    _, pulse = await running(team, bob)
    team.at(21, 50, 1)
    await team.worker.step()
    wake = (await team.wakes())[-1]
    assert (wake.decision, wake.rule) == (Decision.DEFERRED, "max_concurrent_pulse_sessions")
    return wake, pulse


async def its_turn(team: Fleet, wake: Wake, pulse: Pulse) -> Wake:
    team.launcher.end(pulse.id)
    await team.until(pulse.id)
    await team.worker.step()
    return await team.wake(wake)


async def skips(team: Fleet, bob: Agent) -> tuple[int, list[object]]:
    """Return the count of skips, and the reasons that the events tell."""
    async with team.store.begin_read() as tx:
        (routine,) = await tx.routines.find_by_agent(bob.id)
    told = [each.data for each in await team.events(EventType.ROUTINE)]
    return routine.skips, [each["reason"] for each in told if each.get("verdict") == "skipped"]


@pytest.mark.spec("WAKE-42", "WAKE-46")
@pytest.mark.parametrize("policy", list(BlackoutPolicy))
@pytest.mark.parametrize("of", ["routine", "agent"])
async def test_a_routine_whose_turn_comes_in_a_blackout_does_as_its_policy_says(
    team: Fleet, of: str, policy: BlackoutPolicy
) -> None:
    settings = {"blackout_policies": {"schedule": policy.value}} if of == "agent" else {}
    bob = await team.agent("bob", LAUNCHED, FREE, ONE, NIGHT, settings)
    own = policy if of == "routine" else None
    rule = Recurrence(cron="50 21 * * *")
    wake, pulse = await waiting(
        team, bob, RoutineSpec(name="r", instructions="do", recurrence=rule, blackout_policy=own)
    )
    team.at(22, 30)
    decided = await its_turn(team, wake, pulse)
    if policy is BlackoutPolicy.RUN:
        assert decided.decision is Decision.ADMITTED
        return
    assert len(await team.pulses()) == 1
    if policy is BlackoutPolicy.SKIP:
        assert (decided.decision, decided.rule) == (Decision.REFUSED, "blackout")
        assert await skips(team, bob) == (1, [decided.detail])
        return
    morning = team.clock.now().replace(hour=6, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert (decided.decision, decided.rule, decided.not_before) == (Decision.DEFERRED, "blackout", morning)
    team.at(6, day=1)
    await team.worker.step()
    decided = await team.wake(wake)
    assert decided.decision is Decision.ADMITTED
    await team.until(decided.pulse_id, PulseStatus.RUNNING)


@pytest.mark.spec("WAKE-46")
async def test_a_routine_whose_turn_comes_with_nothing_left_to_do_is_skipped_and_counted(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE, ONE, {"max_consecutive_skips": 1})
    sent = await team.send(None, bob, "for information", wake=None)
    spec = RoutineSpec(name="r", recurrence=Recurrence(cron="50 21 * * *"))
    await team.routines(bob, spec)
    team.at(21, 40)
    _, pulse = await running(team, bob)
    later = await team.send(None, bob, "came meanwhile", wake=None)
    team.at(21, 50, 1)
    await team.worker.step()
    wake = (await team.wakes())[-1]
    assert wake.rule == "max_concurrent_pulse_sessions"
    async with team.store.begin_write() as tx:
        await team.tier.inbox.ack(tx, await team.row(bob), [sent.message.id, later.message.id])
    decided = await its_turn(team, wake, pulse)
    assert (decided.decision, decided.detail) == (Decision.CANCELLED, "skipped: no instructions and nothing unread")
    assert await skips(team, bob) == (1, ["skipped: no instructions and nothing unread"])
    assert [each.data["cause"] for each in await team.events(EventType.ALERT)] == ["routine_skipped"]
    assert len(await team.pulses()) == 1


@pytest.mark.spec("WAKE-46", "WAKE-22")
@pytest.mark.parametrize("how", ["refused", "expired"])
async def test_a_routine_that_waits_in_vain_is_counted_as_skipped_with_the_reason(team: Fleet, how: str) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE, ONE, {"defer_max_seconds": 600})
    rule = Recurrence(cron="50 21 * * *")
    wake, pulse = await waiting(team, bob, RoutineSpec(name="r", instructions="do", recurrence=rule))
    if how == "refused":
        await team.patch(bob, wakes_enabled=False)
    else:
        team.clock.advance(600)
    decided = await its_turn(team, wake, pulse)
    assert decided.decision is Decision(how)
    count, reasons = await skips(team, bob)
    assert count == 1
    assert reasons == [decided.detail]


@pytest.mark.spec("WAKE-45", "WAKE-42")
async def test_an_unchanged_routine_keeps_the_run_that_waits_when_another_one_is_put(team: Fleet) -> None:
    settings = {"blackout_policies": {"schedule": "defer"}}
    bob = await team.agent("bob", LAUNCHED, FREE, NIGHT, settings)
    spec = RoutineSpec(name="r", instructions="do", recurrence=Recurrence(cron="30 22 * * *"))
    await team.routines(bob, spec)
    team.at(22, 30)
    await team.worker.step()
    assert await team.pulses() == []
    await team.routines(bob, spec, RoutineSpec(name="other", recurrence=Recurrence(cron="0 12 * * *")))
    team.at(6, day=1)
    await team.worker.step()
    assert [wake.routine for wake in await team.wakes(Decision.ADMITTED)] == ["r"]
