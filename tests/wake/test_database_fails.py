"""What the worker does where the database fails it in the middle: nothing is forgotten, stuck, or tried without end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from circadia.errors import StorageUnavailable
from circadia.records.pulse import PulseStatus
from circadia.records.schedule import Recurrence, RoutineSpec
from circadia.records.wake import Decision
from circadia.stores.base import Tx
from tests.full_disk import FullDiskStore
from tests.wake.fleet import FREE, LAUNCHED, Fleet
from tests.watched_store import HookedStore, LostReplyStore

BACK_OFF_SECONDS = 5.0
AT_ONCE = 100
EVERY_SECONDS = 1.0


@pytest.mark.spec("WAKE-24", "WAKE-50")
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("before", "status", "attempt"),
    [(0, PulseStatus.PENDING, 1), (1, PulseStatus.STARTING, 2)],
    ids=["claimed", "taken"],
)
async def test_a_pulse_that_was_taken_without_a_word_from_the_database_is_not_stuck(
    team: Fleet, alone: bool, before: int, status: PulseStatus, attempt: int
) -> None:
    bob = await team.agent("bob", LAUNCHED, FREE)
    store = team.store = LostReplyStore(team.store)
    worker = team.new_worker("exe_silent", alone=alone)
    await worker.step()
    wake = await team.ask(None, bob)
    store.spared, store.lost = before, 1
    await worker.step()
    assert (await team.pulse(wake.pulse_id)).status is status
    assert team.launcher.launches == []
    for _ in range(3):
        team.clock.advance(BACK_OFF_SECONDS)
        await worker.step()
    assert (await team.until(wake.pulse_id, PulseStatus.RUNNING)).attempt == attempt
    assert len(team.launcher.launches) == 1
    await worker.step()
    assert len(team.launcher.launches) == 1


@pytest.mark.spec("WAKE-24")
@pytest.mark.parametrize("what", ["routines", "pulses"])
async def test_many_that_are_due_on_a_full_disk_are_tried_once_a_look_and_not_all_the_time(
    team: Fleet, what: str
) -> None:
    for number in range(AT_ONCE + 1):
        agent = await team.agent(f"a{number}", LAUNCHED, FREE)
        if what == "routines":
            spec = RoutineSpec(name="r", instructions="do", recurrence=Recurrence(every_seconds=60))
            await team.routines(agent, spec)
        else:
            await team.ask(None, agent)
    team.clock.advance(60)
    store = team.store = FullDiskStore(team.store)
    store.full = True
    team.worker = team.new_worker()
    working = asyncio.create_task(team.worker.run())
    try:
        async with asyncio.timeout(60):
            await team.clock.wait_for_sleepers(1)
            for _ in range(100):  # as long as many tries would take
                async with team.store.begin_read() as tx:
                    await tx.events.last_number()
        assert store.refused == (1 if what == "pulses" else AT_ONCE)  # pulses are claimed in one block
        store.full = False
        async with asyncio.timeout(60):
            while len(team.launcher.launches) <= AT_ONCE:
                team.clock.advance(EVERY_SECONDS)
                await team.launcher.wait_for_launches(min(len(team.launcher.launches) + 1, AT_ONCE + 1))
    finally:
        working.cancel()


class AwayStore(HookedStore):
    """A store without a database for reads or for writes; looks for due work succeed."""

    away = ""

    def before_commit(self) -> None:
        self._require("write")

    @asynccontextmanager
    async def begin_read(self) -> AsyncGenerator[Tx]:
        self._require("read")
        async with self._store.begin_read() as tx:
            yield tx

    def _require(self, kind: str) -> None:
        if self.away == kind:
            raise StorageUnavailable("it is away")


@pytest.mark.spec("WAKE-24", "WAKE-21")
@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_wake_that_waits_for_the_end_of_a_pulse_is_decided_when_the_database_is_back(
    team: Fleet, kind: str
) -> None:
    ann, bob = await team.agent("ann"), await team.agent("bob", LAUNCHED, FREE)
    first = await team.ask(ann, bob)
    store = team.store = AwayStore(team.store)
    team.worker = worker = team.new_worker()
    await worker.step()
    await team.until(first.pulse_id, PulseStatus.RUNNING)
    waiting = await team.ask(ann, bob)
    assert waiting.decision is Decision.DEFERRED
    assert first.pulse_id is not None
    team.launcher.end(first.pulse_id)
    await team.until(first.pulse_id)
    store.away = kind
    await worker.step()
    store.away = ""
    assert (await team.wake(waiting)).decision is Decision.DEFERRED
    await worker.step()
    assert (await team.wake(waiting)).decision is Decision.ADMITTED
