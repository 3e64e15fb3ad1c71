"""Routines: they fire once, join, leave no ghost, and spend nothing where there is nothing to do."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest

from circadia.ids import PulseId, RoutineId
from circadia.records.agent import Agent
from circadia.records.event import EventType
from circadia.records.pulse import PulseStatus
from circadia.records.schedule import Recurrence, Routine, RoutineSpec
from circadia.records.wake import Decision
from circadia.stores.base import Store, Tx
from circadia.stores.locks import LockKey
from circadia.testing.clock import START
from tests.wake.asks import running
from tests.wake.fleet import FREE, LAUNCHED, Fleet

EVERY_SECONDS = 1.0
AT_ONCE = 100


@pytest.mark.spec("WAKE-44", "WAKE-45")
async def test_a_routine_that_cannot_be_read_stops_nobody_elses_and_its_agent_can_be_given_another(team: Fleet) -> None:
    spec = RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60))
    bad, good = await team.agent("bad", LAUNCHED, FREE), await team.agent("good", LAUNCHED, FREE)
    async with team.store.begin_write() as tx:
        row = Routine(
            id=RoutineId("rtn_bad"), agent_id=bad.id, created_at=team.clock.now(), next_at=team.clock.now(),
            spec=RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60)),
        )  # fmt: skip
        object.__setattr__(row.spec.recurrence, "zone", "Mars/Base")  # as after an upgrade whose time zones are fewer
        await tx.routines.add(row)
    await team.routines(good, spec)
    team.clock.advance(60)
    await team.worker.step()
    assert [each.agent_id for each in await team.wakes()] == [good.id]
    await team.routines(bad, spec)
    team.clock.advance(60)
    await team.worker.step()
    assert bad.id in {each.agent_id for each in await team.wakes()}


@pytest.mark.spec("WAKE-17", "WAKE-40")
async def test_a_routine_that_joins_a_pending_pulse_is_in_its_prompt(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    wake = await team.ask(None, bob, "look at this")
    await team.routines(
        bob, RoutineSpec(name="nightly", instructions="sweep the yard", recurrence=Recurrence(every_seconds=60))
    )
    team.clock.advance(60)
    async with team.store.begin_write() as tx:
        (due,) = await tx.routines.find_due(team.clock.now(), limit=10)
        await team.tier.routines.fire(tx, due)
    assert (await team.wakes())[-1].pulse_id == wake.pulse_id
    await team.worker.step()
    await team.launcher.wait_for_launches(1)
    assert "look at this" in team.launcher.launches[0].prompt
    assert "sweep the yard" in team.launcher.launches[0].prompt


@pytest.mark.spec("WAKE-17", "WAKE-40")
@pytest.mark.parametrize(("first", "then", "limit"), [(3, 600, 600), (600, 3, 600), (3, None, 900)])
async def test_a_pulse_that_a_routine_joins_runs_as_long_as_the_longest_of_both_may(
    team: Fleet, first: float, then: float | None, limit: float
) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE, {"pulse_timeout_seconds": 900})
    every = Recurrence(every_seconds=60)
    await team.routines(
        bob,
        RoutineSpec(name="first", instructions="sweep", recurrence=every, timeout_seconds=first),
        RoutineSpec(name="second", instructions="mow", recurrence=every, timeout_seconds=then),
    )
    team.clock.advance(60)
    await team.worker.step()
    await team.launcher.wait_for_launches(1)
    (launch,) = team.launcher.launches
    assert launch.timeout_seconds == limit
    assert "sweep" in launch.prompt
    assert "mow" in launch.prompt


@pytest.mark.spec("WAKE-45")
async def test_a_routine_that_is_set_again_as_it_is_stays_due_and_a_changed_one_does_not(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    spec = RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60))
    await team.routines(bob, spec)
    team.clock.advance(60)
    await team.routines(bob, spec)
    await team.worker.step()
    assert [each.routine for each in await team.wakes()] == ["r"]
    team.clock.advance(60)
    await team.routines(bob, spec.model_copy(update={"instructions": "do more"}))
    await team.worker.step()
    assert len(await team.wakes()) == 1


@pytest.mark.spec("WAKE-45")
async def test_a_routine_that_is_taken_away_leaves_no_ghost_waiting(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE, {"max_concurrent_pulse_sessions": 1})
    spec = RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60), timeout_seconds=7)
    _, pulse = await running(team, bob)
    await team.routines(bob, spec)
    team.clock.advance(60)
    await team.worker.step()
    waiting = (await team.wakes())[-1]
    assert (waiting.decision, waiting.rule) == (Decision.DEFERRED, "max_concurrent_pulse_sessions")
    await team.routines(bob)
    team.launcher.end(pulse.id)
    await team.until(pulse.id)
    await team.worker.step()
    assert (await team.wake(waiting)).decision is Decision.CANCELLED

    await team.routines(bob, spec)
    _, pulse = await running(team, bob)
    team.clock.advance(60)
    await team.worker.step()
    team.launcher.end(pulse.id)
    await team.until(pulse.id)
    await team.worker.step()
    again = (await team.wakes(Decision.ADMITTED))[-1]
    assert again.routine == "r"
    assert (await team.pulse(again.pulse_id)).timeout_seconds == 7


@pytest.mark.spec("WAKE-43", "WAKE-50")
async def test_two_processes_that_find_a_routine_due_fire_it_once(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    await team.routines(bob, RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60)))
    team.clock.advance(60)
    workers = [team.new_worker(f"exe_{name}", alone=False) for name in "abc"]
    await asyncio.gather(*(worker.step() for worker in workers))
    assert len(await team.wakes()) == 1
    assert len(team.launcher.launches) <= 1


@pytest.mark.spec("WAKE-41")
async def test_a_routine_starts_at_its_moment_and_not_at_the_next_look(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    await team.routines(bob, RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60)))
    async with team.store.begin_read() as tx:
        due = (await tx.routines.find_by_agent(bob.id))[0].next_at
    assert due is not None
    left = 0.4 * EVERY_SECONDS
    team.clock.advance((due - team.clock.now()).total_seconds() - left)
    working = asyncio.create_task(team.worker.run())
    try:
        async with asyncio.timeout(60):
            await team.clock.wait_for_sleepers(1)
            team.clock.advance(left)  # the next look is later
            await team.launcher.wait_for_launches(1)
    finally:
        working.cancel()


@pytest.mark.spec("WAKE-46")
async def test_a_fleet_with_nothing_to_do_makes_no_call_in_a_day_and_says_why(team: Fleet) -> None:
    agents = [await team.agent(f"a{number}", LAUNCHED if number % 2 else {}) for number in range(4)]
    for agent in agents:
        await team.routines(agent, RoutineSpec(name="look", recurrence=Recurrence(every_seconds=1800)))
    for _ in range(24 * 2):
        team.clock.advance(1800)
        await team.worker.step()
    assert team.launcher.launches == []
    assert await team.pulses() == []
    assert all([(await team.row(agent)).asleep for agent in agents])
    told = await team.events(EventType.ROUTINE)
    skipped = [each for each in told if each.data.get("verdict") == "skipped"]
    assert len(skipped) == 4 * 48
    assert {each.data["reason"] for each in skipped} == {"no instructions and nothing unread"}
    async with team.store.begin_read() as tx:
        assert (await tx.routines.find_by_agent(agents[0].id))[0].skips == 48
        assert list(await tx.calls.sum_by_group("agent")) == []


@pytest.mark.spec("WAKE-43", "WAKE-76")
@pytest.mark.parametrize(("most", "steps", "told"), [(5, [600], [10]), (5, [120, 120, 120], [6]), (2, [60] * 4, [2])])
async def test_skips_that_come_at_once_are_told_of_like_those_that_come_one_by_one(
    team: Fleet, most: int, steps: list[int], told: list[int]
) -> None:
    team.at(22, 0, 1)
    night = [{"start": "22:00", "end": "23:00"}]
    bob = await team.agent("bob", LAUNCHED, FREE, {"max_consecutive_skips": most, "blackouts": night})
    await team.routines(bob, RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60)))
    for seconds in steps:  # as the machine sleeps for so long
        team.clock.advance(seconds)
        await team.worker.step()
    assert [each.data["skips"] for each in await team.events(EventType.ALERT)] == told


@pytest.mark.spec("WAKE-47")
async def test_a_launched_agent_without_routines_reads_within_half_an_hour_what_a_refused_wake_left(
    team: Fleet,
) -> None:
    ann = await team.agent("ann")
    bob = await team.agent("bob", {"launcher": "fake", "wake_guardrails": {"max_wakes_per_day": 0}})
    for _ in range(4):  # nothing unread: nothing runs, and nothing is told of
        team.clock.advance(1800)
        await team.worker.step()
    assert (team.launcher.launches, await team.events(EventType.ALERT)) == ([], [])
    told = len(await team.events(EventType.ROUTINE))
    sent = await team.send(ann, bob, "the build is red")
    assert sent.wake is not None
    assert sent.wake.decision is Decision.REFUSED
    team.clock.advance(1800)
    await team.worker.step()
    await team.launcher.wait_for_launches(1)
    assert "the build is red" in team.launcher.launches[0].prompt
    assert len(await team.events(EventType.ROUTINE)) == told + 1


@pytest.mark.spec("WAKE-47")
async def test_an_agent_has_a_heartbeat_while_it_is_launched_has_no_other_routine_and_it_is_not_switched_off(
    team: Fleet,
) -> None:
    async def routines() -> list[tuple[str, int | None]]:
        async with team.store.begin_read() as tx:
            return [(each.name, each.spec.recurrence.every_seconds) for each in await tx.routines.find_by_agent(bob.id)]

    bob = await team.agent("bob")
    assert await routines() == []
    await team.patch(bob, launcher="fake")
    assert await routines() == [("heartbeat", 1800)]
    await team.patch(bob, heartbeat_minutes=5)
    assert await routines() == [("heartbeat", 300)]
    await team.routines(bob, RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60)))
    await team.patch(bob, heartbeat_minutes=7)
    assert await routines() == [("r", 60)]
    await team.routines(bob)
    assert await routines() == [("heartbeat", 420)]
    await team.patch(bob, heartbeat_minutes=None)
    assert await routines() == []
    await team.patch(bob, heartbeat_minutes=30)
    await team.patch(bob, launcher="resident")
    assert await routines() == []


@pytest.mark.spec("WAKE-44")
async def test_long_pulses_of_one_agent_delay_and_drop_nobodys(team: Fleet) -> None:
    agents = [await team.agent(f"a{number}", LAUNCHED, FREE) for number in range(10)]
    for number, agent in enumerate(agents):
        spec = RoutineSpec(
            name="r", instructions="do", recurrence=Recurrence(every_seconds=1800, offset_seconds=number * 180)
        )  # fmt: skip
        await team.routines(agent, spec)
    began: dict[PulseId, float] = {}
    for minute in range(31):
        await team.worker.step()
        for pulse in await team.pulses():
            if pulse.status is not PulseStatus.SUCCEEDED and pulse.id not in began:
                await team.until(pulse.id, PulseStatus.RUNNING)
                began[pulse.id] = minute
        for pulse_id, at in began.items():
            if minute - at >= 10 and pulse_id in team.launcher.running:
                team.launcher.end(pulse_id)
                await team.until(pulse_id)
        team.clock.advance(60)
    starts = [(each.agent, each.started_at) for each in await team.pulses()]
    assert len(starts) == 10
    assert all(at is not None and at.second == 0 and at.minute % 3 == 0 for _, at in starts)


@pytest.mark.spec("WAKE-16")
async def test_an_agent_with_routines_of_the_file_can_be_changed_and_keeps_routines_that_were_put_later(
    team: Fleet, folder: Path
) -> None:
    bob = await team.agent("bob", LAUNCHED)
    of_file = [RoutineSpec(name="f", instructions="do", recurrence=Recurrence(every_seconds=3600))]

    async def start() -> None:
        async with team.store.begin_write() as tx:
            row = await tx.agents.get(bob.id)
            assert row is not None
            row = await team.tier.coordinations.apply_file(tx, row, {"zone": "Europe/Berlin"})
            await team.tier.routines.apply_file(tx, row, of_file)

    await start()
    await team.patch(bob, prompt_tokens=500)
    await start()
    await team.routines(bob, RoutineSpec(name="p", recurrence=Recurrence(every_seconds=60)))
    await start()
    async with team.store.begin_read() as tx:
        assert [each.name for each in await tx.routines.find_by_agent(bob.id)] == ["p"]
    row = await team.row(bob)
    assert (row.coordination.prompt_tokens, row.coordination.zone) == (500, "Europe/Berlin")


def instant(hour: int, minute: int = 0) -> datetime:
    """Return an instant of the first day."""
    return START.replace(hour=hour, minute=minute)


async def plans(team: Fleet, agent: Agent) -> dict[str, tuple[str, datetime | None]]:
    """Return the zone and the next occurrence of each of the agent's routines."""
    async with team.store.begin_read() as tx:
        return {
            each.name: (each.spec.recurrence.zone, each.next_at) for each in await tx.routines.find_by_agent(agent.id)
        }


@pytest.mark.spec("WAKE-40", "WAKE-41", "WAKE-45")
async def test_routines_follow_their_agent_into_another_zone_and_back(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    team.at(1)
    zone = "Asia/Kolkata"  # 5:30 h before UTC
    specs = [
        RoutineSpec(name="cron", instructions="do", recurrence=Recurrence(cron="15 10 * * *")),
        RoutineSpec(name="grid", instructions="do", recurrence=Recurrence(every_seconds=4 * 3600)),
        RoutineSpec(name="anchored", recurrence=Recurrence(every_seconds=4 * 3600, anchor=START)),
        RoutineSpec(name="once", recurrence=Recurrence(at=(instant(20),))),
        RoutineSpec(name="elsewhere", recurrence=Recurrence(cron="15 10 * * *", zone="Europe/Lisbon")),
        RoutineSpec(name="off", recurrence=Recurrence(cron="15 10 * * *"), enabled=False),
    ]
    await team.routines(bob, *specs)
    before = await plans(team, bob)
    assert before["cron"] == ("UTC", instant(10, 15))
    assert before["grid"] == ("UTC", instant(4))
    await team.patch(bob, zone=zone)
    stays = {"anchored": (zone, instant(4)), "once": (zone, instant(20)), "off": (zone, None)}
    moved = {"cron": (zone, instant(4, 45)), "grid": (zone, instant(2, 30)), "elsewhere": before["elsewhere"]}
    assert await plans(team, bob) == {**stays, **moved}
    told = (await team.events(EventType.ROUTINE))[-1].data
    assert told == {"changed_by": "operator", "routines": ["anchored", "cron", "grid", "off", "once"]}
    for hour, minute in ((2, 30), (4, 45)):
        team.at(hour, minute)
        await team.worker.step()
    assert [each.routine for each in await team.wakes()] == ["grid", "cron"]
    async with team.store.begin_write() as tx:
        await team.tier.coordinations.reset(tx, await team.row(bob), "zone", by="operator")
    assert (await plans(team, bob))["cron"] == ("UTC", instant(10, 15))


@pytest.mark.spec("WAKE-16", "WAKE-40")
async def test_routines_of_the_file_are_on_the_clock_of_the_zone_that_was_set_last(team: Fleet) -> None:
    bob = await team.agent("bob", LAUNCHED)

    async def read(zone: str, cron: str) -> dict[str, tuple[str, datetime | None]]:
        spec = RoutineSpec(name="f", instructions="do", recurrence=Recurrence(cron=cron, zone=zone))
        async with team.store.begin_write() as tx:
            row = await team.tier.coordinations.apply_file(tx, await team.row(bob), {"zone": zone})
            await team.tier.routines.apply_file(tx, row, [spec])
        return await plans(team, bob)

    assert await read("Africa/Cairo", "0 9 * * *") == {"f": ("Africa/Cairo", instant(7))}
    await team.patch(bob, zone="Asia/Dubai")
    assert await plans(team, bob) == {"f": ("Asia/Dubai", instant(5))}
    assert await read("Africa/Cairo", "0 9 * * *") == {"f": ("Asia/Dubai", instant(5))}
    assert await read("Africa/Cairo", "0 10 * * *") == {"f": ("Asia/Dubai", instant(6))}
    assert await read("Asia/Tokyo", "0 10 * * *") == {"f": ("Asia/Tokyo", instant(1))}


class _WriterCountingStore:
    """A store that counts how many wait for its writer, or write, at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._now = 0
        self.most = 0

    def begin_read(self) -> AbstractAsyncContextManager[Tx]:
        return self._store.begin_read()

    @asynccontextmanager
    async def begin_write(self, *keys: LockKey) -> AsyncGenerator[Tx]:
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            async with self._store.begin_write(*keys) as tx:
                yield tx
        finally:
            self._now -= 1


@pytest.mark.spec("WAKE-44", "WAKE-43")
async def test_many_that_are_due_at_one_instant_share_commits_and_start_in_their_order(team: Fleet) -> None:
    counted = _WriterCountingStore(team.store)
    worker = team.new_worker("exe_counted")
    object.__setattr__(worker._context, "store", counted)  # pyright: ignore[reportPrivateUsage]
    agents = [await team.agent(f"a{number:02}", LAUNCHED, FREE) for number in range(40)]
    for agent in agents:
        spec = RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=3600))
        await team.routines(agent, spec)
    team.clock.advance(3600)
    await worker.step()
    await team.launcher.wait_for_launches(40)
    assert [launch.agent for launch in team.launcher.launches] == [agent.name for agent in agents]
    assert counted.most >= 40
    assert len(await team.wakes(Decision.ADMITTED)) == 40


@pytest.mark.spec("WAKE-44")
async def test_a_routine_behind_a_hundred_with_nothing_to_do_starts_at_the_same_look(team: Fleet) -> None:
    for number in range(100):
        agent = await team.agent(f"a{number}", LAUNCHED, FREE)
        await team.routines(agent, RoutineSpec(name="heartbeat", recurrence=Recurrence(every_seconds=60)))
    bob = await team.agent("bob", LAUNCHED, FREE)
    team.clock.advance(1)
    later = Recurrence(every_seconds=60, offset_seconds=1)
    await team.routines(bob, RoutineSpec(name="r", instructions="do", recurrence=later))
    team.crash()  # the new process has heard of none of them
    team.clock.advance(60)
    working = asyncio.create_task(team.worker.run())
    try:
        async with asyncio.timeout(60):  # the clock stands still: no timer helps
            await team.launcher.wait_for_launches(1)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert [launch.agent for launch in team.launcher.launches] == ["bob"]
