"""Which conversation a model call belongs to, and how far it is; the one hook behind which the sleep tier stands.

The conversation is what the header `x-circadia-conversation` says, else the provider's own conversation or previous
response, else the one whose last request is the longest known beginning of this request's messages (GATE-67).
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
"""Conversations that are found by their messages, about 1 KB each; an older one is found by its name only."""
SEVERAL: Final = ""
"""The end user of a conversation that more than one have named: a call in it that names none is nobody's."""


@per_call
class ConversationCall:
    """One model call as a part of a conversation."""

    agent: Agent
    """Who talks."""
    conversation: Conversation
    """The conversation before this call."""
    counted: bool
    """Whether this is a turn: its last item comes from the user side."""
    user: str | None = None
    """The end user as the call says, or what it names its conversation by; never guessed from what was said."""


@per_call
class PendingTurn:
    """What a call says that is new, kept until its answer is there."""

    heard: Sequence[NewUtterance]
    """What."""
    continues: bool
    """Whether the model has spoken in it before."""
    at: datetime
    """When it came."""
    chore: bool = False
    """Whether a program asks it about the conversation."""
    kept: bool = True
    """Whether the agent's bank takes it; else it is only known whose word it is, should it be handed on to others."""


@per_call
class CallFollowUp:
    """What is to be told of a call once it has ended."""

    told: PendingTurn | None = None
    """What is to be kept with the answer; none if nothing is."""
    used: BankUse | None = None
    """What of a bank's derived memory stands in it; none if nothing does."""
    lookup: Lookup | None = None
    """What it got of the ready answers; none if none were looked up."""


NOTHING: Final = CallFollowUp()


@per_call
class PreparedCall:
    """A call on its way upstream, or its answer."""

    body: bytes
    """What goes upstream."""
    noted: CallFollowUp = NOTHING
    """What is to be told of it."""
    answer: bytes | None = None
    """The whole answer in the provider's shape, where it is ready: then nothing goes upstream."""


class SleepTier(Protocol):
    """What may change a call before it goes upstream, and learns how it ended. Neither may fail the call."""

    async def prepare_call(
        self, call: ModelCall, turn: ConversationCall, body: bytes, *, held: bool = False
    ) -> PreparedCall:
        """Return what goes upstream; `held` says that the call was made before a sleep."""
        ...

    def on_call_ended(
        self,
        call: ModelCall,
        turn: ConversationCall,
        *,
        answered: bool,
        noted: CallFollowUp,
        said: AnswerContent | None,
        hashes: Sequence[str],
        filled: float,
    ) -> None:
        """Learn that the call ended, whether with a whole answer, and what the answer said as far as it came.

        `hashes` are those of the conversation with the answer. `filled` is the share of its model's context that it
        filled, where that is known.
        """
        ...

    def on_call_unsent(self, call: ModelCall, turn: ConversationCall) -> None:
        """Learn that the call, which `before` has seen, was not sent."""
        ...

    def on_background_answer(self, call: ModelCall, handle: str, said: AnswerContent) -> None:
        """Learn what an answer says that is made in the background; perhaps nothing yet, perhaps nothing new."""
        ...

    def on_conversation_ended(self, call: ModelCall, user: str | None) -> None:
        """Learn that the call has ended a conversation of its agent, with this end user where he is known."""
        ...


class Turns:
    """Finds the conversation of a call and moves its counters."""

    def __init__(self, clock: Clock, ids: IdSource, store: Store, journal: Journal) -> None:
        self._clock = clock
        self._ids = ids
        self._store = store
        self._journal = journal
        self._by_id: dict[tuple[str, str], Conversation] = {}
        self._by_head: dict[tuple[str, str], str] = {}
        self._heads: dict[tuple[str, str], tuple[str, ...]] = {}
        self._chained_by_id: set[tuple[str, str]] = set()
        """Those of them that have gone on by the ids of answers, if their head is one."""

    async def load(self) -> None:
        """Remember the conversations that went on before this process began."""
        async with self._store.begin_read() as tx:
            for conversation in reversed(await tx.conversations.find_latest(REMEMBERED)):
                self._keep(conversation, [conversation.head] if conversation.head else [])
                if conversation.version > 1:
                    self._chained_by_id.add((conversation.agent_id, conversation.id))

    async def begin(
        self, agent: Agent, request: ModelRequest, headers: Sequence[tuple[bytes, bytes]]
    ) -> ConversationCall:
        """Return the call's place in its conversation."""
        end_user = shorten_name(decode_name_header(headers, b"x-circadia-user") or request.end_user)
        name = shorten_name(decode_name_header(headers, b"x-circadia-conversation"))
        continued = shorten_name(request.conversation)
        found = await self._find_by_name(agent, name) if name else self._find_by_chain(agent, request, end_user)
        if found is None and continued is not None:
            found = await self._find_by_name(agent, continued)
        if found is None:
            key = name or continued or self._ids.new("cnv")
            found = Conversation(id=ConversationId(key), agent_id=agent.id, at=self._clock.now())
        if end_user or found.end_user == SEVERAL:
            found = replace(found, end_user=end_user)
        # Whoever repeats the words of another's conversation must not be taken for that other.
        user = found.end_user if end_user or name or request.conversation else None
        return ConversationCall(agent=agent, conversation=found, counted=request.turn, user=user)

    def end(
        self,
        turn: ConversationCall,
        request: ModelRequest,
        *,
        answer: Sequence[str],
        handle: str | None,
        answered: bool,
    ) -> None:
        """Move the counters: a version for each answered call, a turn where it was one.

        The next request finds the conversation by the provider's `handle` or by the hash of the chain with the answer.
        """
        if not answered:
            return
        latest = self._by_id.get((turn.agent.id, turn.conversation.id), turn.conversation)
        key = (latest.agent_id, latest.id)
        before = request.conversation or ""
        known = key in self._chained_by_id or self._by_head.get((latest.agent_id, before)) == latest.id
        by_id = before not in ("", latest.id) and known
        handles = [handle] if handle else []
        hashes = [each for each in (answer[::-1] or request.chain[-1:]) if each]
        # The first one is known after a restart, too: what its client goes on by, and so whether that is an id.
        heads = handles + hashes if by_id or not latest.version else hashes + handles
        moved = Conversation(
            id=latest.id,
            agent_id=latest.agent_id,
            end_user=_merge_end_users(latest.end_user, turn.conversation.end_user),
            turns=latest.turns + int(turn.counted),
            version=latest.version + 1,
            head=heads[0] if heads else "",
            at=self._clock.now(),
        )
        self._keep(moved, heads)
        if by_id:
            self._chained_by_id.add(key)
        self._journal.put(moved)

    def find_conversation(self, agent: Agent, name: str) -> Conversation | None:
        """Return the agent's conversation of this name, if this process remembers it."""
        return self._by_id.get((agent.id, name))

    def find_by_handle(self, agent: Agent, handle: str) -> Conversation | None:
        """Return the agent's conversation whose newest answer this is, if its calls go on by the id of the one before.

        A client that sends all messages anew with each call can go on without what the provider keeps of it.
        """
        key = (agent.id, self._by_head.get((agent.id, handle), ""))
        return self._by_id[key] if key in self._chained_by_id else None

    async def _find_by_name(self, agent: Agent, name: str) -> Conversation | None:
        known = self.find_conversation(agent, name)
        if known is not None:
            return known
        async with self._store.begin_read() as tx:
            return await tx.conversations.get(agent.id, ConversationId(name))

    def _find_by_chain(self, agent: Agent, request: ModelRequest, end_user: str | None) -> Conversation | None:
        heads = [request.conversation, *request.chain[::-1]] if request.conversation else request.chain[::-1]
        for head in heads:
            known = self._by_head.get((agent.id, head))
            if known is not None:
                found = self._by_id[(agent.id, known)]
                others = end_user and found.end_user is not None and found.end_user != end_user
                return None if others and not request.conversation else found
        return None

    def _keep(self, conversation: Conversation, heads: Sequence[str]) -> None:
        key = (conversation.agent_id, conversation.id)
        self._forget(key)  # the newest stands last
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
    """Return whose conversation it is after a call of one of them, or of somebody without a name."""
    return SEVERAL if before is not None and now is not None and before != now else before if now is None else now
