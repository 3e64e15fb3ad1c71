"""A process that runs passes over a bank until it is killed; it tells on its output each question that it asks.

A line is `asked` with what the model is to read, or `ended` with how the pass has ended.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from circadia.clock import SystemClock, system_milliseconds
from circadia.ids import RandomIds
from circadia.llm.chat_model import Prompt
from circadia.server.memory_wiring import build_memory_services
from circadia.settings import Settings
from circadia.settings.sleeptime import SleepPolicySettings, SleeptimeSettings
from circadia.sleeptime.engine import pass_runner
from circadia.sleeptime.engine.pass_runner import SleepContext
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.proposals.operation import Operation
from circadia.sleeptime.publish.effects import Effects
from circadia.sleeptime.publish.publisher import Publisher
from circadia.sleeptime.triggers.pass_lifecycle import PassLifecycle
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.testing.scripted_model import ScriptedChatModel
from tests.sleeptime.tier_stand import PairOutput, Pairs

PAGE = 6
"""Episodes that are published together: small, so that kills fall between publications."""


def reading(prompt: Prompt, _: type[BaseModel]) -> PairOutput:
    """Read, and tell of it."""
    print(f"asked {prompt.data}", flush=True)
    return PairOutput(text=prompt.data)


def does(_: SleepPolicySettings, __: bool, ___: Sequence[str]) -> Sequence[Operation]:
    """Return what passes do."""
    return [Pairs()]


async def main(place: str) -> None:
    """Work until a pass has ended, or forever."""
    pass_runner.PAGE = PAGE
    store = await (open_postgres(place) if place.startswith("postgresql") else open_sqlite(Path(place)))
    clock, ids, signals = SystemClock(), RandomIds(system_milliseconds), LocalSignals()
    memory = build_memory_services(Settings.model_validate({}), clock, ids, EventLog(clock, signals), None)
    settings = SleeptimeSettings.model_validate({"idle_seconds": 0, "passes_per_hour": 1000})
    rows = PassLifecycle(clock, ids, memory.events)
    tier = SleeptimeService(clock, memory.events, settings, rows, Publisher(clock, Effects(clock, memory)))
    parts = SleepContext(
        store=store, signals=signals, ids=ids, sleeptime=tier, operations=does, retrieval=memory.retrieval,
        model=ScriptedChatModel(reading),
    )  # fmt: skip
    # What a killed process had taken is taken over at once, instead of after its lease: it is alone.
    worker = SleepWorker(clock, parts, owner=ids.new("exe"), alone=True)
    working = asyncio.create_task(worker.run())
    while True:
        async with store.begin_read() as tx:
            found = await tx.passes.find_all()
        if found and not any(run.is_open for run in found) and found[0].upto == found[0].after:
            print(f"ended {found[0].status.value}", flush=True)
            break
        await asyncio.sleep(0.05)
    working.cancel()
    await worker.drain()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
