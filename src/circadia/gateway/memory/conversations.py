"""The conversation of a model call and its counters; calls that programs make beside it.

A conversation is named by the header `x-circadia-conversation`, else by the provider's conversation or previous
response, else by a known client and what precedes the model's first answer, which tells its subagents and titles apart
(GATE-96). Otherwise it is the one whose last request is the longest known prefix of this request's messages (GATE-67).
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import Final, TypeVar, cast

from circadia.agents.database_contact import DatabaseContact
from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import StorageUnavailable
from circadia.gateway.accounting.journal import Journal
from circadia.gateway.answers.serving import Lookup
from circadia.gateway.calls.headers import decode_name_header, find_conversation_name, first_value
from circadia.gateway.dialects.base import ModelRequest
from circadia.gateway.payload.prompt import NewUtterance, RequestPrompt
from circadia.ids import AgentId, ConversationId, IdSource
from circadia.memory.uses import BankUse
from circadia.records.agent import Agent
from circadia.records.answer import AnswerMode
from circadia.records.conversation import SEVERAL, Conversation, merge_end_users, shorten_name
from circadia.records.fast_record import fast_record
from circadia.stores.base import Store, Tx
from circadia.stores.signals.base import CONNECTION, Signals
from circadia.stores.time_limit import limit_wait

T = TypeVar("T")

_logger = logging.getLogger(__name__)

REMEMBERED: Final = 20_000
"""Conversations kept in memory, about 1 KB each, up to 6 KB with memory; others are read from their rows."""
MAX_HEADS: Final = 64
"""Newest items of a call by which its conversation is looked up if this process does not remember it."""
READ_SECONDS: Final = 2.0
"""Maximum wait of a call for its conversation's row; after that it begins a new one."""
_MEMORY: Final = b"x-circadia-memory"
TURN_ENDED: Final = "turn_ended"
"""Signals carry what finds a conversation's next call: it may come to another process before the row is written."""


@fast_record
class ConversationCall:
    agent: Agent
    conversation: Conversation
    is_turn: bool
    """Whether this is a turn: its last item comes from the user side."""
    user: str | None = None
    """The end user named by the call or by its conversation's name; never guessed from the text."""


@fast_record
class PendingTurn:
    """The new content of a call, kept until the answer arrives."""

    heard: Sequence[NewUtterance]
    continues: bool
    """Whether the model has already spoken in it."""
    at: datetime
    question: str = ""
    """The last user turn."""
    chore: str = ""
    """Why a program asks for itself; empty if a person asks."""
    kept: bool = True
    """Whether the agent's bank takes it; otherwise it only serves attribution if it is passed on to others."""


@fast_record
class CallFollowUp:
    """Data for the sleep tier when the call has ended."""

    pending_turn: PendingTurn | None = None
    uses: Sequence[BankUse] = ()
    lookup: Lookup | None = None
    additions: str = ""
    """What the gateway has now added to the conversation's turns; empty if it added nothing."""
    shown: Sequence[str] = ()
    """The texts of memory that the call has shown."""
    memory: str = ""
    """What its ledger line keeps of the rows of memory (`encode_memory`)."""

    @property
    def is_chore(self) -> bool:
        """Whether a program asks for itself."""
        return self.pending_turn is not None and bool(self.pending_turn.chore)


NO_FOLLOW_UP: Final = CallFollowUp()


@fast_record
class PreparedCall:
    """A call on its way upstream, or its answer."""

    body: bytes
    follow_up: CallFollowUp = NO_FOLLOW_UP
    prompt: RequestPrompt | None = None
    """The prompt of the caller's body, if it was read."""
    stable: str = ""
    """What `body` adds on the system side."""
    shown: Sequence[tuple[int, str]] = ()
    """What it adds behind messages of the prompt, by their index."""
    answer: bytes | None = None
    """A ready answer in the provider's shape; if present, nothing goes upstream."""


def apply_memory_header(agent: Agent, headers: Sequence[tuple[bytes, bytes]]) -> Agent:
    """Return the agent with the policy for a call that keeps its conversation out of memory (MEM-39).

    `read` keeps it out, and still adds context; another word than `on` does neither, as a misspelt one must not leak.
    """
    wanted = first_value(headers, _MEMORY)
    if wanted is None or wanted == "on":
        return agent
    changes = {"capture": False, "answer_mode": AnswerMode.OFF, "inject": agent.policy.inject and wanted == "read"}
    return replace(agent, policy=agent.policy.model_copy(update=changes))


def _name_key(agent: Agent, end_user: str | None, client_name: bytes, opening: str) -> str:
    """Return the id of a conversation that a client names: the same in each process."""
    owner = f"{agent.id}\0{opening}\0{end_user or ''}\0"
    name = owner.encode("utf-8", "surrogatepass") + client_name
    return f"cnv_{blake2b(name, digest_size=16).hexdigest()}"


class Turns:
    """Finds the conversation of each call. The rows are the truth; the newest are kept here, from all processes."""

    def __init__(
        self, clock: Clock, ids: IdSource, store: Store, journal: Journal, signals: Signals, contact: DatabaseContact
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._store = store
        self._journal = journal
        self._signals = signals
        self._contact = contact
        self._by_id: dict[tuple[str, str], Conversation] = {}
        self._by_head: dict[tuple[str, str], str] = {}
        self._heads: dict[tuple[str, str], tuple[str, ...]] = {}
        self._connection_number = 0
        """Counts how often signals of other processes began or stopped to arrive."""
        self._is_connected = False
        self._noted_at: dict[tuple[str, str], int] = {}
        """The number of the connection over which the last turn of each conversation was noted."""
        signals.listen(TURN_ENDED, self._on_turn_ended)
        signals.listen(CONNECTION, self._on_connection)

    async def begin(
        self, agent: Agent, request: ModelRequest, headers: Sequence[tuple[bytes, bytes]]
    ) -> ConversationCall:
        end_user = shorten_name(decode_name_header(headers, b"x-circadia-user") or request.end_user)
        name = shorten_name(decode_name_header(headers, b"x-circadia-conversation"))
        continued_name = shorten_name(request.conversation)
        client_name = None if name or continued_name else find_conversation_name(headers, request.cache_key)
        if client_name is not None:
            name = _name_key(agent, end_user, client_name, request.opening)
            is_new = request.since_answer is None and (agent.id, name) not in self._by_id
            conversation = None if is_new else await self.find(agent, name)
        elif name:
            conversation = await self.find(agent, name)
        else:
            conversation = await self._find_continued(agent, request, continued_name, end_user)
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
        additions: str,
        is_chore: bool = False,
    ) -> None:
        """Count an answered call; `handle` or the chain with the answer finds the next one.

        A call whose answer broke off is not counted, but its provider has read what was added to it. A program's own
        call at the end of a conversation leaves it as it is, so that the person's next call finds it.
        """
        before = turn.conversation
        if (is_chore and before.version) or (not answered and (not additions or request.conversation)):
            return
        latest = self._by_id.get((before.agent_id, before.id), before)
        continued, handle = shorten_name(request.conversation) or "", shorten_name(handle)
        by_id = continued not in ("", before.id) and (latest.continues_by_handle or before.handle == continued)
        hashes = [item_hash for item_hash in (answer[::-1] or request.chain[-1:]) if item_hash]
        new = Conversation(
            id=before.id,
            agent_id=before.agent_id,
            end_user=before.end_user,
            turns=int(answered and turn.is_turn),
            version=int(answered),
            head="" if by_id or not hashes else hashes[0],
            handle=handle or "",
            additions=additions or latest.additions,
            at=self._clock.now(),
        )
        self._journal.put(new)
        seen = {key: getattr(new, key) for key in ("id", "end_user", "head", "handle", "additions")}
        heads = [*hashes, handle] if handle else hashes
        self._signals.publish(
            TURN_ENDED, new.agent_id, {**seen, "version": before.version + new.version, "heads": heads}
        )

    async def find(self, agent: Agent, name: str) -> Conversation | None:
        """Return the agent's conversation of this name."""
        known = self._by_id.get((agent.id, name))
        if known is not None and self._is_current(known):
            return known
        row = await self._run_read(lambda tx: tx.conversations.get(agent.id, ConversationId(name)), None)
        if row is None or known is None:
            return row or known
        # Its last turn may not be written.
        newest = known if known.version > row.version else row
        return replace(row, end_user=merge_end_users(row.end_user, known.end_user), additions=newest.additions)

    async def find_by_handle(self, agent: Agent, handle: str) -> Conversation | None:
        """Return the agent's conversation whose newest answer has this handle, if its calls continue by response ids.

        A client that sends all messages with each call does not depend on what the provider stores.
        """
        handle = shorten_name(handle) or ""
        known = self._by_id.get((agent.id, self._by_head.get((agent.id, handle), "")))
        if known is None:
            rows = await self._run_read(lambda tx: tx.conversations.find(agent.id, [], name=handle), ())
            known = next((row for row in rows if row.handle == handle), None)
        return known if known is not None and known.continues_by_handle else None

    async def _find_continued(
        self, agent: Agent, request: ModelRequest, name: str | None, end_user: str | None
    ) -> Conversation | None:
        """Return the conversation that the call continues: by the provider's id for it, else by its history.

        At most one look-up: none if this process remembers the newest answer, or if there is none to continue.
        """
        keys = [*([name] if name else []), *request.chain[::-1]]
        place, found = len(keys), None
        for number, key in enumerate(keys):
            conversation_id = self._by_head.get((agent.id, key))
            if conversation_id is not None:
                place, found = number, self._by_id[(agent.id, conversation_id)]
                break
        if name and (found is None or place > 0):
            named = self._by_id.get((agent.id, name))
            place, found = (0, named) if named is not None else (place, found)
        newest = 0 if name else request.since_answer
        if newest is not None and (found is None or (place > newest and self._contact.is_shared)):
            newer = [key for key in keys[:place][:MAX_HEADS] if key]
            rows = await self._run_read(lambda tx: tx.conversations.find(agent.id, newer, name=name), ())
            by_key = {key: row for row in rows for key in (row.id, row.head, row.handle) if key}
            found = next((by_key[key] for key in newer if key in by_key), found)
        elif found is not None and not self._is_current(found):
            found = await self.find(agent, found.id)
        if found is None:
            return None
        others = end_user and found.end_user is not None and found.end_user != end_user
        return None if others and not name else found

    async def _run_read(self, read: Callable[[Tx], Awaitable[T]], none: T) -> T:
        """Return what the database has, or `none` if it does not answer: no call fails for its conversation."""
        try:
            self._contact.require_database()
            async with limit_wait(READ_SECONDS), self._store.begin_read() as tx:
                return await read(tx)
        except StorageUnavailable as error:
            _logger.warning("a conversation is not looked up: %s", error.message)
            return none

    def _on_connection(self, _: str, data: Mapping[str, object]) -> None:
        self._connection_number += 1
        self._is_connected = bool(data["is_connected"])

    def _is_current(self, known: Conversation) -> bool:
        """Return whether all processes' turns of this conversation are known: no signal was lost since its last."""
        noted_at = self._noted_at.get((known.agent_id, known.id))
        return not self._contact.is_shared or (self._is_connected and noted_at == self._connection_number)

    def _on_turn_ended(self, key: str, data: Mapping[str, object]) -> None:
        """Keep what this or another process knows of a conversation's last turn."""
        if "id" not in data:  # too large for a signal: the row has it soon
            self._connection_number += 1
            return
        end_user = cast("str | None", data["end_user"])
        conversation = Conversation(
            id=ConversationId(str(data["id"])), agent_id=AgentId(key), end_user=end_user,
            version=cast("int", data["version"]), head=str(data["head"]), handle=str(data["handle"]),
            additions=str(data.get("additions", "")), at=self._clock.now(),
        )  # fmt: skip
        place = (conversation.agent_id, conversation.id)
        before = self._by_id.get(place)
        if before is not None:
            additions = conversation.additions or before.additions  # servers of earlier versions name none
            end_user = merge_end_users(before.end_user, end_user)
            conversation = replace(conversation, end_user=end_user, additions=additions)
        self._forget(place)  # the newest comes last
        self._by_id[place] = conversation
        self._noted_at[place] = self._connection_number
        self._heads[place] = heads = tuple(cast("Sequence[str]", data["heads"]))
        for head in heads:
            self._by_head[(conversation.agent_id, head)] = conversation.id
        if len(self._by_id) > REMEMBERED:
            self._forget(next(iter(self._by_id)))

    def _forget(self, key: tuple[str, str]) -> None:
        self._by_id.pop(key, None)
        self._noted_at.pop(key, None)
        for head in self._heads.pop(key, ()):
            if self._by_head.get((key[0], head)) == key[1]:
                del self._by_head[(key[0], head)]


WITHIN_SECONDS: Final = 60.0
"""How long a user turn is recognised in a call beside its own."""
MAX_FIELDS: Final = 2
"""Fields of the answer that such a call asks for: a title, or a title and a branch."""
MIN_TURN_CHARS: Final = 10
"""Fewest characters of a recognised turn; a shorter one is part of many texts."""
_MAX_TURN_CHARS: Final = 20_000
"""Characters of the longest turn that is kept."""
_TURNS: Final = 8
"""Turns kept for an agent, the newest."""
_AGENTS: Final = 1_000


class SideCalls:
    """Recognises calls that a program makes for itself beside a person's, by their form (GATE-97).

    It remembers what people asked agents in the last minute, in calls that offer tools.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: BoundedDict[AgentId, deque[tuple[float, str]]] = BoundedDict(_AGENTS)

    def note(self, agent_id: AgentId, request: ModelRequest, question: str) -> None:
        """Remember the last user turn of a call, if the call offers tools."""
        text = question.strip()
        if not (request.offers_tools and MIN_TURN_CHARS <= len(text) <= _MAX_TURN_CHARS):
            return
        turns = self._turns.get(agent_id)
        if turns is None:
            turns = self._turns[agent_id] = deque(maxlen=_TURNS)
        if not turns or turns[-1][1] != text:
            turns.append((self._clock.monotonic(), text))

    def is_beside(self, agent_id: AgentId, request: ModelRequest, question: str) -> bool:
        """Return whether a call offers no tools, wants few fields, and its user turn wraps one of another call."""
        fields = request.schema_fields
        if request.offers_tools or fields is None or fields > MAX_FIELDS:
            return False
        since = self._clock.monotonic() - WITHIN_SECONDS
        return any(at >= since and _wraps(question, text) for at, text in self._turns.get(agent_id, ()))


def _wraps(outer: str, inner: str) -> bool:
    """Return whether a text contains another as a whole, not inside a word, and is more than it."""
    at = outer.find(inner)
    end = at + len(inner)
    if at < 0 or len(outer.strip()) == len(inner):
        return False
    return not (outer[max(at - 1, 0) : at].isalnum() or outer[end : end + 1].isalnum())
