"""Follows changes to agents by other servers on the same database, once a second (GATE-42).

Each change of an agent commits with an event. A sweep reads the rows of the agents that new events name, and no others;
events that nobody has numbered yet count too, so it waits for no other process.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Final

from circadia.agents.database_contact import DatabaseContact
from circadia.agents.identity import Identity
from circadia.agents.presence import Presence
from circadia.clock import Clock
from circadia.jobs.loops import DueWatch, run_guarded
from circadia.records.due_work import DueWork
from circadia.records.event import Event, EventType
from circadia.stores.base import Store, Tx

_OF_AGENTS: Final = (
    EventType.AGENT_CHANGED, EventType.AGENT_DELETED, EventType.TOKEN_ROTATED, EventType.COORDINATION,
    EventType.PULSE, EventType.SLEEP_START, EventType.SLEEP_STOP,
)  # fmt: skip
"""Recorded whenever a token, a policy or a gate changes; a pulse's token dies with it."""
_OF_PEOPLE: Final = (EventType.ACCESS_GRANTED, EventType.ACCESS_REVOKED)
_FOLLOWED: Final = (*_OF_AGENTS, *_OF_PEOPLE, EventType.HOOK)
_AT_ONCE: Final = 1_000


class AgentChangeFollower:
    """Reads new events and the rows of the agents that they name.

    Events of this process are among them and change nothing: a gate takes only a newer generation, and a forgotten
    principal is read again.
    """

    def __init__(
        self, clock: Clock, store: Store, identity: Identity, presence: Presence, due: DueWatch,
        contact: DatabaseContact, forgets: Sequence[Callable[[], None]] = (),
        forget_hooks: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """`forgets` drop what other parts of the process know of the database, after a failover."""
        self._clock = clock
        self._store = store
        self._contact = contact
        self._identity = identity
        self._presence = presence
        self._read: int | None = None
        """Number of the last event read; None before the first sweep."""
        self._forgets = forgets
        self._forget_hooks = forget_hooks
        self._server_start: datetime | None = None
        """When the database server started whose rows are cached."""
        self._due = due
        self._last_event = -1

    async def run(self) -> None:
        """Sweep until cancelled. It has a loop of its own: nothing else may delay what other processes revoke."""
        while True:
            await self._due.wait_for_tick()
            await run_guarded("following the changes of agents", self.sweep)

    async def sweep(self) -> None:
        """Apply all that was committed since the last sweep; the first sweep only sets the start."""
        began = self._clock.monotonic()
        await self._apply_changes()
        self._contact.note(began)

    async def _apply_changes(self) -> None:
        due = await self._due.look()
        if self._read is None or due.server_start != self._server_start:
            await self._start_anew(due)
            return
        if due.last_event == self._last_event and not due.events:  # each change of an agent writes an event
            return
        async with self._store.begin_read() as tx:
            if due.events:
                await self._apply_events(tx, await tx.events.find_unnumbered(types=_FOLLOWED))
            more = True
            while more:
                events = await tx.events.find_after(self._read, limit=_AT_ONCE, types=_FOLLOWED)
                await self._apply_events(tx, events)
                if events:
                    self._read = events[-1].number
                more = len(events) == _AT_ONCE
        self._last_event = due.last_event

    async def _apply_events(self, tx: Tx, events: Collection[Event]) -> None:
        if any(event.type in _OF_PEOPLE for event in events):
            self._identity.forget_all()
        if any(event.type is EventType.HOOK for event in events):
            self._forget_hooks()
        named = {(event.session or "", event.agent or "") for event in events if event.type in _OF_AGENTS}
        for session, name in named:
            for agent in await tx.agents.find_by_past_name(session, name):
                self._identity.forget(agent.id)
                self._presence.apply_row(agent)

    async def _start_anew(self, due: DueWork) -> None:
        """Drop all that is cached, at the start and after a failover, which may undo what was committed (CLU-21)."""
        async with self._store.begin_read() as tx:
            last_number = await tx.events.last_number()
        for forget in (self._identity.forget_all, *self._forgets):
            forget()
        await self._presence.reload_rows()
        self._read, self._last_event, self._server_start = last_number, -1, due.server_start
