"""A worker over a stand's bank, moved by hand, with an operation that has a model read two episodes at a time."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from circadia.clock import Clock
from circadia.ids import AgentId, SessionId
from circadia.llm.chat_model import ChatModel, ModelAnswerError, Prompt
from circadia.records.agent import Agent, AgentPolicy, Cause
from circadia.records.change import Change
from circadia.records.note import NoteKind
from circadia.records.session import Session, SessionStatus
from circadia.records.sleep_pass import Pass, Trigger
from circadia.settings.sleeptime import SleepPolicySettings, SleeptimeSettings
from circadia.sleeptime.engine.pass_runner import SleepContext
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.proposals.changes import add_note
from circadia.sleeptime.proposals.operation import ModelQueryFunction, Operation, PageContext, Step
from circadia.sleeptime.triggers.pass_lifecycle import NewPass, PassLifecycle
from circadia.stores.event_log import EventLog
from circadia.stores.signals.local import LocalSignals
from circadia.telemetry.traces import Traces
from tests.sleeptime.stand import Stand


class PairOutput(BaseModel):
    """What the model has read."""

    text: str


class Pairs:
    """An operation that notes two new episodes at a time, as the model reads them."""

    name = "pairs"
    asks = True

    def plan(self, view: PageContext) -> Sequence[Step]:
        pairs = [view.page[at : at + 2] for at in range(0, len(view.page), 2)]
        return [Step(name=pair[0].text, episodes=pair) for pair in pairs]

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        read = await ask(
            Prompt(rules="Read.", data=" ".join(each.text for each in step.episodes)), PairOutput, most_tokens=9
        )
        return [add_note(view, self.name, NoteKind.SUMMARY, read.text, step.episodes, why="read")]


class Slow:
    """A model that answers when a test says so."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.asked = asyncio.Event()
        self.count = 0

    async def __call__(self, prompt: Prompt, _: type[BaseModel]) -> PairOutput:
        self.count += 1
        self.asked.set()
        await self.free.wait()
        return PairOutput(text=prompt.data)


class Tier:
    """A worker over a stand's bank, moved by hand."""

    def __init__(
        self, stand: Stand, mind: ChatModel | None, *, does: Sequence[Operation] | None = None,
        traces: Traces | None = None, **policy: Any,
    ) -> None:  # fmt: skip
        self.stand = stand
        self.does = [Pairs()] if does is None else does
        self.mind = mind
        self.traces = traces or Traces()
        self.signals = LocalSignals()
        self.settings = SleeptimeSettings.model_validate(policy)
        self.rows = PassLifecycle(stand.clock, stand.ids, EventLog(stand.clock, self.signals))
        self.tier = SleeptimeService(stand.clock, stand.memory.events, self.settings, self.rows, stand.publisher)

    def worker(self, owner: str = "exe1", *, alone: bool = False, clock: Clock | None = None) -> SleepWorker:
        """Return a worker; with a clock of its own that stands still it never says that it lives."""

        def operations(_: SleepPolicySettings, model: bool, wanted: Sequence[str]) -> Sequence[Operation]:
            return self.does if model else []

        parts = SleepContext(
            store=self.stand.store, signals=self.signals, ids=self.stand.ids, sleeptime=self.tier,
            operations=operations, retrieval=self.stand.memory.retrieval, model=self.mind, traces=self.traces,
        )  # fmt: skip
        worker = SleepWorker(clock or self.stand.clock, parts, owner=owner, alone=alone)
        self.stand.workers.append(worker)
        return worker

    async def passes(self) -> Sequence[Pass]:
        """Return all, the oldest first."""
        async with self.stand.store.begin_read() as tx:
            return [*reversed(await tx.passes.find_all())]

    async def until(self, is_so: Callable[[Sequence[Pass]], bool]) -> Sequence[Pass]:
        """Return the passes once it is so; the tasks that run them need some turns of the loop."""
        async with asyncio.timeout(60):
            while not is_so(found := await self.passes()):
                await asyncio.sleep(0)
        async with self.stand.store.begin_write() as tx:  # it returns after those committed before it: all have heard
            await tx.events.last_number()
        return found

    async def ended(self, number: int = 1) -> Sequence[Pass]:
        """Return the passes once so many have ended."""
        return await self.until(lambda found: sum(not each.is_open for each in found) >= number)

    async def asked(self, *, trigger: Trigger = Trigger.HAND, **more: Any) -> Pass:
        """Ask for a pass by hand."""
        async with self.stand.store.begin_write() as tx:
            return await self.tier.request_pass(tx, self.stand.bank, NewPass(trigger=trigger, by="ann", **more))

    async def gate(self) -> str:
        """Return the gate that is written down."""
        async with self.stand.store.begin_read() as tx:
            return (await tx.sleep_states.get(self.stand.bank.id)).gate

    async def agent(self, *, asleep: bool) -> None:
        """Make or move the agent that is bound to the bank."""
        now = self.stand.clock.now()
        async with self.stand.store.begin_write() as tx:
            found = await tx.agents.get(AgentId("agt_1"))
            if found is None:
                session = Session(
                    id=SessionId("ses_1"), name="default", status=SessionStatus.OPEN, created_at=now, touched_at=now
                )
                await tx.sessions.add(session)
                await tx.agents.add(
                    Agent(
                        id=AgentId("agt_1"),
                        session_id=SessionId("ses_1"),
                        session="default",
                        name="guide",
                        token_hash="x",
                        policy=AgentPolicy(bank="ann"),
                        created_at=now,
                        since=now,
                        asleep=asleep,
                    )
                )
            else:
                moved = replace(
                    found, asleep=asleep, since=now, generation=found.generation + 1, cause=Cause.OPERATOR, actor="p"
                )
                await tx.agents.save_sleep_state(moved, from_generation=found.generation)
        self.signals.publish("sleep", "agt_1", {"asleep": asleep})


def reading(prompt: Prompt, _: type[BaseModel]) -> PairOutput | ModelAnswerError:
    """Read all."""
    return PairOutput(text=prompt.data)
