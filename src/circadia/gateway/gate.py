"""The gate: whether a call passes or is held, who is held now, and how many may be."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from circadia.agents.presence import Presence
from circadia.clock import Clock
from circadia.errors import CircadiaError, LimitReached
from circadia.gateway.bodies import Parcel, Parked, Parking
from circadia.gateway.journal import Journal
from circadia.gateway.pace import Pace
from circadia.gateway.reply import Phase, Reply
from circadia.gateway.ticker import Alarm, Ticker
from circadia.ids import AgentId, HoldId, IdSource
from circadia.records.agent import Agent
from circadia.records.event import EventType
from circadia.settings import LimitsSettings


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
class Passage:
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
    def held(self) -> bool:
        """Whether it was held."""
        return self.held_seconds > 0.0


NOT_HELD = Passage()


class Hold:
    """One held call."""

    __slots__ = ("agent", "began", "door", "id", "parked", "reply", "since", "what")

    def __init__(
        self, hold_id: HoldId, agent: Agent, reply: Reply, parked: Parked, door: str, what: str, clock: Clock
    ) -> None:
        self.id = hold_id
        self.agent = agent
        self.reply = reply
        self.parked = parked
        self.door = door
        self.what = what
        self.since = clock.now()
        self.began = clock.monotonic()


class Gate:
    """Decides per agent, over all its connections and doors (GATE-44)."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        presence: Presence,
        journal: Journal,
        ticker: Ticker,
        parking: Parking,
        limits: LimitsSettings,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._presence = presence
        self._journal = journal
        self._ticker = ticker
        self._parking = parking
        self._limits = limits
        self._pace = Pace()
        self._holds: dict[Hold, None] = {}
        self._per_agent: dict[AgentId, int] = {}
        self.admitted = 0
        self.dropped = 0

    async def pass_through(
        self,
        agent: Agent,
        reply: Reply,
        parcel: Parcel,
        *,
        door: str,
        what: str,
        grace_seconds: float,
        most: tuple[float, CircadiaError] | None = None,
    ) -> tuple[bytes, Passage]:
        """Return the body and how it came through: at once if the agent is awake, else when it wakes.

        A held caller is silent for `grace_seconds` and then gets signs of life. `most` is the longest hold in seconds,
        and the error that ends it. The agent is awake at the moment of return, the body's way back from disk aside.

        Raises:
            Ended: the agent or its session is gone, or the server is stopping. LimitReached: too much is held.
            StorageUnavailable: database or disk. Whatever `most` says.
        """
        cell = self._presence.known(agent.id) or await self._presence.cell(agent.id)
        if not cell.asleep:
            return parcel.take(), NOT_HELD
        hold = await self._made(agent, reply, parcel, door, what)
        alarm = None if most is None else Alarm(lambda: self._presence.fail(cell, hold, most[1]))
        try:
            self._enter(hold)
            self._ticker.add(reply, hold.began + grace_seconds)
            if most is not None and alarm is not None:
                self._ticker.add(alarm, hold.began + most[0])
            await self._presence.until_awake(cell, hold)
            waited = self._clock.monotonic() - hold.began
            self._leave(hold, EventType.ADMITTED, waited, generation=cell.generation)
            passage = Passage(
                held_seconds=waited or 1e-9,
                slept_seconds=cell.slept_seconds,
                woken_by=cell.actor,
                generation=cell.generation,
            )
            return await self._parking.take(hold.parked), passage
        except BaseException as error:
            if hold in self._holds:
                reason = error.code if isinstance(error, CircadiaError) else "caller gone"
                self._leave(hold, EventType.DROPPED, self._clock.monotonic() - hold.began, reason=reason)
            raise
        finally:
            self._parking.drop(hold.parked)
            if alarm is not None:
                self._ticker.drop(alarm)

    async def _made(self, agent: Agent, reply: Reply, parcel: Parcel, door: str, what: str) -> Hold:
        self._check_room(agent)
        parked = await self._parking.park(parcel)
        return Hold(HoldId(self._ids.new("hold")), agent, reply, parked, door, what, self._clock)

    async def go_on(self) -> None:
        """Wait for a turn behind the gate: a crowd that one wake admits would keep everybody else waiting."""
        await self._pace.turn()

    def keep_alive(self, reply: Reply, seconds: float) -> None:
        """Give an admitted caller signs of life again, from `seconds` from now if it was not told anything yet."""
        if reply.phase is Phase.SILENT:
            self._ticker.add(reply, self._clock.monotonic() + seconds)

    def settle(self, reply: Reply) -> None:
        """Give the caller no more signs of life: its answer begins."""
        self._ticker.drop(reply)

    def holds(
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

    def held(self, agent_id: AgentId) -> int:
        """Return how many calls of the agent are held now."""
        return self._per_agent.get(agent_id, 0)

    @property
    def held_in_all(self) -> int:
        """Return how many calls are held now."""
        return len(self._holds)

    def _check_room(self, agent: Agent) -> None:
        if len(self._holds) >= self._limits.max_holds:
            raise LimitReached(f"{self._limits.max_holds} calls are held already; try later", retry_after_seconds=30)
        if self.held(agent.id) >= self._limits.max_holds_per_agent:
            raise LimitReached(
                f"{agent.reference!r} has {self._limits.max_holds_per_agent} held calls already; wake it, or wait",
                retry_after_seconds=30,
            )

    def _enter(self, hold: Hold) -> None:
        self._check_room(hold.agent)  # again: others may have come while the body went to the disk
        self._holds[hold] = None
        self._per_agent[hold.agent.id] = self.held(hold.agent.id) + 1
        self._journal.event(
            EventType.HELD, hold.agent.session, hold.agent.name, hold=hold.id, door=hold.door, what=hold.what
        )

    def _leave(self, hold: Hold, kind: EventType, waited: float, **data: object) -> None:
        del self._holds[hold]
        left = self.held(hold.agent.id) - 1
        if left:
            self._per_agent[hold.agent.id] = left
        else:
            del self._per_agent[hold.agent.id]
        if kind is EventType.ADMITTED:
            self.admitted += 1
        else:
            self.dropped += 1
        self._journal.event(
            kind,
            hold.agent.session,
            hold.agent.name,
            hold=hold.id,
            door=hold.door,
            what=hold.what,
            waited_seconds=round(waited, 3),
            **data,
        )
