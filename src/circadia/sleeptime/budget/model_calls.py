"""Asks the tier's model within the budget, and never pays twice for one answer (SLEEP-10, SLEEP-40).

A question's key is the hash of everything that its answer depends on. Its ledger line is written before the model is
asked, with the highest possible cost, and settled with the answer. So a killed or preempted pass starts again from its
beginning, over the same input, and finds each answer that was paid for.
"""

import asyncio
import hashlib
import logging
import math
import random
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

from opentelemetry.trace import Span
from pydantic import BaseModel, ValidationError

from circadia.clock import Clock
from circadia.errors import StorageUnavailable
from circadia.ids import AgentId, BankId, CallId, IdSource
from circadia.jobs.leased_jobs import BEAT_SECONDS, LEASE_SECONDS
from circadia.llm.batches import PRICE_SHARE
from circadia.llm.chat_model import ChatModel, ModelAnswerError, Prompt
from circadia.llm.models import THINKING_TOKENS
from circadia.llm.schemas import answer_schema_json
from circadia.llm.usage import Usage
from circadia.records.call import Call, CallStatus
from circadia.records.sleep_call import SleepCall, SleepCost
from circadia.records.sleep_pass import Pass
from circadia.stores.base import Store, Tx
from circadia.telemetry.traces import Traces, end_call_span

T = TypeVar("T", bound=BaseModel)

_logger = logging.getLogger(__name__)

BYTES_A_TOKEN: Final = 3
"""The ratio of `memory/context.py`: more tokens than English needs, so that a reservation is never too small."""
WRAPPING_BYTES: Final = 200
"""What a provider adds around a question and its schema, if the schema is part of the prompt."""
TRIES: Final = 3
"""Attempts when the provider is at fault; each one counts as a call (SLEEP-13)."""
DEATHS: Final = 3
"""Processes that may die while they ask one question before it is quarantined; fewer than a pass has starts."""
PAUSE_SECONDS: Final = 2.0
"""Pause before the second attempt, doubled for the third, unless the provider names one."""
LONGEST_PAUSE_SECONDS: Final = 60.0
"""A provider that wants a longer pause is asked again by a later pass."""
ELSEWHERE_SECONDS: Final = 0.5
"""Interval between checks on a question that another process asks."""
REWRITE_SECONDS: Final = 1.0
"""Pause before an outcome is written again after the database was away."""
READINGS: Final = 2.5
"""Times that a model reads a text, with the rules and rows beside it: to consolidate, and to verify."""
WRITTEN_SHARE: Final = 0.1
"""Tokens that it writes for each one that it reads."""
QUESTION_TOKENS: Final = 3_000
"""Tokens that a question reads, about."""
ENDPOINT: Final = "sleep"
"""The ledger's endpoint for sleep calls."""


class Scope(StrEnum):
    PASS = "pass"
    BANK = "bank"
    OPERATION = "operation"
    FLEET = "fleet"


class Unit(StrEnum):
    """What a limit counts: a field of `SleepCost`."""

    CALLS = "calls"
    TOKENS = "tokens"
    NANOUSD = "nanousd"
    SECONDS = "seconds"


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """A maximum of a unit within a window, over a scope."""

    scope: Scope
    unit: Unit
    most: float
    window: timedelta | None = None
    """None counts the whole history of the scope."""
    operation: str | None = None
    """The operation that it applies to; none applies to all."""


_OVER: Final[Mapping[Scope, str]] = {
    Scope.PASS: "each pass", Scope.BANK: "each bank", Scope.OPERATION: "all banks", Scope.FLEET: "all banks",
}  # fmt: skip
_NANOUSD: Final = 1e9
_HOUR: Final = timedelta(hours=1)


class OverBudget(Exception):
    """A limit is reached. The question can be asked when there is room again."""

    def __init__(self, limit: Limit, *, alone: bool = False) -> None:
        """`alone` means that the question exceeds the limit whatever was spent: it is never asked."""
        most = (
            f"${limit.most / _NANOUSD:,.4g}" if limit.unit is Unit.NANOUSD else f"{limit.most:,.12g} {limit.unit.value}"
        )
        of = "" if limit.operation is None else f" of {limit.operation}"
        window = "" if limit.window is None else f" within {limit.window / _HOUR:g} h"
        room = "are less than one question may take" if alone else "leave no room for the next question"
        super().__init__(f"{most}{of} for {_OVER[limit.scope]}{window} {room}")
        self.limit = limit
        self.alone = alone


class PassPreempted(Exception):
    """A call is waiting: the pass goes on later (SLEEP-04)."""


PendingQuestions = dict[tuple[BankId, str], "asyncio.Task[Any]"]


class PassModelClient:
    """Asks for one pass. After `stop` is set, callers get `PassPreempted`; answers under way are still stored."""

    batched: Collection[str] = frozenset()
    """Operations whose questions wait for a batch."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        store: Store,
        model: ChatModel,
        run: Pass,
        limits: Sequence[Limit],
        *,
        others: Mapping[str, ChatModel] | None = None,
        stop: asyncio.Event | None = None,
        open_questions: PendingQuestions | None = None,
        traces: Traces | None = None,
        alone: bool = False,
        bank: str = "",
    ) -> None:
        """`bank` is the bank's name, for the ledger. `others` are models of single operations.

        `open_questions` holds unanswered questions of all passes; `alone` means that no other process asks any.
        """
        self._alone = alone
        self._bank = bank
        self._open_questions: PendingQuestions = {} if open_questions is None else open_questions
        self._clock = clock
        self._ids = ids
        self._store = store
        self._model = model
        self._run = run
        self._limits = limits
        self._others = others or {}
        self._stop = stop or asyncio.Event()
        self._draw = random.Random(run.id)
        self._traces = traces or Traces()

    async def ask(
        self, operation: str, prompt: Prompt, output: type[T], *, most_tokens: int, model: ChatModel | None = None
    ) -> T:
        """Return the model's answer, or the one that was already paid for; `model` overrides the operation's model.

        Raises ModelAnswerError, OverBudget (it was not asked), StorageUnavailable (ask again).
        """
        model = model or self.model_of(operation)
        key = question_key(model, operation, prompt, output, most_tokens)
        place = (self._run.bank_id, key)
        if place not in self._open_questions:  # else this pass asked before it was preempted
            previous, died = await self._find_previous_answer(place)
            if previous is not None and previous.answer is not None:
                try:
                    return output.model_validate_json(previous.answer)
                except ValidationError:
                    pass  # the schema has changed: ask again
            if died >= DEATHS:
                raise ModelAnswerError(await self._record_quarantine(operation, key))
            if self._stop.is_set():
                raise PassPreempted
        if place not in self._open_questions:
            task = asyncio.create_task(self._ask_with_retries(model, operation, prompt, output, key, most_tokens))
            self._open_questions[place] = task
            task.add_done_callback(lambda landed: self._forget_finished(place, landed))
        running_call = cast("asyncio.Task[T]", self._open_questions[place])
        stopped = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((running_call, stopped), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            running_call.cancel()
            raise
        finally:
            stopped.cancel()
        if not running_call.done():
            raise PassPreempted
        return running_call.result()

    async def submit(self) -> None:
        """Submit what waits for a batch: nothing, since all is asked at once."""

    async def mark_used(self, tx: Tx) -> None:
        """Record which answers of batches are published: none."""

    def model_of(self, operation: str) -> ChatModel:
        return self._others.get(operation, self._model)

    async def reserve_batched(
        self, model: ChatModel, operation: str, prompt: Prompt, output: type[BaseModel], key: str, most_tokens: int,
        batch: str,
    ) -> SleepCall:  # fmt: skip
        """Reserve a question of a batch. Raises OverBudget, or PassPreempted: a call is waiting."""
        if self._stop.is_set():
            raise PassPreempted
        read = _count_read(prompt, output)
        return (await self._reserve(model, operation, read, key, most_tokens, batch=batch))[1]

    async def settle_batched(
        self, model: ChatModel | None, call: SleepCall, used: Usage | None, status: CallStatus
    ) -> None:
        """Write the outcome of a question of a batch; no time counts, since nothing waited for it."""
        async with self._store.begin_read() as tx:
            line = await tx.calls.get(call.id)
        if line is None:
            return
        settled = replace(line, status=status, total_seconds=0.0)
        if used is not None:
            price = 0 if model is None else model.price(used)
            settled = replace(
                settled, input_tokens=used.input_tokens, output_tokens=used.output_tokens,
                cached_tokens=used.cached_tokens, reasoning_tokens=used.reasoning_tokens,
                cost_nanousd=None if price is None else int(price * PRICE_SHARE),
            )  # fmt: skip
        thinking = 0 if model is None else int(_price_thinking(model, used) * PRICE_SHARE)
        await self._write_until_stored(settled, replace(call, thinking_nanousd=thinking))

    async def _find_previous_answer(self, place: tuple[BankId, str]) -> tuple[SleepCall | None, int]:
        """Return the question's answer, and how many processes died asking; wait for others. Raises PassPreempted."""
        while True:
            now = self._clock.now()
            async with self._store.begin_read() as tx:
                answered_call = await tx.sleep_calls.get_answered(*place)
                cut = () if answered_call is not None else await tx.sleep_calls.find_unanswered(*place)
            dead = [call for call in cut if call.lease_until is None or call.lease_until <= now]
            if self._alone or len(dead) == len(cut):
                return answered_call, len(dead)
            if self._stop.is_set():
                raise PassPreempted
            await self._clock.sleep(ELSEWHERE_SECONDS)

    async def _record_quarantine(self, operation: str, key: str) -> str:
        """Record and return why a question is not asked again; this is no call and costs nothing."""
        cause = f"{DEATHS} processes ended while they asked this question, so it is set apart"
        call = SleepCall(
            id=CallId(self._ids.new("call")), pass_id=self._run.id, bank_id=self._run.bank_id, operation=operation,
            key=key, error=cause, at=self._clock.now(),
        )  # fmt: skip
        async with self._store.begin_write() as tx:
            await tx.sleep_calls.add(call)
        return cause

    def _forget_finished(self, place: tuple[BankId, str], asked: asyncio.Task[T]) -> None:
        del self._open_questions[place]
        if not asked.cancelled():
            asked.exception()  # retrieved: the caller may be gone, and the ledger holds the error

    async def _ask_with_retries(
        self, model: ChatModel, operation: str, prompt: Prompt, output: type[T], key: str, most_tokens: int
    ) -> T:
        """Ask again while the provider is at fault, and once with twice the room if the answer was cut (SLEEP-81)."""
        room, tried, cut = most_tokens + model.thinking_tokens, 1, False
        while True:
            try:
                return await self._ask_once(model, operation, prompt, output, key, room)
            except ModelAnswerError as error:
                if error.cut is not None and not cut and not self._stop.is_set():
                    thinking = THINKING_TOKENS["low"] if error.cut == "thinking" else 0  # though it is off
                    room, cut = 2 * (most_tokens + max(model.thinking_tokens, thinking)), True
                    continue
                pause = error.retry_after_seconds or PAUSE_SECONDS * 2 ** (tried - 1)
                if not error.passing or tried == TRIES or pause > LONGEST_PAUSE_SECONDS or self._stop.is_set():
                    raise
                await self._clock.sleep(pause * self._draw.uniform(1.0, 1.25))
                if self._stop.is_set():  # another process may go on with the pass and ask it
                    raise
                tried += 1

    async def _ask_once(
        self, model: ChatModel, operation: str, prompt: Prompt, output: type[T], key: str, most_tokens: int
    ) -> T:
        line, call = await self._reserve(model, operation, _count_read(prompt, output), key, most_tokens)
        began = self._clock.monotonic()
        span = self._traces.start_sleep_call_span(line, operation)
        beating = asyncio.create_task(self._renew_lease(call.id))
        try:
            answer, used = await model.ask(prompt, output, most_tokens=most_tokens)
        except ModelAnswerError as error:
            settled = self._settle_line(model, line, error.used, began, CallStatus.FAILED, span)
            await self._write_until_stored(
                settled, replace(call, error=error.cause, thinking_nanousd=_price_thinking(model, error.used))
            )
            raise
        except BaseException:
            settled = self._settle_line(model, line, None, began, CallStatus.FAILED, span)
            await self._write(settled, replace(call, error="dropped"))
            raise
        finally:
            beating.cancel()
        settled = self._settle_line(model, line, used, began, CallStatus.DONE, span)
        answered = replace(call, answer=answer.model_dump_json(), thinking_nanousd=_price_thinking(model, used))
        await self._write_until_stored(settled, answered)
        return answer

    async def _renew_lease(self, call_id: CallId) -> None:
        while not self._alone:
            await self._clock.sleep(BEAT_SECONDS)
            with suppress(StorageUnavailable):
                async with self._store.begin_write() as tx:
                    await tx.sleep_calls.renew_lease(call_id, self._clock.now() + timedelta(seconds=LEASE_SECONDS))

    async def _reserve(
        self, model: ChatModel, operation: str, read: int, key: str, most_tokens: int, *, batch: str | None = None
    ) -> tuple[Call, SleepCall]:
        """Write the ledger line with the highest possible cost, unless a limit forbids it."""
        now = self._clock.now()
        call_id = CallId(self._ids.new("call"))
        worst = model.worst_price(read, most_tokens) or 0
        line = Call(
            id=call_id, at=now, agent_id=AgentId(""), session="", agent=self._bank, tier="sleep",
            upstream=model.upstream, endpoint=ENDPOINT, model=model.name, status=CallStatus.RESERVED,
            reserved_tokens=read + most_tokens,
            reserved_nanousd=worst if batch is None else math.ceil(worst * PRICE_SHARE),
        )  # fmt: skip
        call = SleepCall(
            id=call_id, pass_id=self._run.id, bank_id=self._run.bank_id, operation=operation, key=key, at=now,
            lease_until=None if batch else now + timedelta(seconds=LEASE_SECONDS),
            own_budget=self._run.budget_tokens is not None, batch=batch,
        )  # fmt: skip
        needs = {
            Unit.CALLS: 1, Unit.TOKENS: line.reserved_tokens, Unit.NANOUSD: line.reserved_nanousd, Unit.SECONDS: 0.0,
        }  # fmt: skip
        async with self._store.begin_write() as tx:
            for limit in self._limits:
                if limit.operation not in (None, operation):
                    continue
                spent: float = getattr(await self._fetch_spending(tx, limit, operation, now), limit.unit)
                needed = needs[limit.unit]
                if spent + needed > limit.most or (limit.unit is Unit.SECONDS and spent >= limit.most):
                    raise OverBudget(limit, alone=needed > limit.most)
            await tx.calls.add([line])
            await tx.sleep_calls.add(call)
        return line, call

    async def _fetch_spending(self, tx: Tx, limit: Limit, operation: str, now: datetime) -> SleepCost:
        return await tx.sleep_calls.sum_cost(
            since=None if limit.window is None else now - limit.window,
            bank_id=self._run.bank_id if limit.scope is Scope.BANK else None,
            pass_id=self._run.id if limit.scope is Scope.PASS else None,
            operation=limit.operation or (operation if limit.scope is Scope.OPERATION else None),
            shared=limit.scope in (Scope.BANK, Scope.FLEET),
        )

    def _settle_line(
        self, model: ChatModel, line: Call, used: Usage | None, began: float, status: CallStatus, span: Span
    ) -> Call:
        """Return the ledger line with its cost. An unknown charge counts as what was reserved."""
        settled = replace(line, status=status, total_seconds=self._clock.monotonic() - began)
        if used is not None:
            settled = replace(
                settled, input_tokens=used.input_tokens, output_tokens=used.output_tokens,
                cached_tokens=used.cached_tokens, reasoning_tokens=used.reasoning_tokens,
                cost_nanousd=model.price(used),
            )  # fmt: skip
        end_call_span(span, settled)
        return settled

    async def _write_until_stored(self, settled: Call, call: SleepCall) -> None:
        """Write the outcome, and retry until it is stored: it is paid for, and known only here."""
        while True:
            try:
                await self._write(settled, call)
            except StorageUnavailable as error:
                _logger.warning("an answer for pass %s could not be stored yet: %s", self._run.id, error)
            else:
                return
            await self._clock.sleep(REWRITE_SECONDS)

    async def _write(self, settled: Call, call: SleepCall) -> None:
        async with self._store.begin_write() as tx:
            await tx.sleep_calls.save_outcome(call)  # first: it takes a key, for which the sums of usage must not wait
            await tx.calls.add([settled])


def estimate_usage(model: ChatModel, tokens: int) -> Usage:
    """Return about what passes take for texts of this size."""
    read = int(tokens * READINGS)
    thinking = -(-read // QUESTION_TOKENS) * model.thinking_tokens
    return Usage(input_tokens=read, output_tokens=int(read * WRITTEN_SHARE) + thinking)


def _price_thinking(model: ChatModel, used: Usage | None) -> int:
    """Return what the answer would have cost less without its thinking; 0 if that is unknown."""
    if used is None or not used.reasoning_tokens or used.output_tokens is None:
        return 0
    rest = replace(used, output_tokens=used.output_tokens - used.reasoning_tokens, reasoning_tokens=0)
    prices = model.price(used), model.price(rest)
    return 0 if prices[0] is None or prices[1] is None else prices[0] - prices[1]


def _count_read(prompt: Prompt, output: type[BaseModel]) -> int:
    """Return the most tokens that the question has."""
    return -(-(prompt.bytes + len(answer_schema_json(output)) + WRAPPING_BYTES) // BYTES_A_TOKEN)


def question_key(model: ChatModel, operation: str, prompt: Prompt, output: type[BaseModel], most_tokens: int) -> str:
    """Return the hash of all that the answer of a question depends on."""
    digest = hashlib.sha256(answer_schema_json(output))
    for part in (model.upstream, model.name, operation, prompt.rules, prompt.data, str(most_tokens)):
        digest.update(b"\0" + part.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
