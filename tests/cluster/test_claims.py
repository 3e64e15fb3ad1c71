"""A worker claims work without holding the agent or the bank: whoever ends that work meanwhile is not refused."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from circadia.jobs.leased_jobs import LeasedJobs
from circadia.records.pulse import Pulse, PulseStatus
from circadia.records.sleep_pass import PassStatus, Trigger
from circadia.sleeptime.triggers.pass_lifecycle import NewPass, PassLifecycle
from circadia.stores.base import Tx
from circadia.wake.worker import StartablePulses, WakeWorker
from tests.contract.sleep_rows import banks_of
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.postgres_proxy import postgres_proxy
from tests.wake.fleet import FREE, LAUNCHED, Fleet, postgres_fleet
from tests.watched_store import HookedStore

pytestmark = pytest.mark.spec("CLU-05", "LARGE-133")


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


async def test_a_claim_whose_answer_is_lost_is_one_claim(postgres_server: PostgresServer, postgres_url: str) -> None:
    """The connection is cut after the claim has been carried out, and the driver sends it again."""
    async with postgres_proxy(postgres_server) as proxy, postgres_fleet(proxy.url(postgres_url), "main") as team:
        for name in ("ann", "bob", "cid"):
            assert (await team.ask(None, await team.agent(name, LAUNCHED, FREE))).pulse_id is not None
        jobs = LeasedJobs[Pulse](
            team.clock, team.store, lambda tx: StartablePulses(tx, team.launchers), _do_nothing, _do_nothing, _fail,
            name="a test", owner="exe_lost", alone=False,
        )  # fmt: skip
        proxy.arm_statement("exe_lost")
        (claimed,) = await jobs.claim(limit=1)
        assert proxy.cuts == 1
        async with team.store.begin_read() as tx:
            owned = [pulse.id for pulse in await tx.pulses.find_all() if pulse.owner == "exe_lost"]
        assert owned == [claimed.id]


async def test_the_next_claim_takes_what_one_has_claimed_whose_answer_never_came(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with postgres_proxy(postgres_server) as proxy, postgres_fleet(proxy.url(postgres_url), "main") as team:
        wake = await team.ask(None, await team.agent("bob", LAUNCHED, FREE))
        worker = team.new_worker("exe_lost", alone=False)
        await team.pulses()  # a connection for reading is open
        proxy.refuses = True
        proxy.arm_statement("exe_lost")
        await worker.step()
        assert proxy.cuts == 1
        proxy.refuses = False
        team.clock.advance(1)  # far from the end of the lease
        await worker.step()
        pulse = await team.until(wake.pulse_id, PulseStatus.RUNNING)
        assert (pulse.owner, pulse.attempt) == ("exe_lost", 1)
        await worker.drain(0)


class DrainingStore(HookedStore):
    """A store at whose next commit a worker begins to drain."""

    worker: WakeWorker | None = None
    drain: asyncio.Task[None] | None = None

    def after_commit(self) -> None:
        if self.worker is not None:
            self.drain, self.worker = asyncio.create_task(self.worker.drain(0)), None


@pytest.mark.spec("WAKE-55")
async def test_a_pulse_that_is_claimed_as_a_drain_begins_starts_elsewhere_without_a_pause(team: Fleet) -> None:
    wake = await team.ask(None, await team.agent("bob", LAUNCHED, FREE))
    store = team.store
    team.store = draining = DrainingStore(store)
    draining.worker = leaving = team.new_worker("exe_leaving", alone=False)
    team.store = store
    await leaving.step()
    assert draining.drain is not None
    await draining.drain
    assert (await team.pulse(wake.pulse_id)).status is PulseStatus.PENDING
    other = team.new_worker("exe_other", alone=False)
    await other.step()
    pulse = await team.until(wake.pulse_id, PulseStatus.RUNNING)
    assert (pulse.owner, pulse.attempt) == ("exe_other", 1)
    await other.drain(0)


async def _do_nothing(tx: Tx, pulse: Pulse) -> None:
    pass


async def _fail(tx: Tx, pulse: Pulse, detail: str) -> Pulse:
    return pulse
