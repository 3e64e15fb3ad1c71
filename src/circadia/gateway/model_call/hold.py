"""The gate: holds the calls of sleeping agents, and decides directly before the write whether a call is sent.

`Gate.pass_call` is the way of a call of either door: `admit` it, let its door prepare it, `wait_for_turn`, take a
connection, `wait_to_send`, `clear_to_send`. If the agent has fallen asleep again by then, the call is held again.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from operator import attrgetter
from typing import Final, NamedTuple

from circadia.agents.presence import Presence, PresenceCell
from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import (
    ApprovalRefused,
    AwaitingApproval,
    CallDropped,
    CircadiaError,
    NotFound,
    StillAsleep,
    TargetGone,
)
from circadia.gateway.accounting.journal import Journal
from circadia.gateway.dialects.base import ModelRequest
from circadia.gateway.hold.approvals import ApprovalDesk, CallApproval
from circadia.gateway.hold.bodies import WOKEN_WAIT_SECONDS, BodySpool, CallBody, SpooledBody
from circadia.gateway.hold.places import HoldPlaces, Pace, PacePermit
from circadia.gateway.hold.reply import Alarm, Phase, Reply, Ticker
from circadia.ids import AgentId, ApprovalId, CallId, HoldId, IdSource, hold_of_call
from circadia.records.agent import Agent
from circadia.records.coordination import RESIDENT
from circadia.records.event import CallDrop, CallHold, CallRelease, EventType, HeldCallData
from circadia.records.span import Span, SpanKind
from circadia.stores.base import Tx

_logger = logging.getLogger(__name__)
_OWN_PROGRAM: Final = (
    "a program calls with the own token of agent %r, started by launcher %r: outside of its pulses it is held; to run "
    "it by yourself, set `launcher: resident`"
)
ORDER_SECONDS: Final = 2.0
"""Maximum time that nothing may move in a line before the calls in it pass the first one."""
RETRY_SECONDS: Final = 60.0
"""How long a held call whose caller has gone keeps its place for a retry."""
_MARKS_KEPT: Final = 10_000
"""Maximum number of different calls with a mark."""
_NO_HOLD: Final = HoldId("")


class AsleepAgain(Exception):
    """The agent fell asleep while its call was prepared. Nothing was sent; the gate holds the call again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    held_seconds: float = 0.0
    """0 if it was not held."""
    slept_seconds: float = 0.0
    """How long the agent had slept before the wake."""
    woken_by: str = ""
    generation: int = 0
    has_slept: bool = False
    """Whether its agent slept while it was held; a call may also have waited for a person only."""
    hold: HoldId = _NO_HOLD
    """Its hold; empty without one, and if it was prepared before."""

    @property
    def was_held(self) -> bool:
        return self.held_seconds > 0.0


NOT_HELD = Admission()


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
    approval: ApprovalId | None = None
    """The approval that it waits for; None if it waits for its agent's wake."""
    to: str = ""
    """The provider or MCP server."""
    model: str = ""
    streamed: bool = False
    turn: bool = False
    """Whether its last message came from the user."""


@dataclass(kw_only=True, slots=True, eq=False)
class GateCall:
    """A call at the gate. Its door states the first part; only the gate changes the second."""

    agent: Agent
    reply: Reply
    body: CallBody
    door: str
    to: str
    """The provider or MCP server, which gets the agent's calls in order."""
    what: str
    grace_seconds: float
    """Seconds after which a held caller gets keep-alives."""
    repeats_after_empty: bool = False
    """Whether the caller asks again after an empty answer."""
    retry_key: Hashable = None
    """Equal for a call and its retries in the same line; None if they cannot be known."""
    in_pulse: bool = False
    """Whether the caller's token is that of a pulse."""
    approval: CallApproval | None = None
    """A person's approval that it needs before it is sent."""
    request: ModelRequest | None = None
    """What a model call asks for."""
    call_id: CallId | None = None
    """The id of a model call whose caller knows it; its hold has the same."""

    line: tuple[AgentId, str] = field(init=False)
    number: int = -1
    """Its place among all calls, in order of arrival."""
    arrived: float = 0.0
    """Monotonic time at which its caller came."""
    began: float = 0.0
    """The same, or if it is a retry the time at which its first caller came."""
    cell: PresenceCell | None = None
    """Its agent's state; None before it is admitted for the first time."""
    id: HoldId = _NO_HOLD
    """Empty before its first hold."""
    continues: HoldId | None = None
    """The hold of the earlier caller."""
    since: datetime = field(init=False)
    spooled: SpooledBody = field(init=False)
    held_generation: int = -1
    """Its agent's generation when its hold began; -1 if it slept."""
    has_slept: bool = False
    """Whether its agent slept while it was held, or while its earlier caller was."""
    was_prepared: bool = False
    """Whether its agent fell asleep again while it was prepared."""
    is_listed: bool = False
    """Whether it is held: from a hold until it is sent."""
    is_cleared: bool = False
    """Whether it may be sent, or was."""
    has_place: bool = False
    permit: PacePermit | None = None
    turn: asyncio.Future[None] | None = None
    """Done when the calls before it have left its line."""
    dropped_by: str | None = None
    """The operator who ended it."""

    def __post_init__(self) -> None:
        self.line = self.agent.id, f"{self.door} {self.to}"

    @property
    def cannot_move(self) -> bool:
        """Whether only this gateway can still answer the caller, who has seen a 200."""
        return self.reply.phase is not Phase.SILENT and not self.repeats_after_empty

    @property
    def awaits_approval(self) -> bool:
        return self.approval is not None and self.approval.waits

    @property
    def awaited_approval(self) -> ApprovalId | None:
        approval = self.approval.approval if self.approval is not None and self.approval.waits else None
        return None if approval is None else approval.id


class Gate:
    """Admits or holds calls per agent, across all connections and doors (GATE-44).

    A call is checked on arrival and again directly before it is sent, in the same step of the event loop. So a sent
    call always belongs to an awake agent (GATE-42), whatever happened during its preparation. Held calls of one agent
    are sent in order of arrival.
    """

    def __init__(
        self, clock: Clock, ids: IdSource, presence: Presence, journal: Journal, ticker: Ticker, bodies: BodySpool,
        places: HoldPlaces, approvals: ApprovalDesk,
    ) -> None:  # fmt: skip
        self.presence: Final = presence
        self.ticker: Final = ticker
        self.bodies: Final = bodies
        self.places: Final = places
        self.approvals: Final = approvals
        self._clock = clock
        self._ids = ids
        self._journal = journal
        self._pace = Pace()
        self._holds: dict[GateCall, None] = {}
        self._per_agent: dict[AgentId, int] = {}
        self._waiting = Lines()
        """Calls that are held, or prepared."""
        self._leaving = Lines()
        """Calls that had their turn, and take a connection."""
        self._marks: BoundedDict[Hashable, list[_Mark]] = BoundedDict(_MARKS_KEPT)
        """The places of held calls whose callers have gone, for their retries (GATE-93)."""
        self._numbers = count()
        self._warned: set[AgentId] = set()

    async def pass_call(self, call: GateCall, relay: Callable[[Admission], Awaitable[None]]) -> None:
        """Hold the call while its agent sleeps; then `relay`, which sends it in the step that clears it.

        Raises:
            TargetGone: the agent or its session is gone, or the server is stopping.
            LimitReached: too many calls or bytes are held.
            StorageUnavailable: database or disk failed.
            StillAsleep, AwaitingApproval: it was held for the longest time of its agent's policy.
            ApprovalRefused: a person has refused it, or nobody approved it in time.
            CallDropped: an operator has ended it.
        """
        try:
            while True:
                admission = await self.admit(call)
                try:
                    await relay(admission)
                    break
                except AsleepAgain:
                    call.was_prepared = True
        except BaseException as error:
            self.leave(call, error)
            raise
        self.leave(call)

    async def admit(self, call: GateCall) -> Admission:
        """Return the admission: at once if the agent is awake, else when it wakes. Raises as `pass_call`."""
        if call.cell is None:
            call.number = next(self._numbers)
            call.arrived = call.began = self._clock.monotonic()
            self._continue_earlier_hold(call)
        presence = self.presence
        if call.approval is not None:
            await call.approval.request(lambda: call.cell is not None and presence.recheck(call.cell, call))
        call.cell = cell = presence.synced_cell(call.agent.id) or await presence.fetch_cell(call.agent.id)
        if cell.is_closed or call.awaits_approval:
            await self._hold(call, cell)
        elif self._waiting.has(call) or self._leaving.has(call):
            self._waiting.join(call)
        if not call.id and call.continues is None:
            return NOT_HELD
        return Admission(
            held_seconds=self._clock.monotonic() - call.began or 1e-9,
            slept_seconds=cell.slept_seconds,
            woken_by=cell.actor,
            generation=cell.generation,
            has_slept=call.has_slept,
            hold=_NO_HOLD if call.was_prepared else call.id,
        )

    async def _hold(self, call: GateCall, cell: PresenceCell) -> None:
        """Hold a call until its agent wakes and a person approves it, without its body in memory if that is large."""
        call.held_generation = -1 if cell.is_closed else cell.generation
        if call.awaits_approval:  # the agent's other calls go on meanwhile
            self._leave_lines(call)
        else:
            self._waiting.join(call)
        if not call.has_place:
            await self.places.take(call.agent)
            call.has_place = True
        spooled = await self.bodies.spool(call.body)
        seconds = call.agent.policy.hold_max_seconds
        alarm = None if seconds is None else Alarm(lambda: self.presence.fail(cell, call, _too_long(call, seconds)))
        try:
            self._list(call, spooled)
            self.ticker.add(call.reply, call.arrived + call.grace_seconds)
            if alarm is not None and seconds is not None:
                self.ticker.add(alarm, call.began + seconds)
            await self.presence.wait_until_awake(cell, call, None if call.approval is None else call.approval.blocks)
            self._waiting.join(call)
            call.has_slept |= cell.generation != call.held_generation
            await call.body.take_room(spooled.size, WOKEN_WAIT_SECONDS)
            call.body.content = await self.bodies.take(spooled)
        finally:
            self.bodies.drop(spooled)
            if alarm is not None:
                self.ticker.drop(alarm)
        call.permit = await self._pace.slot()

    async def wait_for_turn(self, call: GateCall) -> None:
        """Wait until the calls before it have had their turn."""
        self._end_permit(call)
        if self._waiting.has(call):
            await self._waiting.wait(call)
            self._leaving.join(call)
            self._waiting.leave(call)

    async def wait_to_send(self, call: GateCall) -> None:
        """Wait until the calls before it are sent, and the sleep state of its agent is known.

        Raises:
            StorageUnavailable: it is not known.
            AsleepAgain: its approval is no longer valid, or another call has used it.
        """
        assert call.cell is not None
        await self._leaving.wait(call)
        if call.approval is not None and not call.cell.is_closed and not await call.approval.use():
            self.leave_line(call)
            raise AsleepAgain
        await self.presence.read_unless_followed(call.cell)

    def clear_to_send(self, call: GateCall, *, blocks_later_calls: bool = False) -> None:
        """Decide whether the call is sent. The caller must write it now, without an `await` in between (GATE-42).

        With `blocks_later_calls`, these wait until it leaves the line, or ends.

        Raises:
            AsleepAgain: its agent is asleep. It keeps its place among the held calls.
        """
        assert call.cell is not None
        if call.cell.is_closed:
            self.leave_line(call)
            raise AsleepAgain
        call.is_cleared = True
        if call.is_listed:
            self._unlist(call)
            waited, generation = round(self._clock.monotonic() - call.began, 3), call.cell.generation
            release = CallRelease(
                hold=call.id, door=call.door, what=call.what, waited_seconds=waited, generation=generation
            )  # fmt: skip
            self._record_end(call, EventType.ADMITTED, release)
            self._give_place_back(call)
        if not blocks_later_calls:
            self.leave_line(call)

    def leave_line(self, call: GateCall) -> None:
        """Let the calls behind it go."""
        self._leaving.leave(call)

    def _leave_lines(self, call: GateCall) -> None:
        self._waiting.leave(call)
        self._leaving.leave(call)

    def leave(self, call: GateCall, error: BaseException | None = None) -> None:
        """Remove a call that was sent, or has ended with this error."""
        if call.is_listed:
            self._unlist(call)
            waited = round(self._clock.monotonic() - call.began, 3)
            reason = error.code if isinstance(error, CircadiaError) else "caller gone"
            drop = CallDrop(hold=call.id, door=call.door, what=call.what, waited_seconds=waited, reason=reason)
            if call.dropped_by is not None:
                drop = drop.model_copy(update={"by": call.dropped_by})
            self._record_end(call, EventType.DROPPED, drop)
            if isinstance(error, asyncio.CancelledError) and call.retry_key is not None:
                key = call.line, call.retry_key
                has_slept = call.has_slept or (call.cell is not None and call.cell.generation != call.held_generation)
                mark = _Mark(call.number, call.since, call.began, call.id, has_slept, self._clock.monotonic())
                self._marks[key] = [*self._marks.get(key, ()), mark]
        if call.approval is not None:
            call.approval.leave(was_told=isinstance(error, ApprovalRefused) and call.reply.can_tell(error))
            if not call.is_cleared:
                call.approval.give_back()
        self._leave_lines(call)
        self._give_place_back(call)
        self._end_permit(call)

    def _continue_earlier_hold(self, call: GateCall) -> None:
        """Give a retry the place and the time of the first call like it whose caller has gone."""
        if not self._marks or call.retry_key is None:
            return
        key = call.line, call.retry_key
        marks = sorted(mark for mark in self._marks.pop(key, ()) if mark.left_at > call.arrived - RETRY_SECONDS)
        if len(marks) > 1:
            self._marks[key] = marks[1:]
        if marks:
            call.number, call.since, call.began, call.continues, call.has_slept, _ = marks[0]

    def _list(self, call: GateCall, spooled: SpooledBody) -> None:
        """Record the call as held; a call that is held again keeps its id and time."""
        call.spooled = spooled
        if call.is_listed:
            return
        if not call.id:
            call.id = hold_of_call(call.call_id) if call.call_id else HoldId(self._ids.new("hold"))
            if call.continues is None:
                call.since = self._clock.now()
        call.is_listed = True
        self._holds[call] = None
        self._per_agent[call.agent.id] = self.count_held(call.agent.id) + 1
        held = CallHold(hold=call.id, door=call.door, what=call.what)
        if call.continues is not None:
            held = held.model_copy(update={"continues": call.continues})
        if call.awaited_approval is not None:
            held = held.model_copy(update={"approval": call.awaited_approval})
        self._record(call, EventType.HELD, held)
        launcher = call.agent.coordination.launcher
        if (
            not call.in_pulse
            and not call.awaits_approval
            and launcher != RESIDENT
            and call.agent.id not in self._warned
        ):
            self._warned.add(call.agent.id)  # once: how to run a program that calls as a launched agent (WAKE-87)
            _logger.warning(_OWN_PROGRAM, call.agent.reference, launcher)

    def _unlist(self, call: GateCall) -> None:
        call.is_listed = False
        del self._holds[call]
        left = self.count_held(call.agent.id) - 1
        if left:
            self._per_agent[call.agent.id] = left
        else:
            del self._per_agent[call.agent.id]

    def _record(self, call: GateCall, kind: EventType, data: HeldCallData) -> None:
        self._journal.event(kind, data, session=call.agent.session, agent=call.agent.name)

    def _record_end(self, call: GateCall, kind: EventType, data: HeldCallData) -> None:
        self._record(call, kind, data)
        agent, now = call.agent, self._clock.now()
        span = Span(
            agent_id=agent.id, session=agent.session, agent=agent.name, kind=SpanKind.HELD,
            started_at=min(call.since, now), ended_at=now, reason=call.what, outcome=kind.value, ref=call.id,
        )  # fmt: skip
        self._journal.put(span)

    def _give_place_back(self, call: GateCall) -> None:
        if call.has_place:
            call.has_place = False
            self.places.give_back(call.agent.id)

    def _end_permit(self, call: GateCall) -> None:
        if call.permit is not None:
            call.permit.release()
            call.permit = None

    def keep_alive(self, call: GateCall, seconds: float) -> None:
        """Resume keep-alives for an admitted caller, `seconds` after it came, if it is still silent."""
        if call.reply.phase is Phase.SILENT:
            self.ticker.add(call.reply, max(self._clock.monotonic(), call.arrived + seconds))

    async def close_for(self, tx: Tx, agent: Agent) -> None:
        """Block the calls of an agent that falls asleep in this transaction; record earlier admissions first."""
        self.presence.close_for(tx, agent)
        await self._journal.write_agent_events(tx, agent)

    def hand_over(self, error: TargetGone) -> None:
        """End all waits that another gateway can take over; held calls that are bound to this one wait on."""
        self.presence.stop(error, keep_if=lambda waiter: isinstance(waiter, GateCall) and waiter.cannot_move)

    def count_held(self, agent_id: AgentId) -> int:
        return self._per_agent.get(agent_id, 0)

    @property
    def total_held(self) -> int:
        return len(self._holds)

    def list_holds(
        self, *, session: str | None = None, agent: str | None = None, limit: int = 1000
    ) -> tuple[Sequence[HoldView], int]:
        """Return at most `limit` held calls, longest wait first, and the total number."""
        holds = [
            hold for hold in self._holds if session in (None, hold.agent.session) and agent in (None, hold.agent.name)
        ]
        holds.sort(key=attrgetter("began"))  # a retry is older than it is here
        return [self._view(hold) for hold in holds[:limit]], len(holds)

    def drop(self, hold: HoldId, *, by: str) -> HoldView:
        """End a held call with an error that SDKs do not retry; its agent stays asleep.

        Raises:
            NotFound: it waits for no wake here.
        """
        error = CallDropped(f"{by} has dropped this call while its agent was asleep; nothing was sent")
        for call in self._holds:
            if call.id == hold and call.cell is not None and self.presence.fail(call.cell, call, error):
                call.dropped_by = by
                return self._view(call)
        raise NotFound(
            f"this server holds no call {hold!r}: it has gone on or ended, or another server holds it; "
            "list the held calls again, and ask the server that holds it"
        )

    def find_hold(self, hold: HoldId) -> HoldView | None:
        """Return a call that this server holds."""
        return next((self._view(call) for call in self._holds if call.id == hold), None)

    def _view(self, call: GateCall) -> HoldView:
        return HoldView(
            id=call.id,
            agent_id=call.agent.id,
            agent=call.agent.name,
            session=call.agent.session,
            door=call.door,
            what=call.what,
            since=call.since,
            waited_seconds=round(self._clock.monotonic() - call.began, 3),
            phase="silent" if call.reply.phase is Phase.SILENT else "opened",
            bytes=call.spooled.size,
            approval=call.awaited_approval,
            to=call.to,
            model=(call.request and call.request.model) or "",
            streamed=call.request is not None and call.request.streamed,
            turn=call.request is not None and call.request.turn,
        )


def _too_long(call: GateCall, seconds: float) -> CircadiaError:
    if call.awaits_approval:
        message = f"the call of {call.agent.reference!r} waits for a person's approval; it was held for {seconds:g} s"
        return AwaitingApproval(message, retry_after_seconds=30)
    message = f"{call.agent.reference!r} is asleep; its call was held for {seconds:g} s"
    return StillAsleep(message, retry_after_seconds=30)


class _Mark(NamedTuple):
    number: int
    since: datetime
    began: float
    hold: HoldId
    has_slept: bool
    left_at: float


class Lines:
    """Lines of calls: one agent's calls to one provider or MCP server, in order of arrival."""

    def __init__(self) -> None:
        self._lines: dict[tuple[AgentId, str], OrderedDict[GateCall, None]] = {}

    def has(self, call: GateCall) -> bool:
        """Return whether there is a line that the call would have to join."""
        return call.line in self._lines

    def join(self, call: GateCall) -> None:
        """Put a call into its line; one that was in it before comes back to its place."""
        line = self._lines.setdefault(call.line, OrderedDict())
        if call in line:
            return
        is_last = not line or next(reversed(line)).number < call.number
        line[call] = None
        if not is_last:
            for each in sorted(line, key=attrgetter("number")):
                line.move_to_end(each)

    def leave(self, call: GateCall) -> None:
        """Remove a call from its line and let the next one go."""
        line = self._lines.get(call.line)
        if line is None or call not in line:
            return
        del line[call]
        if not line:
            del self._lines[call.line]
            return
        turn = next(iter(line)).turn
        if turn is not None and not turn.done():
            turn.set_result(None)

    async def wait(self, call: GateCall) -> None:
        """Wait until the calls before it have left, or nothing has moved in the line for `ORDER_SECONDS`."""
        line = self._lines.get(call.line)
        if line is None or call not in line:
            return
        has_moved = True
        while has_moved and (first := next(iter(line))) is not call:
            call.turn = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(ORDER_SECONDS):
                    await call.turn
            except TimeoutError:
                has_moved = next(iter(line)) is not first
            finally:
                call.turn = None
