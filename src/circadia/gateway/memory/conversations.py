"""The conversation of a model call and its counters; the interface to the sleep tier.

A conversation is named by the header `x-circadia-conversation`, else by the provider's conversation or previous
response. Otherwise it is the one whose last request is the longest known prefix of this request's messages (GATE-67).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from circadia.clock import Clock
from circadia.gateway.accounting.journal import Journal
from circadia.gateway.answers.serving import Lookup
from circadia.gateway.calls.headers import decode_name_header
from circadia.gateway.calls.model_call import ModelCall
from circadia.gateway.dialects.base import AnswerContent, ModelRequest
from circadia.gateway.payload.prompt import NewUtterance
from circadia.ids import ConversationId, IdSource
from circadia.memory.uses import BankUse
from circadia.records.agent import Agent
from circadia.records.conversation import Conversation
from circadia.records.end_user import shorten_name
from circadia.records.per_call import per_call
from circadia.stores.base import Store

REMEMBERED = 20_000
"""Conversations found by their messages, about 1 KB each; an older one is found by its name only."""
SEVERAL: Final = ""
"""End user of a conversation in which several were named; a call in it without a name belongs to nobody."""


@per_call
class ConversationCall:
    agent: Agent
    conversation: Conversation
    is_turn: bool
    """Whether this is a turn: its last item comes from the user side."""
    user: str | None = None
    """The end user named by the call or by its conversation's name; never guessed from the text."""


@per_call
class PendingTurn:
    """The new content of a call, kept until the answer arrives."""

    heard: Sequence[NewUtterance]
    continues: bool
    """Whether the model has already spoken in it."""
    at: datetime
    chore: bool = False
    """Whether a program asks about the conversation."""
    kept: bool = True
    """Whether the agent's bank takes it; otherwise it only serves attribution if it is passed on to others."""


@per_call
class CallFollowUp:
    """Data for the sleep tier when the call has ended."""

    pending_turn: PendingTurn | None = None
    used: BankUse | None = None
    lookup: Lookup | None = None


NO_FOLLOW_UP: Final = CallFollowUp()


@per_call
class PreparedCall:
    """A call on its way upstream, or its answer."""

    body: bytes
    follow_up: CallFollowUp = NO_FOLLOW_UP
    answer: bytes | None = None
    """A ready answer in the provider's shape; if present, nothing goes upstream."""


class SleepTier(Protocol):
    """May change a call before it goes upstream and learns how it ended. Neither may fail the call."""

    async def prepare_call(
        self, call: ModelCall, turn: ConversationCall, body: bytes, *, held: bool = False
    ) -> PreparedCall:
        """Return what goes upstream; `held` means that the call was written before a sleep."""
        ...

    def on_call_ended(
        self,
        call: ModelCall,
        turn: ConversationCall,
        *,
        answered: bool,
        follow_up: CallFollowUp,
        content: AnswerContent | None,
        hashes: Sequence[str],
        context_share: float,
    ) -> None:
        """Handle the end of a call: whether the answer is complete, and its content so far.

        `hashes` are those of the conversation with the answer. `context_share` is the share of the model's
        context that the call filled; 0 if unknown.
        """
        ...

    def on_call_unsent(self, call: ModelCall, turn: ConversationCall) -> None:
        """Handle a call that passed `prepare_call` but was not sent."""
        ...

    def on_background_answer(self, call: ModelCall, handle: str, content: AnswerContent) -> None:
        """Handle the content of a background answer, which may be empty or already known."""
        ...

    def on_conversation_ended(self, call: ModelCall, user: str | None) -> None:
        """Handle a call that ended a conversation of its agent, with this end user if known."""
        ...


class Turns:
    def __init__(self, clock: Clock, ids: IdSource, store: Store, journal: Journal) -> None:
        self._clock = clock
        self._ids = ids
        self._store = store
        self._journal = journal
        self._by_id: dict[tuple[str, str], Conversation] = {}
        self._by_head: dict[tuple[str, str], str] = {}
        self._heads: dict[tuple[str, str], tuple[str, ...]] = {}
        self._chained_by_id: set[tuple[str, str]] = set()
        """Conversations that continued by response ids, if their head is one."""

    async def load(self) -> None:
        """Load the conversations from before this process started."""
        async with self._store.begin_read() as tx:
            for conversation in reversed(await tx.conversations.find_latest(REMEMBERED)):
                self._keep(conversation, [conversation.head] if conversation.head else [])
                if conversation.version > 1:
                    self._chained_by_id.add((conversation.agent_id, conversation.id))

    async def begin(
        self, agent: Agent, request: ModelRequest, headers: Sequence[tuple[bytes, bytes]]
    ) -> ConversationCall:
        end_user = shorten_name(decode_name_header(headers, b"x-circadia-user") or request.end_user)
        name = shorten_name(decode_name_header(headers, b"x-circadia-conversation"))
        continued_name = shorten_name(request.conversation)
        conversation = await self._find_by_name(agent, name) if name else self._find_by_chain(agent, request, end_user)
        if conversation is None and continued_name is not None:
            conversation = await self._find_by_name(agent, continued_name)
        if conversation is None:
            key = name or continued_name or self._ids.new("cnv")
            conversation = Conversation(id=ConversationId(key), agent_id=agent.id, at=self._clock.now())
        if end_user or conversation.end_user == SEVERAL:
            conversation = replace(conversation, end_user=end_user)
        # A caller who repeats another's words must not be taken for that other.
        user = conversation.end_user if end_user or name or request.conversation else None
        return ConversationCall(agent=agent, conversation=conversation, is_turn=request.turn, user=user)

    def end(
        self,
        turn: ConversationCall,
        request: ModelRequest,
        *,
        answer: Sequence[str],
        handle: str | None,
        answered: bool,
    ) -> None:
        """Update version and turns of an answered call; `handle` or the chain with the answer finds the next one."""
        if not answered:
            return
        latest = self._by_id.get((turn.agent.id, turn.conversation.id), turn.conversation)
        key = (latest.agent_id, latest.id)
        before = request.conversation or ""
        known = key in self._chained_by_id or self._by_head.get((latest.agent_id, before)) == latest.id
        by_id = before not in ("", latest.id) and known
        handles = [handle] if handle else []
        hashes = [item_hash for item_hash in (answer[::-1] or request.chain[-1:]) if item_hash]
        # Only the first head survives a restart, so it must be the kind by which the client continues.
        heads = handles + hashes if by_id or not latest.version else hashes + handles
        updated = Conversation(
            id=latest.id,
            agent_id=latest.agent_id,
            end_user=_merge_end_users(latest.end_user, turn.conversation.end_user),
            turns=latest.turns + int(turn.is_turn),
            version=latest.version + 1,
            head=heads[0] if heads else "",
            at=self._clock.now(),
        )
        self._keep(updated, heads)
        if by_id:
            self._chained_by_id.add(key)
        self._journal.put(updated)

    def find_conversation(self, agent: Agent, name: str) -> Conversation | None:
        """Return the agent's conversation of this name, if this process remembers it."""
        return self._by_id.get((agent.id, name))

    def find_by_handle(self, agent: Agent, handle: str) -> Conversation | None:
        """Return the agent's conversation whose newest answer has this handle, if its calls continue by response ids.

        A client that sends all messages with each call does not depend on what the provider stores.
        """
        key = (agent.id, self._by_head.get((agent.id, handle), ""))
        return self._by_id[key] if key in self._chained_by_id else None

    async def _find_by_name(self, agent: Agent, name: str) -> Conversation | None:
        conversation = self.find_conversation(agent, name)
        if conversation is not None:
            return conversation
        async with self._store.begin_read() as tx:
            return await tx.conversations.get(agent.id, ConversationId(name))

    def _find_by_chain(self, agent: Agent, request: ModelRequest, end_user: str | None) -> Conversation | None:
        heads = [request.conversation, *request.chain[::-1]] if request.conversation else request.chain[::-1]
        for head in heads:
            conversation_id = self._by_head.get((agent.id, head))
            if conversation_id is not None:
                conversation = self._by_id[(agent.id, conversation_id)]
                others = end_user and conversation.end_user is not None and conversation.end_user != end_user
                return None if others and not request.conversation else conversation
        return None

    def _keep(self, conversation: Conversation, heads: Sequence[str]) -> None:
        key = (conversation.agent_id, conversation.id)
        self._forget(key)  # the newest comes last
        self._by_id[key] = conversation
        self._heads[key] = tuple(heads)
        for head in heads:
            self._by_head[(conversation.agent_id, head)] = conversation.id
        if len(self._by_id) > REMEMBERED:
            self._forget(next(iter(self._by_id)))

    def _forget(self, key: tuple[str, str]) -> None:
        self._by_id.pop(key, None)
        self._chained_by_id.discard(key)
        for head in self._heads.pop(key, ()):
            if self._by_head.get((key[0], head)) == key[1]:
                del self._by_head[(key[0], head)]


def _merge_end_users(before: str | None, now: str | None) -> str | None:
    """Return the end user after a call by `now`: the only one named, or SEVERAL."""
    return SEVERAL if before is not None and now is not None and before != now else before if now is None else now
