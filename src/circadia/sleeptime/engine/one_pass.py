"""Runs one pass in this process and waits for its end: for folders and evaluations, which have no running worker."""

import asyncio
from collections.abc import Mapping
from typing import Final

from circadia.errors import NotFound, StorageUnavailable
from circadia.records.bank import Bank
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.triggers.pass_lifecycle import TOPIC, NewPass
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals

IDLE_SECONDS: Final = 60.0
"""A pass that the worker has not begun, or gone on with, after so long will not run."""


async def run_one_pass(
    store: Store, signals: Signals, tier: SleeptimeService, worker: SleepWorker, bank: Bank, new: NewPass
) -> Pass:
    """Request a pass, or go on with an open one, and return it when it has ended.

    Raises:
        StorageUnavailable: it does not run; the log says why.
    """
    ended = asyncio.Event()

    def on_signal(key: str, data: Mapping[str, object]) -> None:
        if key == bank.id and data["ended"]:
            ended.set()

    stop_listening = signals.listen(TOPIC, on_signal)
    try:
        async with store.begin_write() as tx:
            run = await tx.passes.get_open(bank.id) or await tier.request_pass(tx, bank, new)
        tasks = [asyncio.ensure_future(work) for work in (ended.wait(), worker.run())]
        try:
            while not ended.is_set():
                done, _ = await asyncio.wait(tasks, timeout=IDLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if not ended.is_set() and (done or not worker.running_count):
                    raise StorageUnavailable(f"pass {run.id!r} does not run; the log says why; try again")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        stop_listening()
    async with store.begin_read() as tx:
        done = await tx.passes.get(run.id)
    if done is None:
        raise NotFound(f"pass {run.id!r} is gone")
    return done
