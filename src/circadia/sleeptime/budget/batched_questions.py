"""Asks questions in a provider's batch, at half the price: their pass goes on when the batch is over (SLEEP-44).

A question that has no answer yet is reserved in the ledger, as every call is, and collected. The pass then submits what
it has collected, and waits without a process. When it goes on, it reads the same input again and asks the same; a
question whose input has changed has another key, so that the old answer reaches nobody and counts as waste.

The reservation names the batch by our key before anything is sent, and by the provider's id afterwards. A batch without
that id may have been sent by a process that was killed: the provider is asked for it before it is submitted again.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

from pydantic import BaseModel

from circadia.clock import Clock
from circadia.ids import CallId, IdSource
from circadia.llm.batches import BatchInterface, BatchProgress, BatchRefused, BatchRequest, BatchUncertain
from circadia.llm.chat_model import ChatModel, ModelAnswerError, Prompt
from circadia.llm.usage import Usage
from circadia.records.call import CallStatus
from circadia.records.sleep_call import WASTED, SleepCall
from circadia.records.sleep_pass import Pass
from circadia.sleeptime.budget.model_calls import PassModelClient, question_key
from circadia.sleeptime.triggers.pass_lifecycle import BATCH_TOPIC
from circadia.stores.base import Store, Tx
from circadia.stores.signals.base import Signals

T = TypeVar("T", bound=BaseModel)

_logger = logging.getLogger(__name__)

SHORTEST_WAIT_SECONDS: Final = 60.0
LONGEST_WAIT_SECONDS: Final = 900.0
"""Between two looks at a batch; until then, a quarter of its age."""
GIVEN_UP_AFTER: Final = timedelta(days=2)
"""Providers end a batch within a day; a bank cannot wait for ever for one that has no end."""
_NOTHING_USED: Final = Usage(input_tokens=0, output_tokens=0)
_UNKNOWN: Final = BatchProgress(is_over=False, answers={})


class BatchPending(Exception):
    """The answer comes with a batch: the pass goes on later."""

    def __init__(self, seconds: float) -> None:
        super().__init__("it waits for a batch of the provider")
        self.seconds = seconds


class BatchClient(BatchInterface, Protocol):
    """A model's questions in batches of its provider."""

    async def build_request(
        self, request_id: str, prompt: Prompt, output: type[BaseModel], *, most_tokens: int
    ) -> BatchRequest:
        """Return the request that the model would send. Raises ModelAnswerError: it would send none."""
        ...

    async def read_answer(
        self, response: bytes, prompt: Prompt, output: type[T], *, most_tokens: int
    ) -> tuple[T, Usage]:
        """Return the answer in a response of the provider, and its usage. Raises ModelAnswerError."""
        ...


OpenBatches = Callable[[ChatModel], Awaitable[BatchClient | None]]
"""Returns a model's batches, or None if it has none."""


@dataclass(kw_only=True, slots=True)
class _Group:
    """Questions of this run that go into one batch."""

    client: BatchClient
    since: datetime
    calls: list[SleepCall] = field(default_factory=list[SleepCall])
    requests: list[BatchRequest] = field(default_factory=list[BatchRequest])
    may_be_submitted: bool = False
    """Whether an earlier run has reserved it, and perhaps submitted it."""


class BatchedQuestions:
    """Asks for one pass; operations that are not `batched` are asked at once."""

    def __init__(
        self, clock: Clock, ids: IdSource, store: Store, signals: Signals, inner: PassModelClient, run: Pass,
        batched: Collection[str], open_batches: OpenBatches,
    ) -> None:  # fmt: skip
        """`batched` are names of operations."""
        self.batched = frozenset(batched)
        self._used: set[CallId] = set()
        """Batched calls whose answers the page has read."""
        self._clock = clock
        self._store = store
        self._signals = signals
        self._inner = inner
        self._run = run
        self._open_batches = open_batches
        self._key = ids.new("bat")
        self._groups: dict[tuple[str, str, str], _Group] = {}
        self._fetched: dict[str, BatchProgress] = {}

    async def ask(
        self, operation: str, prompt: Prompt, output: type[T], *, most_tokens: int, model: ChatModel | None = None
    ) -> T:
        """Return the answer. Raises BatchPending, and what `PassModelClient.ask` raises."""
        chosen = model or self._inner.model_of(operation)
        client = await self._open_batches(chosen) if operation in self.batched else None
        if client is not None:
            answer = await self._ask_in_batch(client, chosen, operation, prompt, output, most_tokens)
            if answer is not None:
                return answer
        return await self._inner.ask(operation, prompt, output, most_tokens=most_tokens, model=model)

    async def submit(self) -> None:
        """Submit what was collected, each batch once."""
        groups, self._groups = self._groups, {}
        for (_, _, key), group in groups.items():
            await self._submit_group(key, group)

    async def mark_used(self, tx: Tx) -> None:
        """Record that what was read is published in this transaction."""
        used = tuple(self._used)
        await tx.sleep_calls.mark_used(used)
        tx.after_commit(lambda: self._used.difference_update(used))

    async def _ask_in_batch(
        self, client: BatchClient, model: ChatModel, operation: str, prompt: Prompt, output: type[T], most_tokens: int
    ) -> T | None:
        """Return the answer of a batch, or None: ask through the usual interface. Raises BatchPending."""
        key = question_key(model, operation, prompt, output, most_tokens)
        async with self._store.begin_read() as tx:
            calls = await tx.sleep_calls.find_batched(self._run.bank_id, key)
        if any(call.answer is not None for call in calls):
            self._used |= {call.id for call in calls if call.answer is not None}
            return None  # it is paid for, and the ledger has it
        if any(call.error not in ("", WASTED) for call in calls):
            return None  # the batch has failed
        room = most_tokens + model.thinking_tokens
        open_call = next((call for call in calls if not call.error), None)
        if open_call is None:
            request = await client.build_request("", prompt, output, most_tokens=room)  # before it is reserved
            open_call = await self._inner.reserve_batched(model, operation, prompt, output, key, room, self._key)
            self._collect(client, model, open_call, replace(request, id=open_call.id), reserved_before=False)
        elif open_call.batch_id is None:
            request = await client.build_request(open_call.id, prompt, output, most_tokens=room)
            self._collect(client, model, open_call, request, reserved_before=True)
        else:
            return await self._read_result(client, model, open_call, prompt, output, room)
        raise BatchPending(SHORTEST_WAIT_SECONDS)

    def _collect(
        self, client: BatchClient, model: ChatModel, call: SleepCall, request: BatchRequest, *, reserved_before: bool
    ) -> None:
        place = (model.upstream, model.name, call.batch or "")
        group = self._groups.setdefault(place, _Group(client=client, since=call.at))
        if all(known.id != call.id for known in group.calls):
            group.calls.append(call)
            group.requests.append(request)
        group.since = min(group.since, call.at)
        group.may_be_submitted = group.may_be_submitted or reserved_before

    async def _submit_group(self, key: str, group: _Group) -> None:
        ids = [call.id for call in group.calls]
        try:
            batch_id = None
            if group.may_be_submitted:
                async with self._store.begin_read() as tx:
                    known = await tx.sleep_calls.find_batch_ids(since=group.since)
                    reserved = await tx.sleep_calls.find_by_pass(group.calls[0].pass_id)
                members = [call.id for call in reserved if call.batch == key]
                batch_id = await group.client.find(key, members, group.since, known)
            batch_id = batch_id or await group.client.submit(key, group.requests)
        except BatchRefused as error:
            await self._give_up(group, f"the batch was refused: {error}", _NOTHING_USED)
            return
        except BatchUncertain as error:
            if self._is_too_old(group.since):
                await self._give_up(group, f"the batch was not found again: {error}", None)
            else:
                _logger.warning("a batch of pass %s is looked for later: %s", self._run.id, error)
            return
        async with self._store.begin_write() as tx:
            await tx.sleep_calls.save_batch_id(group.calls[0].pass_id, key, batch_id)
        self._count("submitted", len(ids))
        _logger.info("pass %s waits for batch %s of %d questions", self._run.id, batch_id, len(ids))

    async def _read_result(
        self, client: BatchClient, model: ChatModel, call: SleepCall, prompt: Prompt, output: type[T], room: int
    ) -> T | None:
        age = (self._clock.now() - call.at).total_seconds()
        waiting = BatchPending(min(max(age / 4, SHORTEST_WAIT_SECONDS), LONGEST_WAIT_SECONDS))
        batch_id = call.batch_id or ""
        try:
            progress = self._fetched.get(batch_id) or await client.fetch(batch_id)
        except BatchUncertain:
            progress = _UNKNOWN
        except BatchRefused as error:
            await self._fail(call, str(error), _NOTHING_USED)
            return None
        if progress is not _UNKNOWN:
            self._fetched[batch_id] = progress
        if not progress.is_over:
            if not self._is_too_old(call.at):
                raise waiting
            await self._fail(call, "the batch came to no end", None)
            return None
        found = progress.answers.get(call.id)
        if found is None or found.body is None:
            await self._fail(call, "the batch has no answer" if found is None else found.error, _NOTHING_USED)
            return None
        try:
            answer, used = await client.read_answer(found.body, prompt, output, most_tokens=room)
        except ModelAnswerError as error:
            await self._fail(call, error.cause, error.used, model)
            return None
        await self._settle(model, replace(call, answer=answer.model_dump_json()), "", used)
        self._used.add(call.id)
        self._count("answered", 1)
        return answer

    async def _give_up(self, group: _Group, cause: str, used: Usage | None) -> None:
        _logger.warning("pass %s asks at once what should be in a batch: %s", self._run.id, cause)
        for call in group.calls:
            await self._settle(None, call, cause, used)
        self._count("refused", len(group.calls))

    def _is_too_old(self, since: datetime) -> bool:
        return self._clock.now() - since > GIVEN_UP_AFTER

    async def _fail(self, call: SleepCall, cause: str, used: Usage | None, model: ChatModel | None = None) -> None:
        await self._settle(model, call, cause, used)
        self._count("failed", 1)

    async def _settle(self, model: ChatModel | None, call: SleepCall, error: str, used: Usage | None) -> None:
        status = CallStatus.FAILED if error else CallStatus.DONE
        await self._inner.settle_batched(model, replace(call, error=error), used, status)

    def _count(self, outcome: str, number: int) -> None:
        self._signals.publish(BATCH_TOPIC, self._run.bank_id, {"outcome": outcome, "count": number})


class OperationAsk:
    """Asks for one operation; without `asking` there is no model."""

    def __init__(self, asking: PassModelClient | BatchedQuestions | None, operation: str) -> None:
        self._asking = asking
        self._operation = operation

    async def __call__(self, prompt: Prompt, output: type[T], *, most_tokens: int, model: ChatModel | None = None) -> T:
        if self._asking is None:
            raise ModelAnswerError("there is no model")
        return await self._asking.ask(self._operation, prompt, output, most_tokens=most_tokens, model=model)
