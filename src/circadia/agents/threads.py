"""Threads and their messages, and their effect on each agent's sleep."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from circadia.agents.chains import fetch_place
from circadia.agents.directory import find_agent_by_reference, hold_agents, lock_open_session
from circadia.clock import Clock
from circadia.errors import Conflict, Forbidden, InvalidRequest, LimitReached, NotFound
from circadia.ids import AgentId, IdSource, MessageId, ThreadId
from circadia.records.agent import Agent, SleepEvent, WakeEvent
from circadia.records.event import EventType, ParticipantChange, ThreadChange, ThreadMessage
from circadia.records.message import Message
from circadia.records.principal import OPERATOR, Principal
from circadia.records.session import Session
from circadia.records.thread import Participant, Thread, ThreadStatus
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import agent_key, session_key, thread_key
from circadia.suggestions import did_you_mean


class ThreadEventListener(Protocol):
    """Called for each event of an agent in a thread, in the transaction of the change and after it."""

    async def on_event(
        self, tx: Tx, agent: Agent, event: SleepEvent | WakeEvent, *, by: str, message: Message | None = None
    ) -> None:
        """`message` is what mentions the agent."""
        ...

    async def on_message(self, tx: Tx, agent_id: AgentId, message: Message) -> None:
        """Called for a participant that sleeps until any message comes, and that the message does not mention."""
        ...


class ThreadService:
    """The only writer of threads, participants and messages; an operator counts as a participant of every thread."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        events: EventLog,
        event_listener: ThreadEventListener,
        *,
        max_message_characters: int,
        max_open_threads_per_agent: int,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events
        self._event_listener = event_listener
        self._max_characters = max_message_characters
        self._max_open_threads = max_open_threads_per_agent

    def new_id(self) -> ThreadId:
        """Return the id of a thread that is still to be created, for a block that names all its keys first."""
        return ThreadId(self._ids.new("thr"))

    async def create(
        self,
        tx: Tx,
        principal: Principal,
        session: Session,
        name: str,
        participants: Sequence[str],
        *,
        thread_id: ThreadId | None = None,
    ) -> Thread:
        """Open a thread; its creator and the named agents join it, which counts as an add for each (GATE-10).

        Raises:
            InvalidRequest: no name. NotFound: no such agent. LimitReached: the creator has too many open threads.
        """
        if not name.strip() or len(name) > 200:
            raise InvalidRequest("a thread needs a name of 1 to 200 characters")
        thread_id = thread_id or self.new_id()
        await hold_agents(tx, principal, session, participants, session_key(session.id), thread_key(thread_id))
        await lock_open_session(tx, session)
        names = dict.fromkeys(participants)
        agents = [await find_agent_by_reference(tx, principal, session, name) for name in names]
        if principal.agent is not None:
            if await tx.threads.count_open_by(session.id, principal.name) >= self._max_open_threads:
                raise LimitReached(
                    f"{principal.name!r} has opened {self._max_open_threads} threads that are still open; close some"
                )
            agents.append(await tx.agents.get(principal.agent.id) or principal.agent)
        thread = Thread(
            id=thread_id,
            session_id=session.id,
            name=name,
            status=ThreadStatus.OPEN,
            created_by=principal.name,
            created_at=self._clock.now(),
        )
        await tx.threads.add(thread)
        await self._record_change(tx, EventType.THREAD_CREATED, session, thread, by=principal.name)
        for agent in {agent.id: agent for agent in agents}.values():
            await self._join(tx, session, thread, agent, by=principal.name)
        return thread

    async def add(self, tx: Tx, principal: Principal, session: Session, thread: Thread, reference: str) -> Agent:
        """Add an agent to an open thread. Raises Forbidden for an outsider, Conflict if closed or already in it."""
        await self._require_open_part(tx, principal, thread)
        await hold_agents(tx, principal, session, [reference])
        agent = await find_agent_by_reference(tx, principal, session, reference)
        if not await self._join(tx, session, thread, agent, by=principal.name):
            raise Conflict(f"{agent.reference!r} takes part in thread {thread.name!r} already")
        return agent

    async def remove(self, tx: Tx, principal: Principal, session: Session, thread: Thread, reference: str) -> Agent:
        """Remove an agent from an open thread; without an open thread left it can fall asleep (GATE-20).

        Raises:
            Forbidden: the caller takes no part. NotFound: the agent takes none. Conflict: the thread is closed.
        """
        await self._require_open_part(tx, principal, thread)
        await hold_agents(tx, principal, session, [reference])
        agent = await find_agent_by_reference(tx, principal, session, reference)
        if not await tx.threads.leave(thread.id, agent.id):
            raise NotFound(f"{agent.reference!r} takes no part in thread {thread.name!r}")
        await self._record_participant(tx, EventType.PARTICIPANT_REMOVED, session, thread, agent, by=principal.name)
        if await tx.threads.count_open_of_agent(agent.id) == 0:
            await self._event_listener.on_event(tx, agent, SleepEvent.REMOVED_FROM_LAST_THREAD, by=principal.name)
        return agent

    async def close(
        self, tx: Tx, principal: Principal, session: Session, thread: Thread, summary: str | None = None
    ) -> Thread:
        """Close an open thread. Raises Forbidden for an outsider, Conflict if it is closed already."""
        await self._require_open_part(tx, principal, thread)
        return await self.end(tx, session, thread, by=principal.name, summary=summary)

    async def end(self, tx: Tx, session: Session, thread: Thread, *, by: str, summary: str | None) -> Thread:
        """Close a thread without a permission check; participants without an open thread can fall asleep (GATE-20)."""
        participants = await tx.threads.participants(thread.id)
        await tx.hold(*(agent_key(participant.agent_id) for participant in participants))
        closed = replace(thread, status=ThreadStatus.CLOSED, closed_at=self._clock.now(), summary=summary)
        if not await tx.threads.close(closed):
            raise Conflict(f"thread {thread.name!r} is closed already")
        await self._record_change(tx, EventType.THREAD_CLOSED, session, thread, by=by)
        for participant in participants:
            self._events.signal(tx, "conversation", participant.agent_id)
            agent = await tx.agents.get(participant.agent_id)
            if agent is not None and await tx.threads.count_open_of_agent(agent.id) == 0:
                await self._event_listener.on_event(tx, agent, SleepEvent.LAST_THREAD_CLOSED, by=by)
        return closed

    async def send(
        self,
        tx: Tx,
        principal: Principal,
        session: Session,
        thread: Thread,
        content: str,
        mentions: Sequence[str] = (),
        *,
        sender: str | None = None,
    ) -> Message:
        """Send a message to an open thread: one delivery per other participant; mentions can wake (GATE-12).

        `sender` is checked: an agent speaks for itself only, the operator for any participant or for a person.

        Raises:
            InvalidRequest: empty or too long, or it mentions the sender or somebody who takes no part.
            Forbidden: a forged sender, or one who takes no part.
            Conflict: the thread is closed.
        """
        require_content(content, self._max_characters)
        if thread.status is ThreadStatus.CLOSED:
            raise Conflict(f"thread {thread.name!r} is closed; open another")
        named = mentions if sender is None else [*mentions, sender]
        participants = await self._hold_participants(tx, principal, session, thread, named)
        speaker = await self._resolve_sender(tx, principal, session, sender)
        if speaker is not None and speaker.id not in participants:
            raise Forbidden(f"{speaker.reference!r} takes no part in thread {thread.name!r}; ask to be added")
        mentioned = await self._resolve_mentions(tx, principal, session, thread, mentions, participants, speaker)
        place = await fetch_place(tx, principal)
        message_id = MessageId(self._ids.new("msg"))
        message = Message(
            id=message_id, number=0, thread_id=thread.id, session_id=session.id,
            sender_id=speaker.id if speaker else None,
            sender=speaker.reference if speaker else (principal.name if sender in (None, OPERATOR) else sender),
            content=content, mentions=tuple(agent.reference for agent in mentioned), at=self._clock.now(),
            root_id=place.root_id or message_id, parent_id=place.parent_id, depth=place.depth,
        )  # fmt: skip
        mentioned_ids = {agent.id for agent in mentioned}
        others = [agent_id for agent_id in participants if speaker is None or agent_id != speaker.id]
        missed = {agent.id for agent in mentioned if not agent.asleep}  # they may fall asleep before they see it
        await tx.messages.add(message, [(agent_id, agent_id in mentioned_ids) for agent_id in others], missed=missed)
        await self._events.record(tx, EventType.MESSAGE, _event_data(thread, message), session=session.name)
        for agent in mentioned:
            await self._event_listener.on_event(tx, agent, WakeEvent.MENTIONED, by=message.sender, message=message)
        for agent_id in [each for each in others if participants[each].listens and each not in mentioned_ids]:
            await self._event_listener.on_message(tx, agent_id, message)
        for agent_id in participants:
            self._events.signal(tx, "delivery", agent_id)
        return message

    async def _hold_participants(
        self, tx: Tx, principal: Principal, session: Session, thread: Thread, named: Sequence[str]
    ) -> Mapping[AgentId, Participant]:
        """Hold all whom a message concerns, and return the participants."""
        participants = {participant.agent_id: participant for participant in await tx.threads.participants(thread.id)}
        await hold_agents(tx, principal, session, named, *map(agent_key, participants))
        return participants

    async def require_reader(self, tx: Tx, principal: Principal, thread: Thread) -> None:
        """Raise Forbidden unless the principal is the operator or a participant of the thread, open or closed."""
        if principal.is_operator:
            return
        parts = await tx.threads.participants(thread.id)
        if principal.agent is None or all(part.agent_id != principal.agent.id for part in parts):
            raise Forbidden(f"{principal.name!r} takes no part in thread {thread.name!r}; ask to be added")

    async def _require_open_part(self, tx: Tx, principal: Principal, thread: Thread) -> None:
        await self.require_reader(tx, principal, thread)
        if thread.status is ThreadStatus.CLOSED:
            raise Conflict(f"thread {thread.name!r} is closed already")

    async def _join(self, tx: Tx, session: Session, thread: Thread, agent: Agent, *, by: str) -> bool:
        joined = await tx.threads.join(thread.id, agent.id, self._clock.now())
        if not joined.added:
            return False
        await self._record_participant(tx, EventType.PARTICIPANT_ADDED, session, thread, agent, by=by)
        events = [WakeEvent.ADDED_TO_ANY_THREAD]
        events += [WakeEvent.ADDED_TO_THREAD_FIRST_TIME] if joined.first_ever else []
        events += [WakeEvent.FIRST_TIME_IN_THREAD] if joined.first_in_thread else []
        for event in events:
            await self._event_listener.on_event(tx, agent, event, by=by)
        return True

    async def _resolve_sender(self, tx: Tx, principal: Principal, session: Session, sender: str | None) -> Agent | None:
        own = principal.agent
        if own is not None:
            if sender not in (None, own.reference) and (sender != own.name or own.session_id != session.id):
                raise Forbidden(f"{own.reference!r} may not speak as {sender!r}; leave `from` out")
            return own
        if sender in (None, OPERATOR, "user"):
            return None
        return await find_agent_by_reference(tx, principal, session, sender)

    async def _resolve_mentions(
        self,
        tx: Tx,
        principal: Principal,
        session: Session,
        thread: Thread,
        mentions: Sequence[str],
        participants: Mapping[AgentId, Participant],
        speaker: Agent | None,
    ) -> list[Agent]:
        mentioned: dict[AgentId, Agent] = {}
        for reference in dict.fromkeys(mentions):
            agent = await find_agent_by_reference(tx, principal, session, reference)
            if speaker is not None and agent.id == speaker.id:
                raise InvalidRequest(f"{reference!r} may not mention itself")
            if agent.id not in participants:
                near = did_you_mean(reference, [part.name for part in participants.values()])
                raise InvalidRequest(f"{reference!r} takes no part in thread {thread.name!r}; add it first{near}")
            mentioned[agent.id] = agent
        return list(mentioned.values())

    async def _record_change(self, tx: Tx, kind: EventType, session: Session, thread: Thread, *, by: str) -> None:
        data = ThreadChange(thread=thread.id, thread_name=thread.name, by=by)
        await self._events.record(tx, kind, data, session=session.name)

    async def _record_participant(
        self, tx: Tx, kind: EventType, session: Session, thread: Thread, agent: Agent, *, by: str
    ) -> None:
        data = ParticipantChange(thread=thread.id, thread_name=thread.name, participant=agent.reference, by=by)
        await self._events.record(tx, kind, data, session=session.name, agent=agent.reference)
        await tx.sessions.touch(session.id, self._clock.now())


def require_content(content: str, max_characters: int) -> None:
    """Raise InvalidRequest unless this can be a message."""
    if not content.strip():
        raise InvalidRequest("a message needs content")
    if len(content) > max_characters:
        raise InvalidRequest(f"a message may have {max_characters} characters, this one has {len(content)}")


def _event_data(thread: Thread, message: Message) -> ThreadMessage:
    return ThreadMessage(
        thread=thread.id, thread_name=thread.name, message=message.id, sender=message.sender,
        mentions=list(message.mentions),
    )  # fmt: skip
