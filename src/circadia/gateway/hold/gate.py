"""The gate: whether a call passes or is held, who is held now, and how many may be."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Self

from circadia.agents.presence import Presence, PresenceCell
from circadia.clock import Clock
from circadia.errors import CircadiaError, LimitReached
from circadia.gateway.accounting.journal import Journal
from circadia.gateway.hold.bodies import BodyRef, BodySpool, SpooledBody
from circadia.gateway.hold.keep_alive import Alarm, Ticker
from circadia.gateway.hold.pace import Pace, PacePermit
from circadia.gateway.hold.reply import Phase, Reply
from circadia.ids import AgentId, HoldId, IdSource
from circadia.records.agent import Agent
from circadia.records.event import EventType
from circadia.settings import LimitsSettings
from circadia.stores.base import Tx


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldView:
    """One held call, as people see it."""

    id: HoldId
    """Key."""
    agent_id: AgentId
    """Whose call it is."""
    agent: str
    """The agent's name."""
    session: str
    """Its session's name."""
    door: str
    """`model` or `mcp`."""
    what: str
    """What is called: `POST /v1/chat/completions`, `tools/call echo`."""
    since: datetime
    """When it came."""
    waited_seconds: float
    """For how long it is held."""
    phase: str
    """`silent`, or `opened`: a 200 and signs of life went out."""
    bytes: int
    """Size of its body."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """How a call came through the gate."""

    held_seconds: float = 0.0
    """For how long it was held; 0 if it was not."""
    slept_seconds: float = 0.0
    """How long the agent had slept when it was woken."""
    woken_by: str = ""
    """Who woke it."""
    generation: int = 0
    """Generation of the wake that admitted it."""

    @property
    def was_held(self) -> bool:
        """Whether it was held."""
        return self.held_seconds > 0.0


NOT_HELD = Admission()
ORDER_SECONDS: Final = 2.0
"""How long the first call of a line may take to get ready before those behind it pass."""


class AsleepAgain(Exception):
    """The agent fell asleep while its call was made ready. Nothing was sent; `admit` holds the call again."""


class GateCall:
    """One call at the gate: `admit` it, make it ready, `clear_to_send` it directly before it is sent.

    It is a context manager, whose end takes back whatever is left of the call at the gate.
    """

    __slots__ = (
        "_body", "_cell", "_gate", "_grace_seconds", "_most", "_pace", "_passage", "agent", "began", "door", "id",
        "listed", "parked", "reply", "since", "turn", "what",
    )  # fmt: skip

    def __init__(
        self,
        gate: "Gate",
        agent: Agent,
        reply: Reply,
        body: BodyRef,
        *,
        door: str,
        what: str,
        grace_seconds: float,
        most: tuple[float, CircadiaError] | None = None,
    ) -> None:
        """A held caller is silent for `grace_seconds` and then gets signs of life.

        `most` is the longest hold in seconds, and the error that ends it.
        """
        self.agent = agent
        self.reply = reply
        self.door = door
        self.what = what
        self.listed = False
        """Whether it is held: from its first hold until it is sent."""
        self.turn: asyncio.Future[None] | None = None
        """Done when those before it have gone."""
        self._gate = gate
        self._body = body
        self._grace_seconds = grace_seconds
        self._most = most
        self._cell: PresenceCell | None = None
        self._pace: PacePermit | None = None
        self._passage = NOT_HELD

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self.listed:
            reason = error.code if isinstance(error, CircadiaError) else "caller gone"
            self._gate.unlist(self, EventType.DROPPED, reason=reason)
        self._gate.leave_line(self)
        self._release_pace_slot()

    async def admit(self) -> tuple[bytes, Admission]:
        """Return the body and how the call came here: at once if its agent is awake, else when it wakes.

        Raises:
            TargetGone: the agent or its session is gone, or the server is stopping. LimitReached: too much is held.
            StorageUnavailable: database or disk. Whatever `most` says.
        """
        presence = self._gate.presence
        self._cell = cell = presence.synced_cell(self.agent.id) or await presence.fetch_cell(self.agent.id)
        if cell.is_closed:
            return await self._hold(cell), self._passage
        if self._gate.has_line(self.agent.id):
            self._gate.join(self)
        body = self._body.take()
        self._body = BodyRef(body)
        return body, self._passage

    async def clear_to_send(self, *, keeps_place: bool = False) -> None:
        """Return when those before it have gone and its agent is awake; send at once, without any further wait.

        Where it `keeps_place`, those behind wait until it ends.

        Raises:
            AsleepAgain: its agent is asleep; `admit` it anew. It has kept its place.
        """
        self._release_pace_slot()
        await self._gate.wait_for_turn(self)
        assert self._cell is not None
        if self._cell.is_closed:
            raise AsleepAgain
        if self.listed:
            self._gate.unlist(self, EventType.ADMITTED, generation=self._cell.generation)
        if not keeps_place:
            self._body = BodyRef(b"")
            self._gate.leave_line(self)

    async def _hold(self, cell: PresenceCell) -> bytes:
        gate = self._gate
        if not self.listed:
            gate.require_room(self.agent)
        gate.join(self)
        parked = await gate.parking.spool(self._body)
        alarm = None if self._most is None else Alarm(partial(gate.presence.fail, cell, self, self._most[1]))
        try:
            gate.enlist(self, parked)
            gate.ticker.add(self.reply, self.began + self._grace_seconds)
            if self._most is not None and alarm is not None:
                gate.ticker.add(alarm, self.began + self._most[0])
            await gate.presence.wait_until_awake(cell, self)
            self._passage = Admission(
                held_seconds=gate.waited_seconds(self) or 1e-9,
                slept_seconds=cell.slept_seconds,
                woken_by=cell.actor,
                generation=cell.generation,
            )
            body = await gate.parking.take(parked)
        finally:
            gate.parking.drop(parked)
            if alarm is not None:
                gate.ticker.drop(alarm)
        self._body = BodyRef(body)
        self._pace = await gate.pace.slot()
        return body

    def _release_pace_slot(self) -> None:
        if self._pace is not None:
            self._pace.release()
            self._pace = None


class Gate:
    """Decides per agent, over all its connections and doors (GATE-44).

    A call is looked at twice: when it comes, and directly before it is sent, in the same step of the event loop. What
    is sent therefore belongs to an agent that is awake (GATE-42), whatever happened while it was made ready. Held calls
    of one agent are sent in the order in which they came.
    """

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        presence: Presence,
        journal: Journal,
        ticker: Ticker,
        parking: BodySpool,
        limits: LimitsSettings,
    ) -> None:
        self.presence = presence
        self.ticker = ticker
        self.parking = parking
        self.pace = Pace()
        self._clock = clock
        self._ids = ids
        self._journal = journal
        self._limits = limits
        self._holds: dict[GateCall, None] = {}
        self._per_agent: dict[AgentId, int] = {}
        self._lines: dict[AgentId, OrderedDict[GateCall, None]] = {}
        self.admitted = 0
        self.dropped = 0

    async def shut(self, tx: Tx, moved: Agent) -> None:
        """Let no call pass of an agent that falls asleep in this transaction, and write who was admitted before it."""
        self.presence.shut(tx, moved)
        await self._journal.write_agent_events(tx, moved)

    def waited_seconds(self, call: GateCall) -> float:
        """Return for how many seconds a held call has waited."""
        return self._clock.monotonic() - call.began

    def has_line(self, agent_id: AgentId) -> bool:
        """Return whether calls of the agent are held, or were and are not sent yet."""
        return agent_id in self._lines

    def join(self, call: GateCall) -> None:
        """Put a call behind those of its agent; one that is among them already keeps its place."""
        self._lines.setdefault(call.agent.id, OrderedDict()).setdefault(call)

    def leave_line(self, call: GateCall) -> None:
        """Let the next one go."""
        line = self._lines.get(call.agent.id)
        if line is None or call not in line:
            return
        del line[call]
        if not line:
            del self._lines[call.agent.id]
            return
        turn = next(iter(line)).turn
        if turn is not None and not turn.done():
            turn.set_result(None)

    async def wait_for_turn(self, call: GateCall) -> None:
        """Return when the calls before it have left the line, or when nothing has moved there for `ORDER_SECONDS`."""
        line = self._lines.get(call.agent.id)
        if line is None or call not in line:
            return
        moved = True
        while moved and (first := next(iter(line))) is not call:
            call.turn = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(ORDER_SECONDS):
                    await call.turn
            except TimeoutError:
                moved = next(iter(line)) is not first
            finally:
                call.turn = None

    def keep_alive(self, reply: Reply, seconds: float) -> None:
        """Give an admitted caller signs of life again, from `seconds` from now if it was not told anything yet."""
        if reply.phase is Phase.SILENT:
            self.ticker.add(reply, self._clock.monotonic() + seconds)

    def stop_keep_alive(self, reply: Reply) -> None:
        """Give the caller no more signs of life: its answer begins."""
        self.ticker.drop(reply)

    def list_holds(
        self, *, session: str | None = None, agent: str | None = None, limit: int = 1000
    ) -> tuple[Sequence[HoldView], int]:
        """Return what is held now, longest first and at most `limit`, and how much there is in all."""
        now = self._clock.monotonic()
        found = [
            hold for hold in self._holds if session in (None, hold.agent.session) and agent in (None, hold.agent.name)
        ]
        views = [
            HoldView(
                id=hold.id,
                agent_id=hold.agent.id,
                agent=hold.agent.name,
                session=hold.agent.session,
                door=hold.door,
                what=hold.what,
                since=hold.since,
                waited_seconds=round(now - hold.began, 3),
                phase="silent" if hold.reply.phase is Phase.SILENT else "opened",
                bytes=hold.parked.size,
            )
            for hold in found[:limit]
        ]
        return views, len(found)

    def count_held(self, agent_id: AgentId) -> int:
        """Return how many calls of the agent are held now."""
        return self._per_agent.get(agent_id, 0)

    @property
    def total_held(self) -> int:
        """Return how many calls are held now."""
        return len(self._holds)

    def require_room(self, agent: Agent) -> None:
        """Raise LimitReached if nothing more can be held, in all or of this agent."""
        if len(self._holds) >= self._limits.max_holds:
            raise LimitReached(f"{self._limits.max_holds} calls are held already; try later", retry_after_seconds=30)
        if self.count_held(agent.id) >= self._limits.max_holds_per_agent:
            raise LimitReached(
                f"{agent.reference!r} has {self._limits.max_holds_per_agent} held calls already; wake it, or wait",
                retry_after_seconds=30,
            )

    def enlist(self, call: GateCall, parked: SpooledBody) -> None:
        """Note that the call is held; a call that is held again stays what it was."""
        call.parked = parked
        if call.listed:
            return
        self.require_room(call.agent)  # again: others may have come while the body went to the disk
        call.id, call.since, call.began = HoldId(self._ids.new("hold")), self._clock.now(), self._clock.monotonic()
        call.listed = True
        self._holds[call] = None
        self._per_agent[call.agent.id] = self.count_held(call.agent.id) + 1
        self._journal.event(
            EventType.HELD, call.agent.session, call.agent.name, hold=call.id, door=call.door, what=call.what
        )

    def unlist(self, call: GateCall, kind: EventType, **data: object) -> None:
        """Note that the call is held no more: it is sent now, or dropped."""
        call.listed = False
        del self._holds[call]
        left = self.count_held(call.agent.id) - 1
        if left:
            self._per_agent[call.agent.id] = left
        else:
            del self._per_agent[call.agent.id]
        if kind is EventType.ADMITTED:
            self.admitted += 1
        else:
            self.dropped += 1
        self._journal.event(
            kind,
            call.agent.session,
            call.agent.name,
            hold=call.id,
            door=call.door,
            what=call.what,
            waited_seconds=round(self.waited_seconds(call), 3),
            **data,
        )
