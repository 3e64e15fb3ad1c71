"""Prepares an admitted call: its rights again, its conversation, memory or a ready answer, budget and wake notice."""

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import Final

from circadia.agents.access import require_upstream
from circadia.agents.identity import Identity
from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import Forbidden, StorageUnavailable
from circadia.gateway.accounting.budget import require_model
from circadia.gateway.calls.headers import bearer
from circadia.gateway.calls.upstream import ModelCall
from circadia.gateway.hold.bodies import CallBody, run_off_loop
from circadia.gateway.memory.additions import keep_notice
from circadia.gateway.memory.call_memory import CallMemory
from circadia.gateway.memory.conversations import ConversationCall, PreparedCall, Turns, apply_memory_header
from circadia.gateway.memory.notices import notice_key, render_wake_notice
from circadia.gateway.model_call.hold import Admission
from circadia.gateway.model_call.record import Ledger, LedgerEntry
from circadia.gateway.model_call.send import RelayedCall
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


class Preparation:
    def __init__(
        self, clock: Clock, store: Store, identity: Identity, turns: Turns, memory: CallMemory, ledger: Ledger
    ):
        self._clock = clock
        self._store = store
        self._identity = identity
        self._turns = turns
        self._memory = memory
        self._ledger = ledger
        self._unread: BoundedDict[AgentId, tuple[int, asyncio.Future[int | None]]] = BoundedDict(_COUNTS_KEPT)

    async def renew_rights(self, call: ModelCall) -> ModelCall:
        """Return the call with its agent's current rights: a hold lasts hours, and rights are revoked meanwhile."""
        agent = (await self._identity.authenticate(bearer(call.headers))).agent
        if agent is None or agent.id != call.agent.id:
            raise Forbidden("this token is no longer this agent's")
        require_upstream(agent, call.provider.upstream.name)
        require_model(agent, call.request, call.route)
        return replace(call, agent=apply_memory_header(agent, call.headers))

    async def begin_turn(self, call: ModelCall) -> ConversationCall:
        return await self._turns.begin(call.agent, call.request, call.headers)

    async def prepare(self, relayed: RelayedCall, entry: LedgerEntry, body: CallBody) -> bytes | None:
        """Add memory and the wake notice to the call, within its budget; or return the ready answer to it."""
        call, admission = relayed.call, entry.admission
        body.with_additions = None  # an attempt before this one may have left some
        prepared = await self._memory.prepare_call(call, entry.turn, body, held=admission.was_held)
        relayed.follow_up = prepared.follow_up
        if prepared.answer is not None:
            return prepared.answer
        if prepared.body is not body.content:
            relayed.has_memory, body.with_additions = True, prepared.body
            added = len(prepared.body) - len(body.content)
            estimate = call.request.input_estimate + -(-added // 3)
            relayed.call = replace(call, request=replace(call.request, input_estimate=estimate))
        await self._ledger.reserve(entry)
        # What a program asks for itself does not depend on what its agent missed.
        if admission.has_slept and call.agent.policy.on_wake is not OnWake.FORWARD and not relayed.follow_up.is_chore:
            await self._add_notice(relayed, entry, body, prepared)
        return None

    async def prepare_count(self, call: ModelCall, body: CallBody) -> None:
        """Add memory to a call that counts tokens: the count covers what would be sent."""
        turn = await self.begin_turn(call)
        body.content = (await self._memory.prepare_call(call, turn, body)).body

    async def find_ending_conversation(self, call: ModelCall) -> Conversation | None:
        """Return the conversation that cannot continue if it, or its last response, is deleted at the provider."""
        place, _, name = call.target.partition("?")[0].rpartition("/")
        if name not in call.route.owned_ids:
            return None
        if place.endswith("/conversations"):
            unknown = Conversation(id=ConversationId(name), agent_id=call.agent.id, at=self._clock.now())
            return await self._turns.find(call.agent, name) or unknown
        return await self._turns.find_by_handle(call.agent, name) if place.endswith("/responses") else None

    async def _add_notice(
        self, relayed: RelayedCall, entry: LedgerEntry, body: CallBody, prepared: PreparedCall
    ) -> None:
        """Add the wake notice at the end of the prompt, where its conversation keeps it."""
        admission, prompt = entry.admission, prepared.prompt
        unread = await self._count_unread(relayed.call.agent, admission)
        key = notice_key(admission.slept_seconds, admission.woken_by, unread)
        additions = relayed.follow_up.additions or entry.turn.conversation.additions
        relayed.follow_up = replace(relayed.follow_up, additions=keep_notice(prompt, additions, key))
        relayed.notice = render_wake_notice(key)
        if prompt is not None:
            shown = [*prepared.shown, (prompt.end, relayed.notice)]
            add = partial(prompt.with_additions, prepared.stable, shown)
            body.with_additions = await run_off_loop(body.content, add)

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
