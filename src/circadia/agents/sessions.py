"""Sessions: create and close them, warn of dead ends (GATE-06), and report stalls (GATE-73)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from circadia.agents.directory import hold_agents
from circadia.agents.registry import AgentRegistry, NewAgent, require_name
from circadia.agents.threads import ThreadService
from circadia.clock import Clock
from circadia.errors import Conflict, InvalidRequest
from circadia.ids import IdSource, SessionId
from circadia.records.agent import Agent, SleepEvent, WakeEvent
from circadia.records.event import EventData, EventType, SessionClosing, SessionCreation, SessionStall
from circadia.records.principal import Principal
from circadia.records.session import DEFAULT_SESSION, Session, SessionStatus
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.stores.locks import agent_key, thread_key


@dataclass(frozen=True, kw_only=True, slots=True)
class NewThread:
    name: str
    participants: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CreatedSession:
    """A new session, with tokens that are shown only once."""

    session: Session
    agents: Sequence[tuple[Agent, str]] = field(default_factory=tuple[tuple[Agent, str], ...])
    warnings: Sequence[str] = ()


class SessionService:
    def __init__(
        self, clock: Clock, ids: IdSource, events: EventLog, registry: AgentRegistry, threads: ThreadService
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events
        self._registry = registry
        self._threads = threads

    async def create(
        self,
        tx: Tx,
        principal: Principal,
        name: str | None,
        *,
        agents: Sequence[NewAgent] = (),
        threads: Sequence[NewThread] = (),
        all_but: Sequence[str] | None = None,
        by: str | None = None,
    ) -> CreatedSession:
        """Create a session with its agents and threads.

        With `all_but`, every agent but the named starts asleep and wakes when it is added to a thread (the preset
        `sleepers: all-but [names]`).

        Raises:
            InvalidRequest: a bad name, or `all_but` names no agent of the graph. Conflict: the name is taken.
        """
        now, by = self._clock.now(), by or principal.name
        name = name or self._ids.new("ses").replace("_", "-")
        session = Session(
            id=SessionId(self._ids.new("ses")),
            name=require_name(name, "session"),
            status=SessionStatus.OPEN,
            created_at=now,
            touched_at=now,
        )
        await tx.sessions.add(session)
        await self._record(tx, EventType.SESSION_CREATED, session, SessionCreation(agents=len(agents), by=by))
        created = [await self._registry.add_unbound(tx, session, new, by=by) for new in _apply_preset(agents, all_but)]
        ids = [self._threads.new_id() for _ in threads]
        participants = {name for thread in threads for name in thread.participants}
        names = participants.union(agent.name for agent, _ in created)
        await hold_agents(tx, principal, session, names, *map(thread_key, ids))
        await self._registry.bind_banks(tx, [agent.policy for agent, _ in created])
        for thread, thread_id in zip(threads, ids, strict=True):
            await self._threads.create(tx, principal, session, thread.name, thread.participants, thread_id=thread_id)
        rows = [(await tx.agents.get(agent.id) or agent, token) for agent, token in created]
        warnings = find_dead_ends([agent for agent, _ in rows], participants)
        return CreatedSession(session=session, agents=rows, warnings=warnings)

    async def ensure_default(self, tx: Tx) -> Session:
        """Return the session `default`, creating it if it is missing."""
        session = await tx.sessions.get_by_name(DEFAULT_SESSION)
        if session is not None:
            return session
        return (await self.create(tx, Principal(), DEFAULT_SESSION, by="circadia")).session

    async def close(self, tx: Tx, session: Session, *, by: str) -> None:
        """Close the session with its threads and held calls, and delete its agents (GATE-49). Raises Conflict."""
        if session.name == DEFAULT_SESSION:
            raise Conflict("the session 'default' never ends; delete its agents one by one")
        present = await tx.sessions.lock(session.id)
        if present is None or present.status is SessionStatus.CLOSED:
            raise Conflict(f"session {session.name!r} is closed already")
        threads = await tx.threads.find_by_session(session.id, closed=False)
        await tx.hold(*(thread_key(thread.id) for thread in threads))
        threads = await tx.threads.find_by_session(session.id, closed=False)
        agent_ids = {agent.id for agent in await tx.agents.find_by_session(session.id)}
        for thread in threads:  # agents of other sessions take part too
            agent_ids |= {participant.agent_id for participant in await tx.threads.participants(thread.id)}
        await tx.hold(*map(agent_key, agent_ids))
        now = self._clock.now()
        await tx.sessions.save(replace(present, status=SessionStatus.CLOSED, closed_at=now))
        for thread in threads:
            await self._threads.end(tx, session, thread, by="the end of the session", summary=None)
        for agent in await tx.agents.find_by_session(session.id):
            await self._registry.delete(tx, agent, by=by, reason="ended with its session")
        await self._record(tx, EventType.SESSION_CLOSED, session, SessionClosing(by=by))

    async def report_stalls(self, tx: Tx, stall_seconds: float) -> list[str]:
        """Record each session that stalled: all agents asleep and no activity for `stall_seconds`; return the names."""
        before = self._clock.now() - timedelta(seconds=stall_seconds)
        stalled = await tx.sessions.find_silent_since(before)
        new = [session for session in stalled if await tx.sessions.mark_stalled(session.id)]
        for session in new:
            await self._record(tx, EventType.SESSION_STALLED, session, SessionStall(since=session.touched_at))
        return [session.name for session in new]

    async def _record(self, tx: Tx, kind: EventType, session: Session, data: EventData) -> None:
        await self._events.record(tx, kind, data, session=session.name)


def _apply_preset(agents: Sequence[NewAgent], all_but: Sequence[str] | None) -> list[NewAgent]:
    if all_but is None:
        return list(agents)
    unknown = sorted(set(all_but) - {agent.name for agent in agents})
    if unknown:
        raise InvalidRequest(f"sleepers: all-but names {unknown}, who are not among the session's agents")
    asleep = {"sleep_events": frozenset(SleepEvent), "wake_events": frozenset({WakeEvent.ADDED_TO_ANY_THREAD})}
    return [
        agent
        if agent.name in all_but
        else replace(
            agent,
            sleep_events=agent.sleep_events | asleep["sleep_events"],
            wake_events=agent.wake_events | asleep["wake_events"],
        )
        for agent in agents
    ]


def find_dead_ends(agents: Sequence[Agent], in_threads: set[str]) -> list[str]:
    """Return a warning for each way in which agents can fall asleep and never wake (GATE-06)."""
    warnings: list[str] = []
    for agent in agents:
        if agent.sleep_events and not agent.wake_events:
            warnings.append(
                f"{agent.name!r} can fall asleep but has no wake event; give it `wake_events`, or wake it by hand"
            )
        elif (
            agent.sleep_events
            and agent.wake_events == frozenset({WakeEvent.MENTIONED})
            and agent.name not in in_threads
        ):
            warnings.append(
                f"{agent.name!r} wakes only when mentioned but takes part in no thread; add it to one, or add "
                f"`{WakeEvent.ADDED_TO_ANY_THREAD.value}` to its wake events"
            )
    if agents and all(agent.asleep for agent in agents):
        warnings.append("all agents start asleep; somebody outside must act first")
    return warnings
