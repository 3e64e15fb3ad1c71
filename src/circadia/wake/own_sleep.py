"""An agent's sleep by its own wish, with an alarm, and with what wakes it from this sleep (WAKE-80, WAKE-81)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from circadia.errors import InvalidRequest
from circadia.records.agent import Agent, Cause, OwnWake, OwnWakes
from circadia.records.principal import Principal
from circadia.stores.base import Tx
from circadia.wake.named_events import NamedEvents
from circadia.wake.own_routines import NewAlarm, OwnRoutines
from circadia.wake.sleep_control import SleepControl, SleepOutcome
from circadia.wake.wake_rows import WakeRows

EVENT_PREFIX: Final = "event:"
MAX_WAKERS: Final = 20
_SIMPLE: Final = {wake.value: wake for wake in (OwnWake.MENTION, OwnWake.MESSAGE)}


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepWish:
    alarm: NewAlarm | None = None
    wake_on: frozenset[OwnWake] = frozenset()
    events: Sequence[str] = ()
    """Names of events that end the sleep."""
    filter: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the data of these events must contain."""


def read_wake_on(wake_on: Sequence[str]) -> tuple[frozenset[OwnWake], Sequence[str]]:
    """Return what wakes the agent, and the names of events. Raises InvalidRequest."""
    wakes: set[OwnWake] = set()
    events: list[str] = []
    for waker in wake_on:
        if waker.startswith(EVENT_PREFIX):
            events.append(waker.removeprefix(EVENT_PREFIX))
        elif waker in _SIMPLE:
            wakes.add(_SIMPLE[waker])
        else:
            raise InvalidRequest(f"wake_on: {waker[:100]!r} wakes nobody; write 'mention', 'message' or 'event:NAME'")
    return frozenset(wakes), tuple(dict.fromkeys(events))


class OwnSleep:
    def __init__(self, control: SleepControl, alarms: OwnRoutines, named_events: NamedEvents, wakes: WakeRows) -> None:
        self._control = control
        self._alarms = alarms
        self._named_events = named_events
        self._wakes = wakes

    async def sleep(self, tx: Tx, principal: Principal, agent: Agent, wish: SleepWish, *, cause: Cause) -> SleepOutcome:
        """Put the agent to sleep by its own wish. The block must hold it.

        What it has not read may wake it at once; then no alarm is set. An event that came before, and that it has not
        handled, asks for its wake within a second.

        Raises:
            InvalidRequest, Forbidden, Conflict: as for an alarm and a wait for an event; then it stays awake.
        """
        if wish.filter and not wish.events:
            raise InvalidRequest("a filter is for events; name one in wake_on, such as 'event:batch.completed'")
        present = await tx.agents.get(agent.id) or agent
        generation = present.generation + (not present.asleep)
        by = {*wish.wake_on, *([OwnWake.EVENT] if wish.events else [])}
        if wish.alarm is not None and wish.alarm.ends_on_wake:
            by.add(OwnWake.ALARM)
        if by:
            await tx.agents.save_own_wakes(agent.id, OwnWakes(generation=generation, by=frozenset(by)))
        if wish.events:
            await self._named_events.sleep_until(tx, present, wish.events, wish.filter, generation=generation)
        changed = (await self._control.set(tx, principal, present, asleep=True, cause=cause)).agent
        if not changed.asleep:
            return SleepOutcome(agent=changed)
        alarm = None if wish.alarm is None else await self._alarms.set_alarm(tx, changed, wish.alarm)
        for name in wish.events:
            for delivery in await self._named_events.find_unread(tx, changed, name, wish.filter):
                await self._wakes.add_due(tx, self._named_events.build_wake(changed, name, delivery.message), None)
        return SleepOutcome(agent=changed, alarm=alarm)
