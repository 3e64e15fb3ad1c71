"""The sleep state of agents as this process knows it: one cell per agent, kept in step with the rows by signals.

A cell takes a state only with a newer generation, so signals may repeat and arrive in any order. Waiters queue in the
cell in order of arrival. Nothing here awaits between a check and its use, so a check still holds when it is used
(GATE-42).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from circadia.agents.database_contact import DatabaseContact
from circadia.errors import CircadiaError, StorageUnavailable, TargetGone
from circadia.ids import AgentId
from circadia.records.agent import Agent
from circadia.stores.base import Store, Tx
from circadia.stores.signals.base import CONNECTION, Signals
from circadia.stores.time_limit import limit_wait

ADMITTED_AT_ONCE: Final = 200
"""Waiters that check again in one turn of the event loop: some 5 ms of work, between which others get their turns."""


class PresenceCell:
    """One process's view of one agent's sleep."""

    __slots__ = (
        "actor",
        "agent_id",
        "announced",
        "asleep",
        "ended",
        "falling_asleep",
        "generation",
        "read_over",
        "since",
        "slept_seconds",
        "streams",
        "waiters",
    )

    def __init__(self, agent_id: AgentId) -> None:
        self.agent_id = agent_id
        self.asleep = False
        self.generation = -1
        self.falling_asleep: int | None = None
        """The generation that will be asleep, once the database has it."""
        self.announced = -1
        """The newest generation in which it sleeps, as another process says; the row may not be read yet."""
        self.read_over = -1
        """Number of the connection over which signals arrived when its row was last read."""
        self.actor = ""
        self.since: datetime | None = None
        """When it fell asleep or woke, as far as known."""
        self.slept_seconds = 0.0
        self.ended: str | None = None
        self.waiters: dict[object, asyncio.Future[None]] = {}
        self.streams: set[asyncio.Future[None]] = set()
        """Completed when the agent falls asleep, for policies that abort streams."""

    @property
    def is_closed(self) -> bool:
        """Whether calls must wait: the agent is asleep, about to be, or gone."""
        return (
            self.asleep or self.announced > self.generation or self.falling_asleep is not None or self.ended is not None
        )


class Presence:
    def __init__(self, store: Store, signals: Signals, contact: DatabaseContact | None = None) -> None:
        """`contact` is that of a process on a shared database."""
        self._store = store
        self._contact = contact if contact is not None and contact.is_shared else None
        self._cells: dict[AgentId, PresenceCell] = {}
        self._admitted: deque[asyncio.Future[None]] = deque()
        """Those that may check again."""
        self._is_admitting = False
        """Whether some have checked in this turn of the event loop."""
        self._moved_elsewhere: set[AgentId] = set()
        self._reading: asyncio.Task[None] | None = None
        self._stopped: TargetGone | None = None
        self._keep_if: Callable[[object], bool] = lambda _: False
        self._stop_listeners: list[Callable[[], None]] = []
        self._connection_number = 0
        """Counts how often signals of other processes began or stopped to arrive."""
        self._is_connected = False
        signals.listen(CONNECTION, self._on_connection)
        signals.listen("sleep", self._on_sleep_signal)
        signals.listen("agent_ended", self._on_end_signal)

    def synced_cell(self, agent_id: AgentId) -> PresenceCell | None:
        cell = self._cells.get(agent_id)
        return cell if cell is not None and cell.generation >= 0 else None

    async def fetch_cell(self, agent_id: AgentId) -> PresenceCell:
        """Return the agent's cell, loading it the first time. Raises TargetGone or StorageUnavailable."""
        cell = self.ensure_cell(agent_id)
        if cell.generation < 0:
            number = self._connection_number
            async with limit_wait(), self._store.begin_read() as tx:
                agent = await tx.agents.get(agent_id)
            if agent is None or agent.deleted_at is not None:
                self._cells.pop(agent_id, None)
                raise TargetGone("the agent was deleted")
            cell.read_over = max(cell.read_over, number)
            self._apply(cell, agent.asleep, agent.generation, agent.actor, agent.since, 0.0)
        return cell

    async def read_unless_followed(self, cell: PresenceCell) -> None:
        """Read the row of an agent that may sleep unheard: signals do not arrive, or have not since it was read.

        Where signals stop because the database does not answer, the agent counts as awake if it was then (CLU-17).

        Raises:
            StorageUnavailable: the row cannot be read, and a signal may be lost.
        """
        number, is_connected = self._connection_number, self._is_connected
        if self._contact is None or (is_connected and cell.read_over == number):
            return
        try:
            self._contact.require_database()
            async with limit_wait():
                await self._sync([cell])
        except StorageUnavailable:
            if is_connected or cell.read_over < number - 1 or not self._contact.carries_signals:
                raise

    def ensure_cell(self, agent_id: AgentId) -> PresenceCell:
        """Return the agent's cell without a look at the database; it follows signals from now on."""
        cell = self._cells.get(agent_id)
        if cell is None:
            cell = self._cells[agent_id] = PresenceCell(agent_id)
        return cell

    async def wait_until_awake(
        self, cell: PresenceCell, waiter: object, blocks: Callable[[], bool] | None = None
    ) -> None:
        """Wait until the agent is awake and `blocks`, which may raise, returns False; `recheck` calls it again.

        Raises TargetGone if the agent or its session is gone, or the server stops.
        """
        try:
            while (blocks is not None and blocks()) or cell.is_closed:
                if cell.ended is not None:
                    raise TargetGone(cell.ended)
                if self._stopped is not None and not self._keep_if(waiter):
                    raise self._stopped
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                cell.waiters[waiter] = future  # a waiter keeps its place when it must wait again
                await future
        finally:
            cell.waiters.pop(waiter, None)

    def recheck(self, cell: PresenceCell, waiter: object) -> None:
        """Let a waiter look again at what it waits for."""
        future = cell.waiters.get(waiter)
        if future is not None and not future.done():
            future.set_result(None)

    def fail(self, cell: PresenceCell, waiter: object, error: CircadiaError) -> bool:
        """End a wait with an error; return False if it has ended already."""
        future = cell.waiters.get(waiter)
        if future is None or future.done():
            return False
        future.set_exception(error)
        future.exception()  # mark as retrieved: a waiter that is being cancelled never will
        return True

    def close_for(self, tx: Tx, moved: Agent) -> None:
        """Close the gate of an agent that falls asleep in this transaction; `moved` is its new row."""
        cell = self._cells.get(moved.id)
        if cell is not None:
            cell.falling_asleep = moved.generation
            tx.after_commit(lambda: self._finish_shutting(cell, moved, failed=False))
            tx.after_rollback(lambda: self._finish_shutting(cell, moved, failed=True))

    def _finish_shutting(self, cell: PresenceCell, moved: Agent, *, failed: bool) -> None:
        if not failed:
            self._apply(cell, moved.asleep, moved.generation, moved.actor, moved.since, 0.0)
        if cell.falling_asleep == moved.generation:
            cell.falling_asleep = None
            if not cell.asleep:
                self._admit(cell)

    def _admit(self, cell: PresenceCell) -> None:
        """Let all waiters check again, in order of arrival, `ADMITTED_AT_ONCE` in a turn of the event loop."""
        self._admitted.extend(cell.waiters.values())
        if not self._is_admitting:
            self._admit_some()

    def _admit_some(self) -> None:
        self._is_admitting = bool(self._admitted)
        if self._is_admitting:
            asyncio.get_running_loop().call_soon(self._admit_some)
        for _ in range(min(ADMITTED_AT_ONCE, len(self._admitted))):
            waiter = self._admitted.popleft()
            if not waiter.done():
                waiter.set_result(None)

    @property
    def is_stopping(self) -> bool:
        return self._stopped is not None

    def add_stop_listener(self, act: Callable[[], None]) -> None:
        """Call `act` when the server stops, so that those who wait for something else check again."""
        self._stop_listeners.append(act)

    def stop(self, error: TargetGone, *, keep_if: Callable[[object], bool] = lambda _: False) -> None:
        """End all waits for a wake but those of waiters that `keep_if` names; a second call may end these too."""
        self._stopped, self._keep_if = error, keep_if
        for cell in self._cells.values():
            for waiter in [waiter for waiter in cell.waiters if not keep_if(waiter)]:
                self.fail(cell, waiter, error)
        for act in self._stop_listeners:
            act()

    async def reload_rows(self) -> None:
        """Read all rows again: a failover may have undone some. Raises StorageUnavailable; it must be tried again."""
        cells = list(self._cells.values())
        for cell in cells:
            cell.generation = cell.announced = -1
        await self._sync(cells)
        for cell in cells:
            if cell.generation < 0 and cell.ended is None:
                self._end_cell(cell, "the database has lost the agent")

    async def _sync_signalled(self) -> None:
        """Do the same for agents that other processes say to have moved; if that fails, the next sweep does it."""
        while self._moved_elsewhere:
            moved, self._moved_elsewhere = self._moved_elsewhere, set()
            with suppress(StorageUnavailable):
                await self._sync([self._cells[agent_id] for agent_id in moved if agent_id in self._cells])

    async def _sync(self, cells: Sequence[PresenceCell]) -> None:
        if cells:
            number = self._connection_number
            async with self._store.begin_read() as tx:
                moved_agents = await tx.agents.find_moved({cell.agent_id: cell.generation for cell in cells})
            for agent in moved_agents:
                self.apply_row(agent)
            for cell in cells:
                cell.read_over = max(cell.read_over, number)

    def apply_row(self, agent: Agent) -> None:
        """Update the cell from the agent's row, which another process may have written."""
        cell = self._cells.get(agent.id)
        if cell is None:
            return
        if agent.deleted_at is not None or not agent.enabled:
            self._end_cell(cell, f"agent {agent.reference!r} was {'deleted' if agent.deleted_at else 'disabled'}")
        else:
            slept = (agent.since - cell.since).total_seconds() if cell.asleep and cell.since is not None else 0.0
            self._apply(cell, agent.asleep, agent.generation, agent.actor, agent.since, max(0.0, slept))

    def _apply(
        self, cell: PresenceCell, asleep: bool, generation: int, actor: str, since: datetime, slept: float
    ) -> None:
        if generation <= cell.generation:
            return
        cell.asleep, cell.generation, cell.actor, cell.since = asleep, generation, actor, since
        if asleep:
            for stream in cell.streams:
                if not stream.done():
                    stream.set_result(None)
        else:
            cell.slept_seconds = slept
            self._admit(cell)

    def announce_sleep(self, agent_id: AgentId, generation: int) -> None:
        """Close the gate of an agent that another process has put to sleep, until its row says otherwise."""
        cell = self._cells.get(agent_id)
        if cell is not None and generation > cell.generation:
            cell.announced = max(cell.announced, generation)
            self._read_soon(agent_id)

    def _read_soon(self, *agent_ids: AgentId) -> None:
        self._moved_elsewhere.update(agent_ids)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._sync_signalled())

    def _on_connection(self, _: str, data: Mapping[str, object]) -> None:
        if data["is_connected"] is not self._is_connected:
            self._is_connected = not self._is_connected
            self._connection_number += 1
            if self._is_connected:  # signals may have been lost before
                self._read_soon(*self._cells)

    def _on_sleep_signal(self, key: str, data: Mapping[str, object]) -> None:
        cell = self._cells.get(AgentId(key))
        since = data.get("since")
        if cell is not None and not isinstance(since, datetime):  # of another process: only the row may open the gate
            if data.get("asleep"):
                self.announce_sleep(cell.agent_id, int(str(data["generation"])))
            else:
                self._read_soon(cell.agent_id)
        elif cell is not None:
            assert isinstance(since, datetime)
            asleep, generation, actor, slept = (
                data[name] for name in ("asleep", "generation", "actor", "lasted_seconds")
            )
            self._apply(cell, bool(asleep), int(str(generation)), str(actor), since, float(str(slept)))

    def _on_end_signal(self, key: str, data: Mapping[str, object]) -> None:
        cell = self._cells.get(AgentId(key))
        if cell is not None:
            self._end_cell(cell, str(data.get("reason", "the agent is gone")))

    def _end_cell(self, cell: PresenceCell, reason: str) -> None:
        self._cells.pop(cell.agent_id, None)
        cell.ended = reason
        for waiter in tuple(cell.waiters):
            self.fail(cell, waiter, TargetGone(reason))
