"""The minutes of a suspended pulse: those of today count on, those of another day do not (WAKE-84)."""

from datetime import timedelta
from pathlib import Path

import pytest

from circadia.ids import RandomIds
from circadia.records.pulse import PulseStatus
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.testing.clock import ManualClock
from circadia.wake.pulse_lifecycle import PulseLifecycle
from tests.contract.rows import agent
from tests.contract.test_store_wakes import kept
from tests.contract.wake_rows import pulse, wake
from tests.fixtures.database_file import put_database

BOB = agent("bob")


@pytest.mark.spec("WAKE-84")
@pytest.mark.parametrize(("ended_before_midnight", "counted"), [(1.0, 0.0), (-1.0, 600.0), (0.0, 600.0)])
async def test_only_what_it_ran_today_counts_on(tmp_path: Path, ended_before_midnight: float, counted: float) -> None:
    store = await open_sqlite(put_database(tmp_path))
    clock = ManualClock()
    lifecycle = PulseLifecycle(clock, RandomIds(lambda: 0), EventLog(clock, LocalSignals()))
    midnight = clock.now()
    try:
        suspended = pulse(
            "p1", BOB, status=PulseStatus.SUSPENDED, launcher="away", run_seconds=600.0, epoch=3, attempt=2,
            ended_at=midnight - timedelta(seconds=ended_before_midnight),
        )  # fmt: skip
        await kept(store, suspended)
        async with store.begin_write() as tx:
            request = wake("w1", BOB)
            again = await lifecycle.resume(tx, suspended, request, today=midnight, timeout_seconds=60.0)
        assert (again.status, again.run_seconds, again.epoch, again.attempt) == (PulseStatus.PENDING, counted, 4, 0)
        assert (again.id, again.wake_id, again.root_id) == (suspended.id, request.id, request.root_id)
        async with store.begin_read() as tx:
            assert await tx.pulses.get(suspended.id) == again
    finally:
        await store.close()
