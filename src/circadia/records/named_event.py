"""A named event, and an agent's wait for one (WAKE-81)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from circadia.errors import InvalidRequest
from circadia.ids import AgentId, EventWaitId, NamedEventId

MAX_FILTER_CHARACTERS: Final = 4_000
"""Length of a filter as JSON."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def require_event_name(name: str) -> str:
    """Return the name of an event. Raises InvalidRequest if it is none."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name[:100]!r} is no name of an event; write 1 to 100 letters, digits or . _ -, such as 'batch.completed'"
        )
    return name


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedEvent:
    """Something that happened outside of Circadia, or that an agent reports; its data is what somebody else wrote."""

    name: str
    data: Mapping[str, Any]
    """As JSON."""
    key: str | None = None
    """Idempotency key of its author: a repeat reaches no agent twice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecentEvent:
    """A named event of the last hour, with its place in a chain."""

    id: NamedEventId
    name: str
    content: str
    """Its data as JSON."""
    key: str | None
    sender_id: AgentId | None
    """The agent that reported it."""
    root_id: str | None
    parent_id: str | None
    depth: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class EventWait:
    """An agent's wait for one event. The event that matches ends it."""

    id: EventWaitId
    agent_id: AgentId
    name: str
    filter: Mapping[str, Any]
    """What the event's data must contain."""
    generation: int | None = None
    """The sleep that the event ends; None for a call that waits, or will wait again."""
    created_at: datetime
    until: datetime
    """When it is given up."""


def contains(data: object, wanted: object) -> bool:
    """Return whether JSON `data` has all that `wanted` has: an object may have more keys, all else must be equal."""
    if isinstance(wanted, Mapping):
        if not isinstance(data, Mapping):
            return False
        values, keys = cast("Mapping[str, object]", data), cast("Mapping[str, object]", wanted)
        return all(key in values and contains(values[key], value) for key, value in keys.items())
    return _equals(data, wanted)


def _equals(one: object, other: object) -> bool:
    """Return whether two JSON values are the same; true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        ones, others = cast("list[object]", one), cast("list[object]", other)
        return len(ones) == len(others) and all(map(_equals, ones, others))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        values, wanted = cast("Mapping[str, object]", one), cast("Mapping[str, object]", other)
        return values.keys() == wanted.keys() and all(_equals(values[key], wanted[key]) for key in wanted)
    return one == other
