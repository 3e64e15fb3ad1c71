"""Runs one pass in this process and waits for its end: for folders and evaluations, which have no running worker."""

import asyncio
from collections.abc import Mapping

from circadia.errors import NotFound
from circadia.records.bank import Bank
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.triggers.pass_lifecycle import TOPIC, NewPass
from circadia.stores.base import Store
from circadia.stores.signals.base import Signals


async def run_one_pass(
    store: Store, signals: Signals, tier: SleeptimeService, worker: SleepWorker, bank: Bank, new: NewPass
) -> Pass:
    """Request a pass, or go on with an open one, and return it when it has ended."""
    ended = asyncio.Event()

    def on_signal(key: str, data: Mapping[str, object]) -> None:
        if key == bank.id and data["ended"]:
            ended.set()

    stop_listening = signals.listen(TOPIC, on_signal)
    try:
        async with store.begin_write() as tx:
            run = await tx.passes.get_open(bank.id) or await tier.request_pass(tx, bank, new)
        working = asyncio.ensure_future(worker.run())
        try:
            await asyncio.wait((working, asyncio.ensure_future(ended.wait())), return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    finally:
        stop_listening()
    async with store.begin_read() as tx:
        done = await tx.passes.get(run.id)
    if done is None:
        raise NotFound(f"pass {run.id!r} is gone")
    return done
