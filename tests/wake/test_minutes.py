"""How long pulses may run, what counts as running, and whose gate is open."""

import pytest

from circadia.records.pulse import PulseKind, PulseStatus
from circadia.records.schedule import Recurrence, RoutineSpec
from circadia.records.wake import Decision, WakeSource
from circadia.wake.wake_rows import NewWake
from tests.fixtures.leap import Leap
from tests.wake.asks import minutes_today, running
from tests.wake.fleet import FREE, LAUNCHED, Fleet


@pytest.mark.spec("WAKE-53", "WAKE-54")
async def test_a_pulse_over_its_limit_is_stopped_and_counts_as_failed(team: Fleet, leap: Leap) -> None:
    ann = await team.agent("ann")
    bob = await team.agent("bob", LAUNCHED, {"pulse_timeout_seconds": 90})
    _, pulse = await running(team, bob, ann)
    leap(90)
    ended = await team.until(pulse.id)
    assert (ended.status, ended.detail) == (PulseStatus.TIMED_OUT, "over 90 s")
    assert [each.pulse_id for each in team.launcher.cancelled] == [pulse.id]
    assert await team.inbox(bob) == ["help"]
    assert "timed_out" in (await team.inbox(ann))[0]


@pytest.mark.spec("WAKE-53", "WAKE-56", "WAKE-54")
async def test_a_resident_pulse_over_its_limit_closes_the_gate_and_tells_who_woke_it(team: Fleet) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", {"pulse_timeout_seconds": 100})
    wake = await team.ask(ann, bob)
    team.clock.advance(99)
    await team.worker.step()
    assert not (await team.row(bob)).asleep
    team.clock.advance(1)
    await team.worker.step()
    assert (await team.row(bob)).asleep
    assert (await team.pulse(wake.pulse_id)).status is PulseStatus.TIMED_OUT
    assert "timed_out" in (await team.inbox(ann))[0]


@pytest.mark.spec("WAKE-53")
@pytest.mark.parametrize("how", ["resident", "fake"])
async def test_what_is_left_of_the_daily_minutes_caps_the_limit_of_a_pulse(team: Fleet, how: str) -> None:
    limits = {"max_daily_session_minutes": 10, "cooldown_seconds": 0}
    bob = await team.agent("bob", {"launcher": how, "wake_guardrails": limits})
    first = await team.ask(None, bob)
    assert (await team.pulse(first.pulse_id)).timeout_seconds == 600
    if how == "fake":
        await team.run(first.pulse_id, seconds=480)
    else:
        team.clock.advance(480)
        await team.sleep(bob)
    assert await minutes_today(team, bob) == 480
    second = await team.ask(None, bob)
    assert (await team.pulse(second.pulse_id)).timeout_seconds == 120
    if how == "fake":
        await team.worker.step()
        await team.launcher.wait_for_launches(2)
        assert team.launcher.launches[1].timeout_seconds == 120
        assert "2 minutes" in team.launcher.launches[1].prompt


@pytest.mark.spec("WAKE-56")
async def test_a_gate_that_the_operator_opens_counts_minutes_and_no_wake(team: Fleet) -> None:
    bob = await team.agent("bob")
    await team.sleep(bob, False)
    (pulse,) = await team.pulses()
    assert (pulse.kind, pulse.status) == (PulseKind.GATE, PulseStatus.RUNNING)
    team.clock.advance(100)
    await team.sleep(bob)
    assert await team.wakes() == []
    assert await minutes_today(team, bob) == 100
    assert (await team.pulse(pulse.id)).status is PulseStatus.SUCCEEDED


@pytest.mark.spec("WAKE-56")
async def test_the_gate_of_a_launched_agent_is_open_until_the_end_of_its_last_pulse(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    every = RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60))
    _, one = await running(team, bob)
    await team.routines(bob, every)
    team.clock.advance(60)
    await team.worker.step()
    await team.launcher.wait_for_running(2)
    two = next(each for each in await team.pulses() if each.kind is PulseKind.SCHEDULE)
    await team.until(two.id, PulseStatus.RUNNING)
    team.launcher.end(one.id)
    await team.until(one.id)
    assert not (await team.row(bob)).asleep
    team.launcher.end(two.id)
    await team.until(two.id)
    assert (await team.row(bob)).asleep


@pytest.mark.spec("WAKE-20", "WAKE-53")
async def test_the_limit_of_a_pulse_that_a_person_starts_is_kept_while_it_waits_and_over_a_restart(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    _, first = await running(team, bob)
    ask = NewWake(target=await team.row(bob), source=WakeSource.PERSON, by="operator", reason="try", timeout_seconds=90)
    async with team.store.begin_write() as tx:
        wake = await team.tier.requests.ask(tx, ask)
    assert wake.decision is Decision.DEFERRED
    team.launcher.end(first.id)
    await team.until(first.id)
    team.crash()
    await team.worker.step()
    decided = await team.wake(wake)
    assert decided.decision is Decision.ADMITTED
    assert (await team.pulse(decided.pulse_id)).timeout_seconds == 90
