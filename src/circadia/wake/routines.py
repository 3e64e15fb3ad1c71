"""An agent's routines: set by people, and fired when they are due (WAKE-40 … WAKE-46)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from circadia.clock import Clock
from circadia.errors import Conflict, InvalidRequest
from circadia.ids import IdSource, RoutineId
from circadia.records.agent import Agent
from circadia.records.coordination import RESIDENT, Setting, SettingSource
from circadia.records.event import EventType, RoutineAlert, RoutineOutcome, RoutineUpdate
from circadia.records.message import Priority
from circadia.records.schedule import ALARM_SENDER, MAX_ROUTINES, MAX_SPREAD_SECONDS, Recurrence, Routine, RoutineSpec
from circadia.records.wake import Decision, Wake, WakeSource
from circadia.stores.base import Tx
from circadia.stores.event_log import EventLog
from circadia.wake.admission.budgets import retry_at
from circadia.wake.admission.requests import WakeRequests, find_idle_reason
from circadia.wake.inbox import Inbox
from circadia.wake.scheduling.planning import (
    SET_BACK,
    RoutineAction,
    RoutinePlan,
    plan_from,
    plan_routine,
    replan_if_set_back,
)
from circadia.wake.wake_rows import NewWake

HEARTBEAT: Final = "heartbeat"
"""Default routine of a launched agent: it runs only if messages wait."""
_REASON_CHARACTERS: Final = 100
FILE_ROUTINES: Final = "routines"
"""Key in an agent's settings that holds the routines of the file as last read."""


class RoutineService:
    def __init__(self, clock: Clock, ids: IdSource, events: EventLog, requests: WakeRequests, inbox: Inbox) -> None:
        self._clock = clock
        self._ids = ids
        self._events = events
        self._requests = requests
        self._inbox = inbox

    async def replace(self, tx: Tx, agent: Agent, specs: Sequence[RoutineSpec], *, by: str) -> Sequence[Routine]:
        """Replace what people set as the agent's routines; an unchanged one keeps its next time (WAKE-45).

        What the agent set for itself stays; one of these names that differs becomes the people's.

        Raises:
            InvalidRequest: two have the same name, or they are too many.
        """
        names = [spec.name for spec in specs]
        if len(set(names)) != len(names):
            raise InvalidRequest("two routines have the same name; give each its own name")
        if len(specs) > MAX_ROUTINES:
            raise InvalidRequest(f"an agent may have {MAX_ROUTINES} routines, got {len(specs)}")
        specs = specs or _heartbeat_specs(agent)
        names = [spec.name for spec in specs]
        now = self._clock.now()
        known = {routine.name: routine for routine in await tx.routines.find_by_agent(agent.id)}
        await tx.routines.remove_others(agent.id, known.keys() & set(names))
        for spec in specs:
            old = known.get(spec.name)
            if old is None:
                fresh = Routine(spec=spec, id=RoutineId(self._ids.new("rtn")), agent_id=agent.id, created_at=now)
                await tx.routines.add(plan_from(fresh, now))
            elif old.spec != spec:
                await tx.routines.save(plan_from(replace(old, spec=spec, own=False), now), origin=old)
        await self._record_event(tx, agent, RoutineUpdate(changed_by=by, routines=names))
        return await tx.routines.find_by_agent(agent.id)

    async def ensure_heartbeat(self, tx: Tx, agent: Agent, *, by: str) -> None:
        """Give a launched agent without routines its heartbeat, or remove a heartbeat that its settings rule out."""
        present = [routine for routine in await tx.routines.find_by_agent(agent.id) if not routine.own]
        if all(_is_heartbeat(routine) for routine in present) and (present or _heartbeat_specs(agent)):
            await self.replace(tx, agent, (), by=by)

    async def apply_file(self, tx: Tx, agent: Agent, specs: Sequence[RoutineSpec]) -> None:
        """Apply the file's routines if they changed since the file was read last (WAKE-16).

        All use the agent's current zone, which may be newer than the file.
        """
        stated = [spec.model_dump(mode="json") for spec in specs]
        old = agent.settings.get(FILE_ROUTINES)
        if (old.file if old is not None else []) == stated:
            await self.ensure_heartbeat(tx, agent, by="file")
            return
        file_setting = Setting(value=None, source=SettingSource.FILE, at=self._clock.now(), file=stated)
        await tx.agents.save(replace(agent, settings={**agent.settings, FILE_ROUTINES: file_setting}))
        await self.replace(tx, agent, [_in_zone(spec, agent.coordination.zone) for spec in specs], by="file")

    async def follow_zone(self, tx: Tx, agent: Agent, *, origin: str, by: str) -> None:
        """Move the routines from the zone `origin` to the agent's new zone; routines in other zones stay."""
        now = self._clock.now()
        known = await tx.routines.find_by_agent(agent.id)
        moves = [routine for routine in known if routine.spec.recurrence.zone == origin]
        for old in moves:
            spec = _in_zone(old.spec, agent.coordination.zone)
            again = replace(old, spec=spec)
            await tx.routines.save(plan_from(again, now) if spec.recurrence.depends_on_zone else again, origin=old)
        if moves:
            names = [routine.name for routine in moves]
            await self._record_event(tx, agent, RoutineUpdate(changed_by=by, routines=names))

    async def fetch_planned_ahead(self, tx: Tx) -> Sequence[Routine]:
        """Return the routines planned by a clock that was days ahead and was set back since."""
        now = self._clock.now()
        late = await tx.routines.find_due_after(now + SET_BACK)
        return await asyncio.to_thread(
            lambda: [routine for routine in late if replan_if_set_back(routine, now) is not routine]
        )

    async def replan(self, tx: Tx, routine: Routine) -> None:
        """Plan one of them again by the current clock (WAKE-43)."""
        agent = await tx.agents.get(routine.agent_id)
        again = replan_if_set_back(routine, self._clock.now())
        if agent is not None and await tx.routines.save(again, origin=routine):
            data = RoutineUpdate(changed_by="the clock, which was set back", routines=[routine.name])
            await self._record_event(tx, agent, data)

    async def fire(self, tx: Tx, routine: Routine) -> RoutinePlan:
        """Decide on a routine that is due, and carry the decision out.

        Raises:
            Conflict: another process planned or changed it; roll this transaction back.
        """
        now = self._clock.now()
        agent = await tx.agents.get(routine.agent_id)
        if agent is None or agent.deleted_at is not None:
            await tx.routines.remove(routine.agent_id, routine.name)
            return RoutinePlan(verdict=RoutineAction.WAIT, routine=routine)
        coordination = agent.coordination
        planned = plan_routine(
            routine, coordination.blackouts, now, zone=coordination.zone, policies=coordination.blackout_policies
        )
        after, outcome = planned.routine, None
        await self._save(tx, after, routine)  # before it wakes the agent, which ends other alarms
        if planned.verdict is RoutineAction.RUN:
            after, outcome = await self._ask_for_pulse(tx, agent, routine, planned)
        if after != planned.routine:
            await self._save(tx, after, planned.routine)
        if outcome is None and planned.verdict not in (RoutineAction.WAIT, RoutineAction.RUN):
            outcome = {"verdict": planned.verdict.value}
        if outcome is not None:
            more = {"occurrence": planned.occurrence, "missed": planned.missed}
            data = RoutineOutcome.model_validate({"routine": routine.name, "skips": after.skips, **more, **outcome})
            await self._record_event(tx, agent, data)
        await self._alert_if_too_many(tx, agent, routine, after)
        return planned

    async def record_skip(self, tx: Tx, agent: Agent, wake: Wake) -> None:
        """Count a routine's deferred request that came to nothing as a skip (WAKE-46). Raises Conflict."""
        routine = None if wake.routine is None else await tx.routines.get(agent.id, wake.routine)
        if routine is None or not routine.spec.enabled:
            return
        after = replace(routine, skips=routine.skips + 1)
        await self._save(tx, after, routine)
        data = RoutineOutcome.model_validate({"routine": routine.name, "skips": after.skips, **_skip_data(wake)})
        await self._record_event(tx, agent, data)
        await self._alert_if_too_many(tx, agent, routine, after)

    async def _save(self, tx: Tx, routine: Routine, origin: Routine) -> None:
        if not await tx.routines.save(routine, origin=origin):
            raise Conflict(f"routine {routine.name!r} was planned or changed at the same moment")

    async def _ask_for_pulse(
        self, tx: Tx, agent: Agent, routine: Routine, planned: RoutinePlan
    ) -> tuple[Routine, dict[str, object] | None]:
        """Ask for a pulse; return the updated routine and the event data, if any."""
        reason = await find_idle_reason(tx, agent, routine)
        if reason is not None and _is_heartbeat(routine):
            return planned.routine, None
        if reason is not None and routine.is_alarm:
            await self._inbox.notify(tx, agent, f"Your alarm is due. {routine.spec.instructions}".strip())
        if reason is not None:
            return replace(planned.routine, skips=routine.skips + 1), {"verdict": "skipped", "reason": reason}
        wake = await self._requests.ask(
            tx,
            NewWake(
                target=agent,
                source=WakeSource.SCHEDULE,
                by=ALARM_SENDER if routine.is_alarm else f"schedule {routine.name}",
                reason=_shorten_reason(routine.spec.instructions) if routine.is_alarm else "schedule",
                priority=Priority.NORMAL,
                routine=routine.name,
                timeout_seconds=routine.spec.timeout_seconds,
            ),
        )
        if wake.decision in (Decision.ADMITTED, Decision.COALESCED, Decision.DEFERRED):
            outcome: dict[str, object] = {"verdict": "run", "wake": wake.id, "decision": wake.decision.value}
            return replace(planned.routine, skips=0), outcome
        after = replace(planned.routine, skips=routine.skips + 1)
        if routine.is_alarm and (again_at := retry_at(wake, agent)) is not None:  # it rings when its budget is back
            after = replace(after, next_at=again_at, deferred_from=planned.occurrence)
        return after, _skip_data(wake)

    async def _alert_if_too_many(self, tx: Tx, agent: Agent, before: Routine, routine: Routine) -> None:
        """Alert once the consecutive skips reach the agent's limit, even if several were added at once."""
        if not before.skips < agent.coordination.max_consecutive_skips <= routine.skips:
            return
        data = RoutineAlert(cause="routine_skipped", routine=routine.name, skips=routine.skips)
        await self._events.record(tx, EventType.ALERT, data, session=agent.session, agent=agent.name)

    async def _record_event(self, tx: Tx, agent: Agent, data: RoutineOutcome | RoutineUpdate) -> None:
        await self._events.record(tx, EventType.ROUTINE, data, session=agent.session, agent=agent.name)
        payload = {"verdict": data.verdict if isinstance(data, RoutineOutcome) else "changed"}
        self._events.signal(tx, "routine", agent.id, payload)


def _heartbeat_specs(agent: Agent) -> tuple[RoutineSpec, ...]:
    """Return the agent's default routines; stagger spreads the heartbeats of many agents over the interval."""
    coordination = agent.coordination
    if coordination.launcher == RESIDENT or coordination.heartbeat_minutes is None:
        return ()
    seconds = coordination.heartbeat_minutes * 60
    spread = min(seconds, MAX_SPREAD_SECONDS)
    beat = Recurrence(every_seconds=seconds, zone=coordination.zone, stagger_seconds=spread)
    return (RoutineSpec(name=HEARTBEAT, recurrence=beat),)


def _shorten_reason(text: str) -> str:
    """Return the first line of an alarm's reason, which names the wake."""
    line = next(iter(text.strip().splitlines()), "")
    return line[:_REASON_CHARACTERS] or ALARM_SENDER


def _is_heartbeat(routine: Routine) -> bool:
    return routine.name == HEARTBEAT and not routine.spec.instructions


def _in_zone(spec: RoutineSpec, zone: str) -> RoutineSpec:
    return spec.model_copy(update={"recurrence": spec.recurrence.model_copy(update={"zone": zone})})


def _skip_data(wake: Wake) -> dict[str, object]:
    return {"verdict": "skipped", "reason": wake.detail, "rule": wake.rule, "wake": wake.id}
