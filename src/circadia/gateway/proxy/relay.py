"""Takes a checked model call from the gate to its provider and back: hold, prepare, send, pass on, record."""

import asyncio
import logging
import sys
from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import Final

from circadia.agents.access import require_upstream
from circadia.agents.identity import Identity
from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import CircadiaError, Forbidden, StillAsleep, StorageUnavailable, UpstreamFailed
from circadia.gateway.accounting.budget import require_model
from circadia.gateway.calls.headers import bearer, to_upstream
from circadia.gateway.calls.model_call import ModelCall
from circadia.gateway.dialects.errors import is_too_long
from circadia.gateway.hold.gate import Admission, AsleepAgain, Gate, GateCall
from circadia.gateway.hold.in_flight import CallBody, run_off_loop
from circadia.gateway.hold.reply import Phase, Reply
from circadia.gateway.memory.additions import keep_notice
from circadia.gateway.memory.conversations import ConversationCall, SleepTier, Turns
from circadia.gateway.memory.wake_notice import notice_key, render_wake_notice
from circadia.gateway.payload.stream_options import refuses_usage_option
from circadia.gateway.proxy.answer_writer import AnswerWriter
from circadia.gateway.proxy.ledger import Ledger
from circadia.gateway.proxy.relayed_call import RelayedCall
from circadia.gateway.wire.base import ConnectFailed, ConnectTimedOut
from circadia.gateway.wire.connection import ProviderResponse
from circadia.ids import AgentId, ConversationId
from circadia.records.agent import Agent, OnWake
from circadia.records.conversation import Conversation
from circadia.stores.base import Store
from circadia.stores.time_limit import limit_wait

_logger = logging.getLogger(__name__)

_COUNTS_KEPT: Final = 10_000
"""Agents for which the number of unread messages at their last wake is kept."""
_COUNT_SECONDS: Final = 2.0
"""Maximum wait of woken calls for the number of unread messages; after that they go without."""
_SLEPT_SINCE: Final = "the agent slept after this call was written; build it again and send it"


class Relay:
    def __init__(
        self,
        clock: Clock,
        store: Store,
        identity: Identity,
        gate: Gate,
        turns: Turns,
        tier: SleepTier,
        ledger: Ledger,
        writer: AnswerWriter,
        silent_seconds: float,
    ) -> None:
        """`silent_seconds` is how long the caller of a woken call gets no keep-alive, its hold included."""
        self._clock = clock
        self._store = store
        self._identity = identity
        self._gate = gate
        self._turns = turns
        self._tier = tier
        self._ledger = ledger
        self._writer = writer
        self._silent_seconds = silent_seconds
        self._unread: BoundedDict[AgentId, tuple[int, asyncio.Future[int | None]]] = BoundedDict(_COUNTS_KEPT)

    async def relay(self, call: ModelCall, body: CallBody, reply: Reply, grace_seconds: float) -> None:
        """Hold the call while its agent sleeps, send it, pass the answer on, and record it.

        A call that generates nothing is neither held nor recorded.
        """
        if not call.route.generates:
            await self._pass_through(RelayedCall(call, reply), body)
            return None
        silent_seconds = self._silent_seconds if call.request.streamed else grace_seconds
        operation = sys.intern(f"{call.method} {call.target.split('?', 1)[0]}")
        limit = _hold_limit(call.agent)
        with GateCall(
            self._gate,
            call.agent,
            reply,
            body,
            door="model",
            to=call.provider.upstream.name,
            what=operation,
            grace_seconds=grace_seconds,
            limit=limit,
            retry_key=_retry_key(call),
            in_pulse=call.in_pulse,
        ) as gate_call:
            while True:
                admission = await gate_call.admit()
                if admission.was_held:
                    call = await self._reauthorize(call)
                    self._gate.keep_alive(gate_call, silent_seconds)
                try:
                    return await self._generate(RelayedCall(call, reply, gate_call), body, admission)
                except AsleepAgain:
                    continue

    async def _reauthorize(self, call: ModelCall) -> ModelCall:
        """Return the call with its agent's current rights: a hold lasts hours, and rights are revoked meanwhile."""
        agent = (await self._identity.authenticate(bearer(call.headers))).agent
        if agent is None or agent.id != call.agent.id:
            raise Forbidden("this token is no longer this agent's")
        require_upstream(agent, call.provider.upstream.name)
        require_model(agent, call.request, call.route)
        return replace(call, agent=agent)

    async def _generate(self, relayed: RelayedCall, body: CallBody, admission: Admission) -> None:
        """Send an admitted call with the declared changes; record its usage whatever happens.

        The gate clears it directly before each send; the gate's errors reach the caller, and nothing is sent.
        """
        call, on_wake = relayed.call, relayed.call.agent.policy.on_wake
        if admission.was_held and on_wake is OnWake.REFRESH and relayed.reply.phase is Phase.SILENT:
            await relayed.wait_for_turn()
            await relayed.wait_to_send()
            relayed.clear_to_send()
            raise StillAsleep(_SLEPT_SINCE, retry_after_seconds=1)
        turn = await self._turns.begin(call.agent, call.request, call.headers)
        entry = self._ledger.open_entry(relayed, turn, admission)
        try:
            answer = await self._prepare(relayed, turn, body, held=admission.was_held)
            if answer is not None:
                await relayed.wait_for_turn()
                await relayed.wait_to_send()
                relayed.clear_to_send()
                await self._writer.write_ready_answer(relayed, answer)
                return
            await self._ledger.reserve(entry)
            # What a program asks for itself does not depend on what its agent missed.
            is_stale = admission.was_held and on_wake is not OnWake.FORWARD and not relayed.follow_up.is_chore
            notice = await self._add_notice(relayed, turn, body, admission) if is_stale else ""
            await self._exchange(relayed, body, notice)
        finally:
            # After the answer: data written to the caller goes out at the end of this step of the event loop.
            asyncio.get_running_loop().call_soon(self._ledger.settle, entry)

    async def _prepare(
        self, relayed: RelayedCall, turn: ConversationCall, body: CallBody, *, held: bool
    ) -> bytes | None:
        """Add memory to the call, or return the ready answer to it."""
        call = relayed.call
        prepared = await self._tier.prepare_call(call, turn, body.content, held=held)
        relayed.follow_up = prepared.follow_up
        body.with_memory = None if prepared.body is body.content else prepared.body
        relayed.call = _with_size_of(call, body.content, prepared.body)
        return prepared.answer

    async def _add_notice(
        self, relayed: RelayedCall, turn: ConversationCall, body: CallBody, admission: Admission
    ) -> str:
        """Return the wake notice; the conversation keeps it for the end of this prompt."""
        call = relayed.call
        unread = await self._count_unread(call.agent, admission)
        key = notice_key(admission.slept_seconds, admission.woken_by, unread)
        prompt = await run_off_loop(body.content, partial(call.dialect.prompt, body.content))
        additions = relayed.follow_up.additions or turn.conversation.additions
        relayed.follow_up = replace(relayed.follow_up, additions=keep_notice(prompt, additions, key))
        return render_wake_notice(key)

    async def _pass_through(self, relayed: RelayedCall, body: CallBody) -> None:
        """Pass on a call that generates nothing.

        Token counts cover what would be sent. An answer made in the background is reported when it is fetched.
        """
        call = relayed.call
        if call.dialect.counts_tokens:
            turn = await self._turns.begin(call.agent, call.request, call.headers)
            body.content = (await self._tier.prepare_call(call, turn, body.content)).body
        ending = await self._find_ending_conversation(call) if call.method == "DELETE" else None
        await self._exchange(relayed, body)
        if ending is not None and relayed.status is not None and relayed.status < 300:
            self._tier.on_conversation_ended(call, ending.end_user)
        content = relayed.meter.answer_so_far()
        if content is not None and content.handle is not None:
            self._tier.on_background_answer(call, content.handle, content)

    async def _exchange(self, relayed: RelayedCall, body: CallBody, notice: str = "") -> None:
        """Send the body, or the one without memory if that is too long for the model, and pass the answer on."""
        call = relayed.call
        answer: ProviderResponse | None = None
        try:
            answer, whole = await self._send(relayed, body.with_memory or body.content, notice)
            if body.with_memory is not None and whole is not None and is_too_long(answer.status, whole):
                _logger.warning(
                    "a call of %r is too long for its model with memory, and goes without", call.agent.reference
                )
                relayed.drop_memory()
                answer.close()
                answer, whole = await self._send(relayed, body.content, notice)
            body.drop()
            relayed.status, relayed.first_byte_at = answer.status, self._clock.monotonic()
            if answer.status >= 400:
                relayed.is_too_long |= whole is not None and is_too_long(answer.status, whole)
                self._ledger.record_error(call, answer.status, "answered with an error")
            await self._writer.write_answer(relayed, answer, whole)
        except UpstreamFailed as error:
            relayed.is_free = isinstance(error.__cause__, ConnectFailed | ConnectTimedOut)
            self._ledger.record_error(call, None, error.message)
            raise
        finally:
            if answer is not None:  # the caller is gone or the rest is not wanted: end the upstream's work too
                answer.close()

    async def _send(self, relayed: RelayedCall, body: bytes, notice: str) -> tuple[ProviderResponse, bytes | None]:
        """Send the body; once more without the request for usage if the provider does not know that."""
        answer, whole = await self._send_once(relayed, body, notice)
        upstream = relayed.call.provider.upstream
        if relayed.adds_usage and whole is not None and refuses_usage_option(answer.status, whole):
            answer.close()
            upstream.takes_usage_option = False
            answer, whole = await self._send_once(relayed, body, notice)
            upstream.takes_usage_option = answer.status >= 400  # then that was not the reason
        return answer, whole

    async def _send_once(self, relayed: RelayedCall, body: bytes, notice: str) -> tuple[ProviderResponse, bytes | None]:
        call = relayed.call
        body, relayed.adds_usage = await run_off_loop(body, partial(_outgoing_body, call, body, notice))
        again = call.route.dialect != "plain" or call.method == "GET"
        headers = to_upstream(call.headers)
        return await call.provider.upstream.send(
            call.method, call.target, headers, body, again=again, streamed=call.request.streamed, clearance=relayed
        )

    async def _find_ending_conversation(self, call: ModelCall) -> Conversation | None:
        """Return the conversation that cannot continue if it, or its last response, is deleted at the provider."""
        place, _, name = call.target.partition("?")[0].rpartition("/")
        if name not in call.route.owned_ids:
            return None
        if place.endswith("/conversations"):
            unknown = Conversation(id=ConversationId(name), agent_id=call.agent.id, at=self._clock.now())
            return await self._turns.find(call.agent, name) or unknown
        return await self._turns.find_by_handle(call.agent, name) if place.endswith("/responses") else None

    async def _count_unread(self, agent: Agent, admission: Admission) -> int | None:
        """Count the agent's unread messages, once for all calls that one wake admits; None if that failed."""
        known = self._unread.get(agent.id)
        if known is None or known[0] != admission.generation:
            known = admission.generation, asyncio.ensure_future(self._query_unread_count(agent))
            self._unread[agent.id] = known
        return await asyncio.shield(known[1])

    async def _query_unread_count(self, agent: Agent) -> int | None:
        try:
            async with limit_wait(_COUNT_SECONDS), self._store.begin_read() as tx:
                return await tx.deliveries.count_unread(agent.id)
        except StorageUnavailable as error:
            _logger.warning("the unread messages of %r are not counted: %s", agent.reference, error.message)
            return None


def _hold_limit(agent: Agent) -> tuple[float, CircadiaError] | None:
    seconds = agent.policy.hold_max_seconds
    if seconds is None:
        return None
    return seconds, StillAsleep(
        f"{agent.reference!r} is asleep; its call was held for {seconds:g} s", retry_after_seconds=30
    )


def _retry_key(call: ModelCall) -> Hashable:
    """Return what is equal for a call and its retry, which may no longer stream; None without a conversation."""
    head = call.request.chain[-1:]
    return (call.dialect.endpoint, call.request.model, *head) if any(head) else None


def _with_size_of(call: ModelCall, before: bytes, after: bytes) -> ModelCall:
    """Return the call with an input estimate that includes the added memory."""
    added = len(after) - len(before)
    if not added:
        return call
    return replace(call, request=replace(call.request, input_estimate=call.request.input_estimate + -(-added // 3)))


def _outgoing_body(call: ModelCall, body: bytes, notice: str) -> tuple[bytes, bool]:
    """Return the outgoing body with the notice, and whether it requests usage that its caller did not request."""
    body = call.dialect.with_line(body, notice) if notice else body
    adds_usage = call.agent.policy.include_usage and call.request.streamed and call.provider.upstream.takes_usage_option
    with_usage = call.dialect.with_usage(body, call.request) if adds_usage else None
    return (body, False) if with_usage is None else (with_usage, True)
