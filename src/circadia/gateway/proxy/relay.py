"""Sends an admitted model call to its upstream, passes the answer back, and records the usage."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final

from opentelemetry.trace import INVALID_SPAN, Span

from circadia.agents.presence import Presence, PresenceCell
from circadia.clock import Clock
from circadia.errors import StillAsleep, UpstreamFailed, UpstreamTimedOut
from circadia.gateway.accounting.budget import CallBudgetGuard, has_budget
from circadia.gateway.accounting.id_owners import Owners
from circadia.gateway.accounting.journal import Journal
from circadia.gateway.calls import headers as crossing
from circadia.gateway.calls.model_call import ModelCall
from circadia.gateway.calls.upstream import is_json, is_stream
from circadia.gateway.dialects.base import Meter
from circadia.gateway.dialects.errors import is_too_long
from circadia.gateway.dialects.plain import Plain
from circadia.gateway.hold.bodies import run_off_loop
from circadia.gateway.hold.gate import Admission
from circadia.gateway.hold.reply import OPENED_STREAM, Headers, Phase, Reply
from circadia.gateway.memory.conversations import NOTHING, CallFollowUp, ConversationCall, SleepTier, Turns
from circadia.gateway.payload.server_sent_events import WholeEvents
from circadia.gateway.proxy import opened_reply
from circadia.gateway.proxy.ledger import CallOutcome, build_reserved_row, build_settled_row, context_share, is_answered
from circadia.gateway.proxy.reply_format import ModelReplyFormat
from circadia.gateway.proxy.wake_notice import wake_notice
from circadia.gateway.wire.base import ConnectFailed, ConnectionBroken, ConnectionStalled, ConnectTimedOut
from circadia.gateway.wire.connection import ProviderResponse
from circadia.ids import AgentId, CallId, IdSource
from circadia.records.agent import Agent, OnWake
from circadia.records.event import EventType
from circadia.stores.base import Store
from circadia.telemetry.traces import Traces, end_call_span

_logger = logging.getLogger(__name__)

Clear = Callable[[], Awaitable[None]]
Watch = Callable[[bool], Meter]

_COUNTS_KEPT: Final = 10_000
"""Agents for which the number of unread messages at their last wake is kept."""
_UNSENT_METER: Final[Meter] = Plain().meter(streamed=False, take_usage_out=False, chain=())
"""Meter of a call that was not sent."""
_SLEPT_SINCE: Final = "the agent slept after this call was written; build it again and send it"


class Relay:
    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        store: Store,
        presence: Presence,
        journal: Journal,
        owners: Owners,
        budget: CallBudgetGuard,
        turns: Turns,
        tier: SleepTier,
        traces: Traces | None = None,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._store = store
        self._presence = presence
        self._journal = journal
        self._owners = owners
        self._budget = budget
        self._turns = turns
        self._tier = tier
        self._traces = traces or Traces()
        self._counts: dict[AgentId, tuple[int, asyncio.Future[int]]] = {}

    async def pass_through(self, call: ModelCall, body: bytes, reply: Reply) -> None:
        """Pass on a call that generates nothing: no hold, no usage.

        Token counts cover what would be sent. An answer made in the background is reported when it is fetched.
        """
        if call.dialect.counts_tokens:
            turn = await self._turns.begin(call.agent, call.request, call.headers)
            body = (await self._tier.prepare_call(call, turn, body)).body
        meter = _UNSENT_METER

        def watch(streamed: bool) -> Meter:
            nonlocal meter
            meter = call.dialect.meter(streamed=streamed, take_usage_out=False, chain=())
            return meter

        status = await self._pass_on(call, body, reply, watch, None)
        if call.method == "DELETE" and status < 300:
            self._report_deletion(call)
        answer = meter.answer_so_far()
        if answer is not None and answer.handle is not None:
            self._tier.on_background_answer(call, answer.handle, answer)

    def _report_deletion(self, call: ModelCall) -> None:
        """Report a conversation that cannot continue because it, or its last response, was deleted at the provider."""
        place, _, name = call.target.partition("?")[0].rpartition("/")
        if name not in call.route.owned_ids:
            return
        if place.endswith("/conversations"):
            conversation = self._turns.find_conversation(call.agent, name)
            self._tier.on_conversation_ended(call, None if conversation is None else conversation.end_user)
        elif (
            place.endswith("/responses") and (conversation := self._turns.find_by_handle(call.agent, name)) is not None
        ):
            self._tier.on_conversation_ended(call, conversation.end_user)

    async def generate(
        self, call: ModelCall, body: bytes, passage: Admission, reply: Reply, clear_to_send: Clear
    ) -> None:
        """Send the call with the declared changes and pass the answer on; record its usage whatever happens.

        `clear_to_send` is awaited directly before each send; its errors reach the caller, and nothing is sent.
        """
        policy = call.agent.policy
        if passage.was_held and policy.on_wake is OnWake.REFRESH and reply.phase is Phase.SILENT:
            await clear_to_send()
            raise StillAsleep(_SLEPT_SINCE, retry_after_seconds=1)
        turn = await self._turns.begin(call.agent, call.request, call.headers)
        meter, noted, adds_usage = _UNSENT_METER, NOTHING, False
        outcome = CallOutcome(CallId(self._ids.new("call")), self._clock.now(), self._clock.monotonic())
        outcome.span = self._start_span(call)

        async def clear() -> None:
            await clear_to_send()
            outcome.sent = True

        def watch(streamed: bool) -> Meter:
            nonlocal meter
            meter = _build_meter(call, noted, streamed=streamed, take_usage_out=adds_usage)
            return meter

        try:
            prepared = await self._tier.prepare_call(call, turn, body, held=passage.was_held)
            plain, body = body, prepared.body
            call = _with_size_of(call, plain, body)
            noted, ready = prepared.noted, prepared.answer
            del prepared
            if ready is not None:
                await clear()
                meter = watch(call.request.streamed)
                await self._send_ready_answer(call, ready, reply, meter, outcome, _answer_headers(noted))
                return
            if has_budget(policy):
                row = build_reserved_row(call, turn, passage, outcome)
                outcome.at = (await self._budget.reserve(call.agent, row)).at
            stale = passage.was_held and policy.on_wake is not OnWake.FORWARD
            line = wake_notice(passage, await self._unread_count(call.agent, passage)) if stale else ""
            sent, adds_usage = await run_off_loop(body, partial(_outgoing_body, call, body, line))
            shorter = None if body is plain else lambda: run_off_loop(plain, partial(_outgoing_body, call, plain, line))
            await self._pass_on(call, sent, reply, watch, outcome, _answer_headers(noted), shorter, clear)
        except UpstreamFailed as error:
            outcome.free = isinstance(error.__cause__, ConnectFailed | ConnectTimedOut)
            raise
        finally:
            # After the answer: data written to the caller goes out at the end of this step of the event loop.
            asyncio.get_running_loop().call_soon(self._write_down, call, turn, passage, meter, outcome, noted)

    def _start_span(self, call: ModelCall) -> Span:
        if not self._traces.on:
            return INVALID_SPAN
        target = (call.dialect.endpoint, call.provider.upstream.name, call.request.model)
        return self._traces.start_gateway_span(*target, call.headers)

    async def _send_ready_answer(
        self, call: ModelCall, ready: bytes, reply: Reply, meter: Meter, outcome: CallOutcome, told: Headers
    ) -> None:
        """Send a ready answer; everything else happens as if it came from the upstream."""
        meter.feed(ready)
        meter.end()
        await self._owners.record(call.agent, call.provider.upstream.name, meter.ids)
        outcome.ready, outcome.status = True, 200
        if not call.request.streamed:
            await reply.send_whole(200, [(b"content-type", b"application/json"), *told], ready)
            return
        await reply.start(200, [*OPENED_STREAM, *told])
        await reply.finish(ready)

    async def _pass_on(
        self, call: ModelCall, body: bytes, reply: Reply, watch: Watch, outcome: CallOutcome | None, told: Headers = (),
        shorter: Callable[[], Awaitable[tuple[bytes, bool]]] | None = None, clear: Clear | None = None,
    ) -> int:  # fmt: skip
        """Send the body and pass the answer on; send `shorter` instead if the call is too long for its model."""
        headers = crossing.to_upstream(call.headers)
        again = call.route.dialect != "plain" or call.method == "GET"
        answer: ProviderResponse | None = None
        try:
            send = partial(call.provider.upstream.send, call.method, call.target, headers, again=again, clear=clear)
            answer, whole = await send(body)
            if outcome is not None and shorter is not None and whole is not None and is_too_long(answer.status, whole):
                outcome.too_long, told = True, ()
                _logger.warning(
                    "a call of %r is too long for its model with memory, and goes without", call.agent.reference
                )
                answer.close()
                answer, whole = await send((await shorter())[0])
            if outcome is not None:
                outcome.status = answer.status
                outcome.first = self._clock.monotonic()
            if answer.status >= 400:
                if outcome is not None and whole is not None:
                    outcome.too_long = outcome.too_long or is_too_long(answer.status, whole)
                self._record_error_event(call, answer.status, "answered with an error")
            if reply.phase is Phase.OPENED:
                whole = await opened_reply.gather_answer(call, answer, whole)
            meter = watch(_is_read_as_stream(call, answer))
            if whole is None:
                await self._pass_stream(call, answer, reply, meter, told)
            else:
                await self._pass_whole(call, answer, whole, reply, meter, told)
            return answer.status
        except UpstreamFailed as error:
            self._record_error_event(call, None, error.message)
            raise
        finally:
            if answer is not None:  # the caller is gone or the rest is not wanted: end the upstream's work too
                answer.close()

    async def _pass_whole(
        self, call: ModelCall, answer: ProviderResponse, whole: bytes, reply: Reply, meter: Meter, told: Headers
    ) -> None:
        if answer.status < 300:
            meter.feed(whole)
            meter.end()
            await self._owners.record(call.agent, call.provider.upstream.name, meter.ids)
        whole = call.provider.upstream.without_key(whole)
        if reply.phase is Phase.OPENED:
            await reply.send_whole(200, (), opened_reply.fit_to_request(call, answer, whole))
        else:
            await reply.send_whole(answer.status, [*call.provider.upstream.headers_back(answer), *told], whole)

    async def _pass_stream(
        self, call: ModelCall, answer: ProviderResponse, reply: Reply, meter: Meter, told: Headers
    ) -> None:
        owned = 0
        last = b""
        events = WholeEvents() if is_stream(answer) else None
        if events is None:  # an error cannot be sent in band
            reply.voice = ModelReplyFormat(call.dialect, streamed=False)
        cell = self._presence.synced_cell(call.agent.id) if call.agent.policy.abort_streams else None
        cut = None if cell is None else _cut_on_sleep(cell, answer)
        try:
            await reply.start(answer.status, [*call.provider.upstream.headers_back(answer), *told])
            async for chunk in answer:
                passed = meter.feed(chunk)
                if events is not None:
                    passed = events.feed(passed)
                passed = call.provider.upstream.without_key(passed)
                if len(meter.ids) > owned:
                    await self._owners.record(call.agent, call.provider.upstream.name, meter.ids[owned:])
                    owned = len(meter.ids)
                if answer.at_end:
                    last += passed  # goes out with the end; more may have arrived while an id was recorded
                else:
                    await reply.write(passed)
        except ConnectionStalled as error:
            raise UpstreamTimedOut(f"upstream {call.provider.upstream.name!r} stopped in its stream") from error
        except ConnectionBroken as error:
            if cut is not None and cut.done():
                raise StillAsleep("the agent was put to sleep and its stream cut") from error
            raise UpstreamFailed(f"upstream {call.provider.upstream.name!r} broke off in its stream") from error
        finally:
            if cell is not None and cut is not None:
                cell.streams.discard(cut)
        await reply.finish(last + (b"" if events is None else events.end()) + meter.end())

    def _record_error_event(self, call: ModelCall, status: int | None, message: str) -> None:
        self._journal.event(
            EventType.UPSTREAM_ERROR,
            call.agent.session,
            call.agent.name,
            upstream=call.provider.upstream.name,
            endpoint=call.dialect.endpoint,
            status=status,
            message=message,
        )

    async def _unread_count(self, agent: Agent, passage: Admission) -> int:
        """Count the agent's unread messages, once for all calls that one wake admits."""
        known = self._counts.get(agent.id)
        if known is None or known[0] != passage.generation:
            if len(self._counts) >= _COUNTS_KEPT:
                self._counts.clear()
            known = self._counts[agent.id] = (
                passage.generation,
                asyncio.ensure_future(self._query_unread_count(agent)),
            )
        return await asyncio.shield(known[1])

    async def _query_unread_count(self, agent: Agent) -> int:
        async with self._store.begin_read() as tx:
            return await tx.deliveries.count_unread(agent.id)

    def _write_down(
        self,
        call: ModelCall,
        turn: ConversationCall,
        passage: Admission,
        meter: Meter,
        outcome: CallOutcome,
        noted: CallFollowUp,
    ) -> None:
        if not outcome.sent:
            if has_budget(call.agent.policy):  # its caller left during the budget check: free the reservation
                self._budget.release(outcome.id)
            if self._traces.on:
                end_call_span(outcome.span, None)
            self._tier.on_call_unsent(call, turn)
            return
        seconds = self._clock.monotonic() - outcome.began
        line = build_settled_row(call, turn, passage, outcome, meter, seconds)
        if self._traces.on:
            end_call_span(outcome.span, line)
        self._journal.put(line)
        whole = is_answered(meter, outcome)
        if outcome.too_long:
            noted = replace(noted, used=None, lookup=None)  # the answered body contained no memory
        self._turns.end(turn, call.request, answer=meter.answer_hashes, handle=meter.handle, answered=whole)
        share = context_share(call, meter, outcome) if call.agent.policy.bank is not None else 0.0
        self._tier.on_call_ended(
            call,
            turn,
            answered=whole,
            noted=noted,
            said=meter.answer_so_far(),
            hashes=meter.answer_hashes,
            filled=share,
        )


def _asks_for_stream(call: ModelCall) -> bool:
    query = call.target.partition("?")[2]
    return call.route.dialect == "stored_response" and "stream=true" in query.lower().split("&")


def _is_read_as_stream(call: ModelCall, answer: ProviderResponse) -> bool:
    """Return whether an answer is parsed as events, also if it has no type but a stream was requested."""
    return is_stream(answer) or (not is_json(answer) and (call.request.streamed or _asks_for_stream(call)))


def _build_meter(call: ModelCall, noted: CallFollowUp, *, streamed: bool, take_usage_out: bool = False) -> Meter:
    return call.dialect.meter(
        streamed=streamed, take_usage_out=take_usage_out, chain=call.request.chain, words=noted.told is not None
    )


def _outgoing_body(call: ModelCall, body: bytes, line: str) -> tuple[bytes, bool]:
    """Return the outgoing body with the notice, and whether it requests usage that its caller did not request."""
    body = call.dialect.with_line(body, line) if line else body
    with_usage = call.dialect.with_usage(body) if call.agent.policy.include_usage and call.request.streamed else None
    return (body, False) if with_usage is None else (with_usage, True)


def _answer_headers(noted: CallFollowUp) -> Headers:
    return () if noted.lookup is None else noted.lookup.headers


def _with_size_of(call: ModelCall, before: bytes, after: bytes) -> ModelCall:
    """Return the call with an input estimate that includes the added memory."""
    added = len(after) - len(before)
    if not added:
        return call
    return replace(call, request=replace(call.request, input_estimate=call.request.input_estimate + -(-added // 3)))


def _cut_on_sleep(cell: PresenceCell, answer: ProviderResponse) -> asyncio.Future[None]:
    """Close the stream when its agent falls asleep (GATE-45); the returned future is then done."""
    cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cut.add_done_callback(lambda _: answer.close())
    cell.streams.add(cut)
    if cell.asleep:  # it fell asleep before the first byte
        cut.set_result(None)
    return cut
