"""What becomes of pulses when processes die, stop, or lose the database."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from circadia.errors import StorageUnavailable
from circadia.records.event import EventType
from circadia.records.message import DeliveryState
from circadia.records.principal import Principal
from circadia.records.pulse import PulseStatus
from circadia.records.wake import Charge, Decision
from circadia.stores.base import Store, Tx
from circadia.stores.locks import LockKey
from tests.fixtures.leap import Leap
from tests.wake.asks import minutes_today, rails, running
from tests.wake.fleet import FREE, LAUNCHED, Fleet

ATTEMPTS = 4
BACK_OFF_SECONDS = 5.0
LEASE_SECONDS = 15.0


@pytest.mark.spec("WAKE-23")
async def test_an_interrupted_pulse_is_tried_again_three_times_with_longer_pauses_then_people_are_told(
    team: Fleet,
) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, FREE)
    wake = await team.ask(ann, bob)
    for attempt in range(1, ATTEMPTS + 1):
        await team.worker.step()
        pulse = await team.until(wake.pulse_id, PulseStatus.RUNNING)
        assert pulse.attempt == attempt
        assert ("begun before" in team.launcher.launches[-1].prompt) is (attempt > 1)
        team.crash()
        await team.worker.step()
        if attempt < ATTEMPTS:
            pause = BACK_OFF_SECONDS * 2 ** (attempt - 1)
            back = await team.pulse(wake.pulse_id)
            assert (back.status, back.token_hash, back.owner) == (PulseStatus.PENDING, None, None)
            assert back.not_before == team.clock.now() + timedelta(seconds=pause)
            assert await team.inbox(bob) == ["help"]
            assert (await team.row(bob)).asleep
            team.clock.advance(pause)
    assert (await team.pulse(wake.pulse_id)).status is PulseStatus.INTERRUPTED
    assert await team.inbox(bob, DeliveryState.DEAD) == ["help"]
    alert = (await team.events(EventType.ALERT))[-1]
    assert (alert.data["cause"], alert.data["pulse"]) == ("dead_letter", wake.pulse_id)
    assert "interrupted" in (await team.inbox(ann))[0]
    assert (await team.wake(wake)).charge is Charge.CHARGED
    async with team.store.begin_write() as tx:
        (letter,) = await tx.deliveries.find_unhandled([DeliveryState.DEAD], limit=9)
        (_, (again,)) = await team.tier.inbox.requeue(tx, Principal(), letter.message.id)
    await team.worker.step()
    assert (await team.until(again.pulse_id, PulseStatus.RUNNING)).attempt == 1
    assert "help" in team.launcher.launches[-1].prompt


@pytest.mark.spec("WAKE-23", "WAKE-50")
async def test_a_process_that_is_silent_for_a_lease_loses_its_pulse_and_cannot_end_it_any_more(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    dead, alive = team.new_worker("exe_a", alone=False), team.new_worker("exe_b", alone=False)
    wake = await team.ask(None, bob)
    await dead.step()
    pulse = await team.until(wake.pulse_id, PulseStatus.RUNNING)
    await alive.step()
    team.clock.advance(LEASE_SECONDS - 0.1)
    await alive.step()
    assert (await team.pulse(pulse.id)).status is PulseStatus.RUNNING
    team.clock.advance(0.1)
    await alive.step()
    back = await team.pulse(pulse.id)
    assert (back.status, back.epoch) == (PulseStatus.PENDING, pulse.epoch + 1)
    assert (pulse.id, pulse.epoch + 1) in team.launcher.cleared
    assert await team.inbox(bob) == ["help"]
    team.clock.advance(BACK_OFF_SECONDS)
    await alive.step()
    again = await team.until(pulse.id, PulseStatus.RUNNING)
    await dead.step()
    await dead.drain(1)  # what it still wants to write counts no more
    assert await team.pulse(pulse.id) == again
    team.launcher.end(pulse.id)
    assert (await team.until(pulse.id)).status is PulseStatus.SUCCEEDED
    assert len(await team.wakes(Decision.ADMITTED)) == 1


@pytest.mark.spec("WAKE-23", "WAKE-50")
async def test_a_process_that_lives_keeps_its_pulse_for_hours_whatever_the_clock_is_set_to(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE, {"pulse_timeout_seconds": None})
    one, two = team.new_worker("exe_a", alone=False), team.new_worker("exe_b", alone=False)
    wake = await team.ask(None, bob)
    await one.step()
    pulse = await team.until(wake.pulse_id, PulseStatus.RUNNING)
    for moment in range(100):
        team.clock.advance(LEASE_SECONDS / 3)
        if moment in (30, 60):
            team.clock.set(3600 if moment == 30 else -7200)
        await one.step()
        await two.step()
    now = await team.pulse(pulse.id)
    assert (now.status, now.epoch, now.owner) == (PulseStatus.RUNNING, pulse.epoch, "exe_a")


@pytest.mark.spec("WAKE-24", "WAKE-23")
async def test_nobody_loses_a_pulse_because_the_database_was_away(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    one, two = team.new_worker("exe_a", alone=False), team.new_worker("exe_b", alone=False)
    wake = await team.ask(None, bob)
    await one.step()
    pulse = await team.until(wake.pulse_id, PulseStatus.RUNNING)
    await two.step()
    team.clock.advance(30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team.store, "begin_read", _Away().begin_read)
        await two.step()
    await two.step()
    assert await team.pulse(pulse.id) == pulse


class _Away:
    """A database that does not answer."""

    def begin_read(self) -> Any:
        raise StorageUnavailable("away", retry_after_seconds=1.0)

    begin_write = begin_read


@pytest.mark.spec("WAKE-14", "WAKE-23")
async def test_after_a_crash_between_taking_and_starting_the_pulse_is_tried_again_and_charged_once(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    wake = await team.ask(None, bob)
    claimed = await team.claimed(wake.pulse_id, "exe_dead")
    async with team.store.begin_write() as tx:
        taken = await team.tier.pulses.take(tx, claimed)
    assert taken is not None
    assert await team.inbox(bob, DeliveryState.LEASED) == ["help"]
    await team.worker.step()
    assert await team.inbox(bob) == ["help"]
    team.clock.advance(BACK_OFF_SECONDS)
    await team.run(wake.pulse_id)
    assert (await team.wake(wake)).charge is Charge.CHARGED
    assert await team.inbox(bob, DeliveryState.HANDLED) == ["help"]


@pytest.mark.spec("WAKE-55", "WAKE-23")
async def test_a_drain_lets_pulses_end_puts_back_the_rest_and_starts_none(team: Fleet, leap: Leap) -> None:
    ann, bob, cid = [await team.agent(name, LAUNCHED, FREE) for name in ("ann", "bob", "cid")]
    _, one = await running(team, ann)
    _, two = await running(team, bob)
    pending = await team.ask(None, cid)
    draining = asyncio.create_task(team.stop(90))
    await asyncio.sleep(0)
    await team.worker.step()
    team.launcher.end(one.id)
    assert (await team.until(one.id)).status is PulseStatus.SUCCEEDED
    leap(90)
    await draining
    assert (await team.pulse(two.id)).status is PulseStatus.PENDING
    assert (await team.pulse(pending.pulse_id)).status is PulseStatus.PENDING
    assert len(team.launcher.launches) == 2
    assert await team.inbox(bob) == await team.inbox(cid) == ["help"]
    await team.run(two.id)
    await team.run(pending.pulse_id)


class _Slow:
    """A store whose blocks return late: what they wrote is durable, and their callers do not know it yet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.may_return = asyncio.Event()

    def begin_read(self) -> AbstractAsyncContextManager[Tx]:
        return self._store.begin_read()

    @asynccontextmanager
    async def begin_write(self, *keys: LockKey) -> AsyncGenerator[Tx]:
        async with self._store.begin_write(*keys) as tx:
            yield tx
        await self.may_return.wait()


@pytest.mark.spec("WAKE-55")
async def test_a_stop_while_pulses_are_being_taken_waits_for_them_and_puts_them_back(team: Fleet) -> None:
    wakes = [await team.ask(None, await team.agent(f"a{number}", LAUNCHED, FREE)) for number in range(3)]
    slow, worker = _Slow(team.store), team.worker
    object.__setattr__(worker._context, "store", slow)  # pyright: ignore[reportPrivateUsage]
    step = asyncio.create_task(worker.step())
    for wake in wakes:
        await team.until(wake.pulse_id, PulseStatus.STARTING)
    stop = asyncio.create_task(team.stop())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not stop.done()
    slow.may_return.set()
    await stop
    assert {(each.status, each.attempt, each.owner) for each in await team.pulses()} == {(PulseStatus.PENDING, 0, None)}
    await step
    assert team.launcher.launches == []


@pytest.mark.spec("WAKE-55", "WAKE-23")
async def test_a_pulse_that_a_stop_interrupts_starts_again_at_once_however_often_that_happens(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    _, pulse = await running(team, bob)
    for stops in range(1, 2 * ATTEMPTS):
        await team.stop()
        back = await team.pulse(pulse.id)
        assert (back.status, back.attempt, back.not_before) == (PulseStatus.PENDING, 0, None)
        await team.worker.step()
        assert (await team.until(pulse.id, PulseStatus.RUNNING)).attempt == 1
        launch = team.launcher.launches[-1]
        assert "begun before" in launch.prompt
        assert team.launcher.cleared == [(pulse.id, each.epoch) for each in team.launcher.launches[1:]]
        assert len(team.launcher.launches) == stops + 1
    team.launcher.end(pulse.id)
    assert (await team.until(pulse.id)).status is PulseStatus.SUCCEEDED
    assert await team.inbox(bob, DeliveryState.HANDLED) == ["help"]


@pytest.mark.spec("WAKE-55", "WAKE-21")
async def test_what_is_asked_while_the_server_stops_is_deferred_and_decided_at_once_after_the_start(
    team: Fleet,
) -> None:
    ann, cid, dan = await team.agent("ann"), await team.agent("cid", LAUNCHED, FREE), await team.agent("dan", FREE)
    bob, eve = await team.agent("bob", LAUNCHED), await team.agent("eve", LAUNCHED, rails(max_wakes_per_day=0))
    await running(team, bob)
    draining = asyncio.create_task(team.stop(60))
    await asyncio.sleep(0)
    launched, resident = await team.ask(ann, cid), await team.ask(ann, dan)
    for wake in (launched, resident):
        assert (wake.decision, wake.rule, wake.not_before) == (Decision.DEFERRED, "draining", team.clock.now())
        assert "the server is stopping" in wake.detail
        assert wake.trace[-1].rule == "draining"
        assert wake.charge is Charge.NONE
    passed = await team.ask(None, eve, override="the release")
    assert (passed.decision, passed.overridden_by) == (Decision.DEFERRED, "operator: the release")
    assert (await team.ask(ann, eve)).rule == "max_wakes_per_day"
    busy = await team.ask(ann, bob)
    assert (busy.decision, busy.rule) == (Decision.DEFERRED, "busy")
    await team.workers[0].step()
    assert (await team.row(dan)).asleep
    assert [each.status for each in await team.pulses()] == [PulseStatus.RUNNING]
    team.launcher.end(team.launcher.running[0])
    await draining
    assert (await team.wake(launched)).decision is (await team.wake(busy)).decision is Decision.DEFERRED
    await team.worker.step()
    assert (await team.wake(launched)).decision is Decision.ADMITTED
    assert (await team.wake(passed)).decision is Decision.ADMITTED
    assert "let pass by operator: the release" in (await team.wake(passed)).detail
    assert not (await team.row(dan)).asleep
    assert (await team.wake(busy)).rule == "cooldown_seconds"


@pytest.mark.spec("WAKE-18", "WAKE-20", "WAKE-55")
@pytest.mark.parametrize("how", ["resident", "fake"])
async def test_a_wake_that_a_person_lets_pass_opens_no_agent_that_was_disabled_while_it_waited(
    team: Fleet, how: str
) -> None:
    bob = await team.agent("bob", {"launcher": how})
    await team.worker.drain(0)
    wake = await team.ask(None, bob, override="the release")
    assert wake.rule == "draining"
    async with team.store.begin_write() as tx:
        await team.registry.change(tx, await team.row(bob), enabled=False, by="operator")
    await team.stop()
    await team.worker.step()
    decided = await team.wake(wake)
    assert (decided.decision, decided.rule, decided.overridden_by) == (Decision.REFUSED, "enabled", None)
    assert (await team.row(bob)).asleep
    assert await team.pulses() == []
    assert await team.inbox(bob) == ["help"]


@pytest.mark.spec("WAKE-23")
async def test_a_clock_that_is_set_back_does_not_make_the_pause_before_another_attempt_longer(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    wake, _ = await running(team, bob)
    team.crash()
    await team.worker.step()
    assert (await team.pulse(wake.pulse_id)).status is PulseStatus.PENDING
    team.clock.set(-3600)
    team.clock.advance(BACK_OFF_SECONDS)
    await team.worker.step()
    assert (await team.until(wake.pulse_id, PulseStatus.RUNNING)).attempt == 2


@pytest.mark.spec("WAKE-53")
async def test_minutes_are_those_that_ran_of_killed_and_interrupted_pulses_too(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    wake, pulse = await running(team, bob)
    team.clock.advance(60)
    assert await minutes_today(team, bob) == 60
    await team.stop()
    team.clock.advance(100)
    assert await minutes_today(team, bob) == 60
    await team.worker.step()
    await team.until(wake.pulse_id, PulseStatus.RUNNING)
    team.clock.advance(30)
    async with team.store.begin_write() as tx:
        await team.tier.pulses.cancel(tx, await team.pulse(pulse.id), by="operator")
    assert await minutes_today(team, bob) == 90
    team.clock.advance(500)
    assert await minutes_today(team, bob) == 90


@pytest.mark.spec("WAKE-53")
async def test_the_time_in_which_no_server_ran_is_no_time_of_the_agent(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    await running(team, bob)
    for _ in range(6):
        team.clock.advance(10)
        await team.worker.step()  # its heartbeat
    team.clock.advance(2 * 3600)
    team.crash()
    await team.worker.step()
    assert 60 <= await minutes_today(team, bob) <= 60 + LEASE_SECONDS
