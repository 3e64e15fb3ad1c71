"""What is measured over all banks, and when something is wrong with one."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from circadia.errors import StorageUnavailable
from circadia.records.event import EventType
from circadia.settings.sleeptime import SleeptimeSettings
from circadia.sleeptime.engine.health import SleepHealth
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.triggers.pass_lifecycle import PassLifecycle
from circadia.stores.base import Store
from circadia.wake.alerts import AlertNotifier
from tests.full_disk import FullDiskStore
from tests.sleeptime.stand import Stand


def health_of(stand: Stand, store: Store | None = None, **stated: Any) -> tuple[SleepHealth, SleeptimeService]:
    settings = SleeptimeSettings.model_validate(stated)
    rows = PassLifecycle(stand.clock, stand.ids, stand.memory.events)
    tier = SleeptimeService(stand.clock, stand.memory.events, settings, rows, stand.publisher)
    return SleepHealth(stand.clock, store or stand.store, tier), tier


async def _note(posted: list[object], alert: Mapping[str, object]) -> None:
    posted.append(alert["cause"])


async def alerts(stand: Stand) -> list[Any]:
    async with stand.store.begin_read() as tx:
        found = await tx.events.find_after(0, limit=100, types=(EventType.ALERT,))
    return [each.data for each in found]


@pytest.mark.spec("SLEEP-60")
async def test_a_bank_turns_red_when_nothing_is_worked_through_though_something_waits(stand: Stand) -> None:
    health, _ = health_of(stand, max_lag_minutes=10)
    await health.step()
    assert (health.seen.banks, health.seen.episodes, health.seen.lag_seconds) == (0, 0, 0.0)
    await stand.said("one", "two")
    stand.clock.advance(10 * 60)
    await health.step()
    assert (health.seen.banks, health.seen.episodes, health.seen.lag_seconds) == (1, 2, 660.0)
    assert not health.seen.red
    stand.clock.advance(10 * 60)
    await health.step()
    assert health.seen.red == {"ann": "the oldest turn has waited for 21 minutes; passes begin after 10"}
    await health.step()
    assert await alerts(stand) == [{"cause": "sleep_time", "banks": dict(health.seen.red), "red": 1}]


@pytest.mark.spec("SLEEP-60")
async def test_a_bank_that_turns_red_while_the_disk_is_full_is_told_once_there_is_room(stand: Stand) -> None:
    disk = FullDiskStore(stand.store)
    health, _ = health_of(stand, disk)
    await stand.said("one")
    stand.clock.advance(24 * 3600)
    disk.full = True
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            await health.step()
        assert set(health.seen.red) == {"ann"}, "it is measured all the same"
    disk.full = False
    for _ in range(2):
        await health.step()
    assert [each["red"] for each in await alerts(stand)] == [1]


@pytest.mark.spec("SLEEP-60")
async def test_a_bank_whose_passes_fail_in_a_row_is_red_and_one_that_a_person_has_paused_is_not_late(
    stand: Stand,
) -> None:
    health, tier = health_of(stand)
    await stand.said("one")
    stand.clock.advance(24 * 3600)
    async with stand.store.begin_write() as tx:
        await tier.pause(tx, stand.bank, by="operator")
    await health.step()
    assert (health.seen.lag_seconds, dict(health.seen.red)) == (0.0, {})
    async with stand.store.begin_write() as tx:
        state = await tx.sleep_states.get(stand.bank.id)
        await tx.sleep_states.put(replace(state, failures=3))
    await health.step()
    assert (health.seen.failures, health.seen.red) == (3, {"ann": "3 passes failed in a row"})
    async with stand.store.begin_write() as tx:
        await tx.sleep_states.put(replace(state, failures=3, cursor=99))
    await health.step()
    told = {"ann": "3 passes failed in a row"}
    assert (health.seen.banks, health.seen.failures, health.seen.red) == (0, 3, told), "also if nothing waits"


@pytest.mark.spec("SLEEP-60")
async def test_servers_tell_together_once_of_a_red_bank_and_once_that_it_is_well_again(stand: Stand) -> None:
    first, second = health_of(stand)[0], health_of(stand)[0]
    posted: list[object] = []
    telling = [
        AlertNotifier(stand.clock, stand.ids, stand.store, stand.memory.events, partial(_note, posted))
        for _ in range(2)
    ]
    for each in telling:
        await each.step()
    await stand.said("one", "two")
    stand.clock.advance(24 * 3600)
    for _ in range(2):
        await asyncio.gather(first.step(), second.step())
    assert [each["cause"] for each in await alerts(stand)] == ["sleep_time"]
    third = health_of(stand)[0]  # the first dies, and another is started
    for each in (second, third):
        await each.step()
    async with stand.store.begin_write() as tx:
        state = await tx.sleep_states.get(stand.bank.id)
        await tx.sleep_states.put(replace(state, cursor=99))
    await second.step()
    assert len(await alerts(stand)) == 1, "by another clock it may be red still"
    stand.clock.advance(60)
    for _ in range(2):
        await asyncio.gather(second.step(), third.step())
    assert (await alerts(stand))[1:] == [{"cause": "sleep_time_over", "banks": ["ann"], "red": 0}]
    async with stand.store.begin_write() as tx:
        await tx.sleep_states.put(replace(state, cursor=99, failures=3))
    for each in (third, second):
        await each.step()
    assert [each["cause"] for each in await alerts(stand)] == ["sleep_time", "sleep_time_over", "sleep_time"]
    for each in (*telling, *telling):
        await each.step()
        await each.wait_until_posted()
    assert posted == ["sleep_time", "sleep_time_over"], "each at most once an hour"
