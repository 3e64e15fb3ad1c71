"""A process that makes answers ready in a pass until it is killed; it tells on its output what it asks and writes.

A line is `asked` with what a model is asked, `wrote` for each transaction, or `ended` with how the pass has ended.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pydantic import BaseModel

from circadia.answers.lookup import AnswerLookup
from circadia.answers.question_drafts import AnswerServices
from circadia.clock import SystemClock, system_milliseconds
from circadia.gateway.answers.drafting import GatewayAnswerDrafter
from circadia.gateway.calls.upstream import Provider
from circadia.ids import RandomIds
from circadia.llm.chat_model import Prompt
from circadia.memory.embedding.bundled import BundledEmbedder
from circadia.server.memory_wiring import build_memory_services
from circadia.settings import Settings
from circadia.settings.sleeptime import SleepPolicySettings, SleeptimeSettings
from circadia.sleeptime.answers.prediction import Predictions, QuestionVerdicts
from circadia.sleeptime.engine.pass_runner import SleepContext
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.operations.precompute import Precompute
from circadia.sleeptime.proposals.operation import Operation
from circadia.sleeptime.publish.effects import Effects
from circadia.sleeptime.publish.publisher import Publisher
from circadia.sleeptime.triggers import pass_lifecycle
from circadia.sleeptime.triggers.pass_lifecycle import PassLifecycle
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.postgres import open_postgres
from circadia.stores.signals.local import LocalSignals
from circadia.stores.sqlite import open_sqlite
from circadia.testing.rule_based_model import build_question_verdicts
from circadia.testing.scripted_model import ScriptedChatModel
from circadia.testing.upstream import MockUpstream
from tests.sleeptime.answers_stand import CAT, HOME, JOB, expecting, provided
from tests.watched_store import HookedStore

EXPECTED: Final[Mapping[str, Predictions]] = {
    "guide": expecting(
        (HOME, "In which city does Ann live?"),
        (CAT, "What's the name of the cat of Ann?"),
        (JOB, "What company does Ann work for?"),
    ),
    "clerk": expecting((JOB, "What company does Ann work for?"), (HOME, "In which city does Ann live?")),
}
"""What the tier's model expects of each agent."""
ATTEMPTS: Final = 10_000
"""Deaths after which a pass is given up: none of those here, each of which comes at another point of its work."""


class PrintingStore(HookedStore):
    """A store that tells of each transaction that it has written."""

    def after_commit(self) -> None:
        """Tell."""
        print("wrote", flush=True)


def foreseen(prompt: Prompt, output: type[BaseModel]) -> Predictions | QuestionVerdicts:
    """Expect questions, or judge them, and tell of it."""
    if output is QuestionVerdicts:
        verdicts = build_question_verdicts(prompt.data)
        print(f"asked verdicts on {len(verdicts.questions)}", flush=True)
        return verdicts
    name = next(each for each in EXPECTED if f"is called {each}." in prompt.data)
    print(f"asked {name}", flush=True)
    return EXPECTED[name]


def answered(body: Mapping[str, Any]) -> str:
    """Answer a question as nobody does twice, and tell of it."""
    rules, *_, said = (str(each["content"]) for each in body["messages"])
    name = next(each for each in EXPECTED if f"You are {each}." in rules)
    asked = f"{name}: {said.splitlines()[0]}"
    print(f"asked {asked}", flush=True)
    return f"{asked} {uuid4()}"


def does(_: SleepPolicySettings, __: bool, ___: Sequence[str]) -> Sequence[Operation]:
    """Return what passes do."""
    return [Precompute()]


def worker(store: Store, provider: Provider) -> SleepWorker:
    """Return what works passes through."""
    clock, ids, signals = SystemClock(), RandomIds(system_milliseconds), LocalSignals()
    given = Settings.model_validate({})
    memory = build_memory_services(given, clock, ids, EventLog(clock, signals), None)
    settings = SleeptimeSettings.model_validate({"idle_seconds": 0, "passes_per_hour": 1000})
    rows = PassLifecycle(clock, ids, memory.events)
    tier = SleeptimeService(clock, memory.events, settings, rows, Publisher(clock, Effects(clock, memory)))
    lookup = AnswerLookup(clock, memory.retrieval, BundledEmbedder(), given.answers)
    readying = AnswerServices(
        drafter=GatewayAnswerDrafter(clock, store, memory, lookup, {"mock": provider}),
        settings=given.answers,
        clock=clock,
        ids=ids,
        validator=lookup,
    )
    parts = SleepContext(
        store=store, signals=signals, ids=ids, sleeptime=tier, operations=does, retrieval=memory.retrieval,
        model=ScriptedChatModel(foreseen), answer_services=readying,
    )  # fmt: skip
    # What a killed process had taken is taken over at once, instead of after its lease: it is alone.
    return SleepWorker(clock, parts, owner=ids.new("exe"), alone=True)


async def main(place: str) -> None:
    """Work until a pass has ended, or forever."""
    pass_lifecycle.ATTEMPTS = ATTEMPTS
    store = PrintingStore(await (open_postgres(place) if place.startswith("postgresql") else open_sqlite(Path(place))))
    async with MockUpstream(key="sk-mock", reply=answered) as up, provided(up, SystemClock()) as provider:
        working_on = worker(store, provider)
        working = asyncio.create_task(working_on.run())
        while True:
            async with store.begin_read() as tx:
                found = await tx.passes.find_all()
            if found and not any(run.is_open for run in found):
                print(f"ended {found[0].status.value}", flush=True)
                break
            await asyncio.sleep(0.05)
        working.cancel()
        await working_on.drain()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
