"""Rows of the wake tier, for the tests of stores."""

from typing import Any

from circadia.ids import PulseId, RoutineId, WakeId
from circadia.records.agent import Agent
from circadia.records.pulse import Pulse, PulseKind, PulseStatus
from circadia.records.schedule import Recurrence, Routine, RoutineSpec
from circadia.records.wake import Charge, Decision, Wake, WakeSource
from tests.contract.rows import at


def wake(name: str, to: Agent, *, by: Agent | None = None, seconds: float = 0, **more: Any) -> Wake:
    given: dict[str, Any] = {
        "id": WakeId(name), "at": at(seconds), "decided_at": at(seconds), "agent_id": to.id, "agent": to.reference,
        "source": WakeSource.AGENT, "sender_id": by and by.id, "sender": by.name if by else "operator",
        "reason": "blocker", "decision": Decision.ADMITTED, "charge": Charge.RESERVED, "root_id": name, **more,
    }  # fmt: skip
    return Wake(**given)


def pulse(key: str, of: Agent, *, seconds: float = 0, **more: Any) -> Pulse:
    given: dict[str, Any] = {
        "id": PulseId(key), "agent_id": of.id, "agent": of.reference, "kind": PulseKind.WAKE,
        "status": PulseStatus.PENDING, "created_at": at(seconds), "root_id": key, **more,
    }  # fmt: skip
    return Pulse(**given)


def routine(name: str, of: Agent, **more: Any) -> Routine:
    own: dict[str, Any] = {"name": name, "recurrence": Recurrence(every_seconds=60)}
    own |= {key: more.pop(key) for key in RoutineSpec.model_fields.keys() & more.keys()}
    spec = RoutineSpec(**own)
    return Routine(id=RoutineId(f"rtn_{of.name}_{name}"), agent_id=of.id, spec=spec, created_at=at(0), **more)
