"""Run passes in this process as the server does, one after the other, by default with a rule-based model."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from circadia.clock import Clock, SystemClock, system_milliseconds
from circadia.ids import RandomIds
from circadia.llm.chat_model import ChatModel, Prompt
from circadia.llm.schemas import answer_schema_json
from circadia.llm.usage import Usage
from circadia.memory.embedding.background import BackgroundEmbedder
from circadia.memory.embedding.base import Embedder
from circadia.memory.services import MemoryServices
from circadia.records.bank import Bank
from circadia.records.sleep_pass import Pass, Trigger
from circadia.server.memory_wiring import build_memory_services
from circadia.server.sleeptime_wiring import build_sleep_parts, build_sleeptime
from circadia.settings import Settings
from circadia.sleeptime.engine.services import SleeptimeService
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.triggers.pass_lifecycle import TOPIC, NewPass
from circadia.stores.base import Store
from circadia.stores.event_log import EventLog
from circadia.stores.signals.base import Signals
from circadia.testing.rule_based_model import RuleBasedModel

T = TypeVar("T", bound=BaseModel)

WITHOUT_LIMITS: Final[Mapping[str, Any]] = {
    "model": "none", "passes_per_hour": 100_000, "max_passes_per_hour": 100_000,
    "budget": {"per_pass": {}, "per_day": {}}, "fleet_budget": {"per_day": {}},
}  # fmt: skip
"""Settings without limits on passes; the model is passed separately."""


class RecordingModel:
    """Wraps a model and records its prompts and its time, which is not a pass's own; rule-based by default."""

    def __init__(self, model: ChatModel | None = None, clock: Clock | None = None) -> None:
        self._model = model or RuleBasedModel()
        self._clock = clock or SystemClock()
        self.name = self._model.name
        self.upstream = self._model.upstream
        self.thinking_tokens = self._model.thinking_tokens
        self.prompts: list[str] = []
        """What a model would read: rules, data, and the answer's schema."""
        self.used: list[Usage] = []
        """Usage of each answer, as the model reports it."""
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    async def ask(self, prompt: Prompt, output: type[T], *, most_tokens: int) -> tuple[T, Usage]:
        """Return the model's answer. Raises ModelAnswerError."""
        began, spent = self._clock.monotonic(), time.process_time()
        try:
            answer, used = await self._model.ask(prompt, output, most_tokens=most_tokens)
            self.used.append(used)
            return answer, used
        finally:
            self.prompts.append(f"{prompt.rules}\n{prompt.data}\n{answer_schema_json(output).decode()}")
            self.seconds += self._clock.monotonic() - began
            self.cpu_seconds += time.process_time() - spent

    def price(self, used: Usage) -> int | None:
        return self._model.price(used)

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        return self._model.worst_price(input_tokens, output_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class PassTiming:
    sleep_pass: Pass
    """The final row."""
    seconds: float
    """Duration without the model's time."""
    cpu_seconds: float
    """CPU time of this process without the model's."""


class PassFailed(RuntimeError):
    """A pass failed or left work undone."""


class PassHarness:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        signals: Signals,
        memory: MemoryServices,
        sleeptime: SleeptimeService,
        worker: SleepWorker,
        model: RecordingModel | None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.signals = signals
        self.memory = memory
        self.sleeptime = sleeptime
        self.model = model
        self._worker = worker

    async def run_pass(self, bank: Bank) -> PassTiming:
        """Run a pass over all pending work of the bank. Raises PassFailed: it failed, or left work undone."""
        ended = asyncio.Event()

        def on_signal(key: str, data: Mapping[str, object]) -> None:
            if key == bank.id and data["status"] not in ("pending", "running"):
                ended.set()

        chat_model = self.model
        model_seconds, cpu = (chat_model.seconds, chat_model.cpu_seconds) if chat_model else (0.0, 0.0)
        stop_listening = self.signals.listen(TOPIC, on_signal)
        try:
            async with self.store.begin_write() as tx:
                run = await self.sleeptime.request_pass(tx, bank, NewPass(trigger=Trigger.HAND, by="evaluation"))
            began, spent = self.clock.monotonic(), time.process_time()
            await self._worker.step()
            await ended.wait()
            seconds, used = self.clock.monotonic() - began, time.process_time() - spent
        finally:
            stop_listening()
        if chat_model:
            model_seconds, cpu = chat_model.seconds - model_seconds, chat_model.cpu_seconds - cpu
        async with self.store.begin_read() as tx:
            done = await tx.passes.get(run.id)
        if done is None or done.status.value not in ("succeeded", "no_change"):
            raise PassFailed(f"the pass did not succeed: {done!r}")
        return PassTiming(sleep_pass=done, seconds=seconds - model_seconds, cpu_seconds=used - cpu)


@contextlib.asynccontextmanager
async def open_pass_harness(
    store: Store,
    signals: Signals,
    mind: RecordingModel | None,
    *,
    clock: Clock | None = None,
    embedder: Embedder | None = None,
) -> AsyncGenerator[PassHarness]:
    """Open a harness wired like the server; `mind` None has no model, `embedder` None searches by words alone."""
    clock, ids = clock or SystemClock(), RandomIds(system_milliseconds)
    settings = Settings.model_validate({"sleeptime": dict(WITHOUT_LIMITS)})
    memory = build_memory_services(settings, clock, ids, EventLog(clock, signals), embedder)
    if embedder is not None:
        memory = replace(memory, embedding=BackgroundEmbedder(clock, store, signals, embedder))
    tier = build_sleeptime(settings, clock, ids, memory)
    parts = build_sleep_parts(settings, ids, store, signals, tier, memory, (mind, None))
    worker = SleepWorker(clock, parts, owner=ids.new("exe"), alone=True)
    try:
        yield PassHarness(store, clock, signals, memory, tier, worker, mind)
    finally:
        await worker.drain()
