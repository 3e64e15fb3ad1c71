"""The gate: decides whether a call passes or is held, and lists held calls."""

import asyncio
import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count
from operator import attrgetter
from typing import Final, Self

from circadia.agents.presence import Presence, PresenceCell
from circadia.clock import Clock
from circadia.errors import CallDropped, CircadiaError, NotFound, TargetGone
from circadia.gateway.accounting.journal import Journal
from circadia.gateway.hold.bodies import BodySpool, SpooledBody
from circadia.gateway.hold.in_flight import WOKEN_WAIT_SECONDS, CallBody
from circadia.gateway.hold.keep_alive import Alarm, Ticker
from circadia.gateway.hold.lines import Lines, Marks
from circadia.gateway.hold.pace import Pace, PacePermit
from circadia.gateway.hold.places import HoldPlaces
from circadia.gateway.hold.reply import Phase, Reply
from circadia.ids import AgentId, HoldId, IdSource
from circadia.records.agent import Agent
from circadia.records.coordination import RESIDENT
from circadia.records.event import CallDrop, CallHold, CallRelease, EventType, HeldCallData
from circadia.stores.base import Tx

_logger = logging.getLogger(__name__)
_OWN_PROGRAM: Final = (
    "a program calls with the own token of agent %r, started by launcher %r: outside of its pulses it is held; to run "
    "it by yourself, set `launcher: resident`"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldView:
    """A held call in reports."""

    id: HoldId
    agent_id: AgentId
    agent: str
    session: str
    door: str
    what: str
    """The operation: `POST /v1/chat/completions`, `tools/call echo`."""
    since: datetime
    waited_seconds: float
    phase: str
    """`silent`, or `opened` once a 200 and keep-alives were sent."""
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    held_seconds: float = 0.0
    """0 if it was not held."""
    slept_seconds: float = 0.0
    """How long the agent had slept before the wake."""
    woken_by: str = ""
    generation: int = 0

    @property
    def was_held(self) -> bool:
        return self.held_seconds > 0.0


NOT_HELD = Admission()


class AsleepAgain(Exception):
    """The agent fell asleep while its call was prepared. Nothing was sent; `admit` holds the call again."""


class GateCall:
    """A call at the gate: `admit` it, prepare it, `wait_for_turn`, take what sends it, `wait_to_send`, `clear_to_send`.

    It must be sent in the step that has cleared it. Exiting removes it.
    """

    __slots__ = (
        "_body", "_cell", "_gate", "_grace_seconds", "_has_place", "_limit", "_pace", "_polls", "agent", "arrived",
        "began", "continues", "door", "dropped_by", "id", "in_pulse", "is_listed", "line", "number", "reply",
        "retry_key", "since", "spooled", "turn", "what",
    )  # fmt: skip

    def __init__(
        self, gate: "Gate", agent: Agent, reply: Reply, body: CallBody, *, door: str, to: str, what: str,
        grace_seconds: float, limit: tuple[float, CircadiaError] | None = None, polls: bool = False,
        retry_key: Hashable = None, in_pulse: bool = False,
    ) -> None:  # fmt: skip
        """`to` names the provider or MCP server, which gets the agent's calls in order.

        A held caller gets keep-alives after `grace_seconds`; `limit` is the longest hold and its error.
        `polls` tells that the caller asks again after an empty answer. `retry_key` is equal for a call and its retries
        in the same line; None if they cannot be known. `in_pulse` tells that the caller's token is that of a pulse.
        """
        self.agent = agent
        self.reply = reply
        self.door = door
        self.what = what
        self.in_pulse = in_pulse
        self.line = agent.id, f"{door} {to}"
        self.retry_key = retry_key
        self.number = next(gate.numbers)
        """Its place among all calls, in order of arrival."""
        self.arrived = self.began = gate.monotonic()
        """Monotonic time at which its caller came, and at which its first caller came if it is a retry."""
        self.id = HoldId("")
        """Empty before its first hold."""
        self.continues: HoldId | None = None
        """The hold of the earlier caller."""
        self.is_listed = False
        """Whether it is held: from a hold until it is sent."""
        self.turn: asyncio.Future[None] | None = None
        """Done when the calls before it have left its line."""
        self.dropped_by: str | None = None
        """The operator who ended it."""
        self._gate = gate
        self._body = body
        self._grace_seconds = grace_seconds
        self._limit = limit
        self._polls = polls
        self._has_place = False
        self._cell: PresenceCell | None = None
        self._pace: PacePermit | None = None

    @property
    def is_bound(self) -> bool:
        """Whether only this gateway can still answer the caller, who has seen a 200."""
        return self.reply.phase is not Phase.SILENT and not self._polls

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self.is_listed:
            self._gate.unlist_dropped(self, error.code if isinstance(error, CircadiaError) else "caller gone")
            if isinstance(error, asyncio.CancelledError):
                self._gate.marks.leave(self, self._gate.monotonic())
        self._gate.waiting.leave(self)
        self._gate.leaving.leave(self)
        self._release_place()
        self._release_pace_slot()

    async def admit(self) -> Admission:
        """Return the admission: at once if the agent is awake, else when it wakes.

        Raises:
            TargetGone: the agent or its session is gone, or the server is stopping.
            LimitReached: too many calls or bytes are held.
            StorageUnavailable: database or disk failed.
            CallDropped: an operator has ended it.
            CircadiaError: the error in `limit`.
        """
        presence = self._gate.presence
        if self._cell is None:
            self._gate.marks.take(self)
        self._cell = cell = presence.synced_cell(self.agent.id) or await presence.fetch_cell(self.agent.id)
        if cell.is_closed:
            await self._hold(cell)
        elif self._gate.waiting.has(self) or self._gate.leaving.has(self):
            self._gate.waiting.join(self)
        if not self.id and self.continues is None:
            return NOT_HELD
        return Admission(
            held_seconds=self._gate.waited_seconds(self) or 1e-9,
            slept_seconds=cell.slept_seconds,
            woken_by=cell.actor,
            generation=cell.generation,
        )

    async def wait_for_turn(self) -> None:
        """Wait until the calls before it have had their turn."""
        self._release_pace_slot()
        gate = self._gate
        if gate.waiting.has(self):
            await gate.waiting.wait(self)
            gate.leaving.join(self)
            gate.waiting.leave(self)

    async def wait_to_send(self) -> None:
        """Wait until the calls before it are sent, and the sleep state of its agent is known.

        Raises:
            StorageUnavailable: it is not known.
        """
        assert self._cell is not None
        await self._gate.leaving.wait(self)
        await self._gate.presence.read_unless_followed(self._cell)

    def clear_to_send(self, *, keeps_place: bool = False) -> None:
        """Check that its agent is awake; the caller must send at once.

        With `keeps_place`, later calls wait until it leaves the line, or ends.

        Raises:
            AsleepAgain: the agent is asleep; `admit` the call again. It keeps its place.
        """
        assert self._cell is not None
        if self._cell.is_closed:
            self.leave_line()
            raise AsleepAgain
        if self.is_listed:
            self._gate.unlist_admitted(self, self._cell.generation)
            self._release_place()
        if not keeps_place:
            self.leave_line()

    def leave_line(self) -> None:
        """Let the calls behind it go."""
        self._gate.leaving.leave(self)

    def end_wait(self, error: CircadiaError) -> bool:
        """End its wait for a wake; return False if it does not wait any more."""
        return self._cell is not None and self._gate.presence.fail(self._cell, self, error)

    async def _hold(self, cell: PresenceCell) -> None:
        gate = self._gate
        gate.waiting.join(self)
        if not self._has_place:
            await gate.places.take(self.agent)
            self._has_place = True
        spooled = await gate.parking.spool(self._body)
        alarm = None if self._limit is None else Alarm(partial(gate.presence.fail, cell, self, self._limit[1]))
        try:
            gate.enlist(self, spooled)
            gate.ticker.add(self.reply, self.arrived + self._grace_seconds)
            if self._limit is not None and alarm is not None:
                gate.ticker.add(alarm, self.began + self._limit[0])
            await gate.presence.wait_until_awake(cell, self)
            await self._body.take_room(spooled.size, WOKEN_WAIT_SECONDS)
            self._body.content = await gate.parking.take(spooled)
        finally:
            gate.parking.drop(spooled)
            if alarm is not None:
                gate.ticker.drop(alarm)
        self._pace = await gate.pace.slot()

    def _release_place(self) -> None:
        if self._has_place:
            self._has_place = False
            self._gate.places.give_back(self.agent.id)

    def _release_pace_slot(self) -> None:
        if self._pace is not None:
            self._pace.release()
            self._pace = None


class Gate:
    """Admits or holds calls per agent, across all connections and doors (GATE-44).

    A call is checked on arrival and again directly before it is sent, in the same step of the event loop. So a sent
    call always belongs to an awake agent (GATE-42), whatever happened during its preparation. Held calls of one agent
    are sent in order of arrival.
    """

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        presence: Presence,
        journal: Journal,
        ticker: Ticker,
        body_spool: BodySpool,
        places: HoldPlaces,
    ) -> None:
        self.presence = presence
        self.ticker = ticker
        self.parking = body_spool
        self.pace = Pace()
        self.monotonic = clock.monotonic
        self._clock = clock
        self._ids = ids
        self._journal = journal
        self.places = places
        self._holds: dict[GateCall, None] = {}
        self._per_agent: dict[AgentId, int] = {}
        self.waiting = Lines()
        """Calls that are held, or prepared."""
        self.leaving = Lines()
        """Calls that had their turn, and take a connection."""
        self.marks = Marks()
        self.numbers = count()
        self.admitted = 0
        self.dropped = 0
        self._warned: set[AgentId] = set()

    async def shut(self, tx: Tx, agent: Agent) -> None:
        """Block the calls of an agent that falls asleep in this transaction; record earlier admissions first."""
        self.presence.shut(tx, agent)
        await self._journal.write_agent_events(tx, agent)

    def hand_over(self, error: TargetGone) -> None:
        """End all waits that another gateway can take over; held calls that are bound to this one wait on."""
        self.presence.stop(error, may_stay=lambda waiter: isinstance(waiter, GateCall) and waiter.is_bound)

    def waited_seconds(self, call: GateCall) -> float:
        return self.monotonic() - call.began

    def keep_alive(self, call: GateCall, seconds: float) -> None:
        """Resume keep-alives for an admitted caller, `seconds` after it came, if it is still silent."""
        if call.reply.phase is Phase.SILENT:
            self.ticker.add(call.reply, max(self.monotonic(), call.arrived + seconds))

    def stop_keep_alive(self, reply: Reply) -> None:
        self.ticker.drop(reply)

    def list_holds(
        self, *, session: str | None = None, agent: str | None = None, limit: int = 1000
    ) -> tuple[Sequence[HoldView], int]:
        """Return at most `limit` held calls, longest wait first, and the total number."""
        now = self.monotonic()
        holds = [
            hold for hold in self._holds if session in (None, hold.agent.session) and agent in (None, hold.agent.name)
        ]
        holds.sort(key=attrgetter("began"))  # a retry is older than it is here
        return [_view(hold, now) for hold in holds[:limit]], len(holds)

    def drop(self, hold: HoldId, *, by: str) -> HoldView:
        """End a held call with an error that SDKs do not retry; its agent stays asleep.

        Raises:
            NotFound: it waits for no wake here.
        """
        error = CallDropped(f"{by} has dropped this call while its agent was asleep; nothing was sent")
        for call in self._holds:
            if call.id == hold and call.end_wait(error):
                call.dropped_by = by
                return _view(call, self.monotonic())
        raise NotFound(
            f"this server holds no call {hold!r}: it has gone on or ended, or another server holds it; "
            "list the held calls again, and ask the server that holds it"
        )

    def count_held(self, agent_id: AgentId) -> int:
        return self._per_agent.get(agent_id, 0)

    @property
    def total_held(self) -> int:
        return len(self._holds)

    def enlist(self, call: GateCall, spooled: SpooledBody) -> None:
        """Record the call as held; a call that is held again keeps its id and time."""
        call.spooled = spooled
        if call.is_listed:
            return
        if not call.id:
            call.id = HoldId(self._ids.new("hold"))
            if call.continues is None:
                call.since = self._clock.now()
        call.is_listed = True
        self._holds[call] = None
        self._per_agent[call.agent.id] = self.count_held(call.agent.id) + 1
        held = CallHold(hold=call.id, door=call.door, what=call.what)
        if call.continues is not None:
            held = held.model_copy(update={"continues": call.continues})
        self._record(call, EventType.HELD, held)
        if not call.in_pulse and call.agent.coordination.launcher != RESIDENT:
            self._warn_of_program(call.agent)

    def _warn_of_program(self, agent: Agent) -> None:
        """Log once how to run a program that calls as a launched agent, outside of a pulse (WAKE-87)."""
        if agent.id not in self._warned:
            self._warned.add(agent.id)
            _logger.warning(_OWN_PROGRAM, agent.reference, agent.coordination.launcher)

    def unlist_admitted(self, call: GateCall, generation: int) -> None:
        self._unlist(call)
        self.admitted += 1
        waited = round(self.waited_seconds(call), 3)
        data = CallRelease(
            hold=call.id, door=call.door, what=call.what, waited_seconds=waited, generation=generation
        )  # fmt: skip
        self._record(call, EventType.ADMITTED, data)

    def unlist_dropped(self, call: GateCall, reason: str) -> None:
        self._unlist(call)
        self.dropped += 1
        waited = round(self.waited_seconds(call), 3)
        data = CallDrop(hold=call.id, door=call.door, what=call.what, waited_seconds=waited, reason=reason)
        if call.dropped_by is not None:
            data = data.model_copy(update={"by": call.dropped_by})
        self._record(call, EventType.DROPPED, data)

    def _record(self, call: GateCall, kind: EventType, data: HeldCallData) -> None:
        self._journal.event(kind, data, session=call.agent.session, agent=call.agent.name)

    def _unlist(self, call: GateCall) -> None:
        call.is_listed = False
        del self._holds[call]
        left = self.count_held(call.agent.id) - 1
        if left:
            self._per_agent[call.agent.id] = left
        else:
            del self._per_agent[call.agent.id]


def _view(call: GateCall, now: float) -> HoldView:
    return HoldView(
        id=call.id,
        agent_id=call.agent.id,
        agent=call.agent.name,
        session=call.agent.session,
        door=call.door,
        what=call.what,
        since=call.since,
        waited_seconds=round(now - call.began, 3),
        phase="silent" if call.reply.phase is Phase.SILENT else "opened",
        bytes=call.spooled.size,
    )
