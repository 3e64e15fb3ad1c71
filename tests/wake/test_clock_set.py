"""The wall clock of the machine is set while agents run: minutes and limits are those of real time."""

from datetime import timedelta

import pytest

from circadia.records.pulse import PulseStatus
from circadia.records.schedule import Recurrence, RoutineSpec
from circadia.records.wake import Decision
from circadia.wake.pulse_lifecycle import total_run_seconds
from tests.wake.asks import minutes_today, rails, running
from tests.wake.fleet import FREE, LAUNCHED, Fleet

SET = pytest.mark.parametrize("seconds", [3600, -3600, 7 * 86400])


@pytest.mark.spec("WAKE-53", "WAKE-56")
@SET
@pytest.mark.parametrize("how", ["woken", "opened"])
async def test_a_time_awake_ends_at_its_limit_and_costs_its_minutes_whatever_the_clock_is_set_to(
    team: Fleet, how: str, seconds: int
) -> None:
    bob = await team.agent("bob", {"pulse_timeout_seconds": 100}, FREE)
    team.at(12)
    if how == "woken":
        await team.ask(None, bob)
    else:
        await team.sleep(bob, False)
    await team.worker.step()
    team.clock.advance(10)
    team.clock.set(seconds)
    for _ in range(3):
        await team.worker.step()
    assert not (await team.row(bob)).asleep
    assert await minutes_today(team, bob) == 10
    team.clock.advance(89)
    await team.worker.step()
    assert not (await team.row(bob)).asleep
    team.clock.advance(1)
    if how == "woken":
        await team.worker.step()
    else:
        await team.sleep(bob)
    assert (await team.row(bob)).asleep
    assert await minutes_today(team, bob) == 100


@pytest.mark.spec("WAKE-53")
@SET
@pytest.mark.parametrize("end", ["ends before anybody looks", "ends later", "is stopped"])
async def test_a_launched_pulse_costs_the_minutes_that_it_ran_whatever_the_clock_is_set_to(
    team: Fleet, seconds: int, end: str
) -> None:
    bob = await team.agent("bob", LAUNCHED, rails(cooldown_seconds=0, max_daily_session_minutes=30))
    team.at(12)
    wake, pulse = await running(team, bob)
    await team.worker.step()
    team.clock.advance(10)
    team.clock.set(seconds)
    if end == "ends later":
        await team.worker.step()
        assert await minutes_today(team, bob) == 10
        team.clock.advance(5)
    if end == "is stopped":
        await team.stop()
        assert (await team.pulse(pulse.id)).run_seconds == 10
        return
    team.launcher.end(pulse.id)
    await team.until(pulse.id)
    ran = 15 if end == "ends later" else 10
    assert await minutes_today(team, bob) == ran
    assert (await team.ask(None, bob)).decision is Decision.ADMITTED
    assert wake.decision is Decision.ADMITTED


@pytest.mark.spec("WAKE-53")
async def test_a_pulse_that_begins_after_the_clock_was_set_is_left_as_it_is(team: Fleet) -> None:
    bob, cid = await team.agent("bob", FREE), await team.agent("cid", FREE)
    team.at(12)
    await team.sleep(bob, False)
    await team.worker.step()
    team.clock.advance(100)
    for seconds in (3600, -3600):
        team.clock.set(seconds)
        await team.sleep(cid, False)
        team.clock.advance(0.5)
        await team.worker.step()
        await team.sleep(cid)
    assert await minutes_today(team, bob) == 101
    now = team.clock.now()
    assert [total_run_seconds(each, now) for each in await team.pulses()] == [101, 0.5, 0.5]


@pytest.mark.spec("WAKE-53")
async def test_of_several_processes_on_a_database_each_looks_after_what_it_has_begun(team: Fleet) -> None:
    shared = team.new_worker("exe_shared", alone=False)
    bob, cid = await team.agent("bob", FREE), await team.agent("cid", LAUNCHED, FREE)
    team.at(12)
    await team.sleep(bob, False)
    wake = await team.ask(None, cid)
    await shared.step()
    await team.until(wake.pulse_id, PulseStatus.RUNNING)
    other = Fleet(team.store, team.clock, {}, ids=team.ids)
    elsewhere = other.new_worker("exe_other", alone=False)
    await elsewhere.step()
    team.clock.advance(10)
    team.clock.set(3600)
    for worker in (elsewhere, shared, elsewhere):
        await worker.step()
    assert (await minutes_today(team, bob), await minutes_today(team, cid)) == (10, 10)
    await other.worker.drain(0)


@pytest.mark.spec("WAKE-43", "WAKE-45")
@pytest.mark.parametrize("down", [False, True], ids=["while it runs", "while the server is down"])
@pytest.mark.parametrize(("days", "again"), [(0.5, False), (3, True), (400, True)])
@pytest.mark.parametrize(
    "rule",
    [
        Recurrence(every_seconds=7200),
        Recurrence(cron="30 */2 * * *"),
        Recurrence(every_seconds=9000, jitter_seconds=600),
    ],
)
async def test_a_routine_planned_by_a_clock_that_was_days_ahead_goes_on_by_the_right_one(
    team: Fleet, rule: Recurrence, days: float, again: bool, down: bool
) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    await team.routines(
        bob, RoutineSpec(name="r", instructions="do", recurrence=rule, misfire_grace_seconds=None)
    )  # fmt: skip
    await team.worker.step()
    team.clock.set(days * 86_400)
    await team.worker.step()
    (first,) = await team.wakes()
    if down:
        team.crash()
    team.clock.set(-days * 86_400)
    for _ in range(2):  # nothing is due at once
        await team.worker.step()
        assert await team.wakes() == [first]
    team.clock.advance(9600)
    await team.worker.step()
    assert len(await team.wakes()) == 1 + again


@pytest.mark.spec("WAKE-43")
async def test_a_single_instant_that_a_wrong_clock_has_run_does_not_run_again(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    instants = tuple(team.clock.now() + timedelta(days=days) for days in (2, 9))
    await team.routines(bob, RoutineSpec(name="r", instructions="do", recurrence=Recurrence(at=instants)))
    team.clock.set(2 * 86_400)
    await team.worker.step()
    assert len(await team.wakes()) == 1
    team.clock.set(-2 * 86_400)
    for _ in range(3):
        await team.worker.step()
        team.clock.advance(86_400)
    assert len(await team.wakes()) == 1
