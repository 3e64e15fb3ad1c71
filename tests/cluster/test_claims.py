"""A worker claims work without holding the agent or the bank: whoever ends that work meanwhile is not refused."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from circadia.records.pulse import PulseStatus
from circadia.records.sleep_pass import PassStatus, Trigger
from circadia.sleeptime.triggers.pass_lifecycle import NewPass, PassLifecycle
from tests.contract.sleep_rows import banks_of
from tests.wake.fleet import FREE, LAUNCHED, Fleet, postgres_fleet

pytestmark = pytest.mark.spec("CLU-05")


@pytest.fixture
async def team(postgres_url: str) -> AsyncGenerator[Fleet]:
    async with postgres_fleet(postgres_url, "main") as team:
        yield team


async def test_a_pulse_is_cancelled_although_a_worker_claims_it_meanwhile(team: Fleet) -> None:
    async def claim() -> None:
        async with team.store.begin_write() as tx:
            now = team.clock.now()
            assert await tx.pulses.claim("exe_2", ["fake"], now=now, until=now + timedelta(seconds=15), limit=1)

    wake = await team.ask(None, await team.agent("bob", LAUNCHED, FREE))
    assert wake.pulse_id is not None
    async with team.store.begin_write() as tx:
        pulse = await tx.pulses.get(wake.pulse_id)
        assert pulse is not None
        await asyncio.create_task(claim())
        ended = await team.tier.pulses.cancel(tx, pulse, by="operator")
    assert (ended.status, ended.epoch) == (PulseStatus.CANCELLED, pulse.epoch + 1)


async def test_a_pass_is_cancelled_although_a_worker_claims_it_meanwhile(team: Fleet) -> None:
    async def claim() -> None:
        async with team.store.begin_write() as tx:
            now = team.clock.now()
            assert await tx.passes.claim("exe_2", now=now, until=now + timedelta(seconds=15), limit=1)

    passes = PassLifecycle(team.clock, team.ids, team.event_log)
    (bank_id,) = await banks_of(team.store, "team")
    async with team.store.begin_write() as tx:
        bank = await tx.banks.get(bank_id)
        assert bank is not None
        run = await passes.request_pass(tx, bank, NewPass(trigger=Trigger.HAND, by="operator"))
    async with team.store.begin_write() as tx:
        assert await tx.passes.get(run.id) == run
        await asyncio.create_task(claim())
        ended = await passes.end(tx, bank, run, PassStatus.CANCELLED, "cancelled by operator")
    assert (ended.status, ended.epoch) == (PassStatus.CANCELLED, run.epoch + 1)
