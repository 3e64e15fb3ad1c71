"""The fleet at a glance: counts over all agents, banks and servers, and its alerts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from circadia.ids import PassId
from circadia.records.wake import Decision


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """`today` is the UTC day."""

    asleep: int
    awake: int
    pulsing: int
    """Agents with a pulse that is starting or running."""
    held: int
    """Calls held at other servers than this one."""
    passes: int
    """Passes that run or wait."""
    dead_letters: int
    wakes_today: Mapping[Decision, int]
    served_today: int
    """Calls answered from a ready answer."""
    hints_today: int
    misses_today: int
    saved_tokens_today: int
    """Input tokens that sleep-time work spared hot calls."""
    saved_nanousd_today: int
    saved_seconds_today: float


class ProblemKind(StrEnum):
    """What needs a person."""

    SERVER = "server"
    LAUNCHER = "launcher"
    PULSE = "pulse"
    UPSTREAM = "upstream"
    BANKS = "banks"
    EMBEDDER = "embedder"
    BUDGET = "budget"
    CIRCUIT = "circuit"
    APPROVALS = "approvals"
    DEAD_LETTERS = "dead_letters"
    PROPOSALS = "proposals"
    HOLDS = "holds"


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownProblem:
    """Something that needs a person, with the one act that helps."""

    kind: ProblemKind
    text: str
    """What it is, and what to do."""
    subject: str = ""
    """Reference of the agent, or name of the provider or bank; empty for the fleet."""
    figure: float | None = None
    limit: float | None = None
    unit: str = ""
    """What the figure counts."""
    since: datetime | None = None
    act: str = ""
    """Words for a link."""
    page: str = ""
    """Page of the dashboard where the act is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedPass:
    """A pass whose proposals wait for a person."""

    pass_id: PassId
    bank: str
    changes: int
    since: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class RecentAlert:
    """The last alert for a cause and a subject."""

    cause: str
    subject: str
    """`session:agent`, as far as known; empty for the fleet."""
    at: datetime


BUDGET_SHARE: Final = 0.8
"""Share of a budget at which people are alerted (WAKE-76)."""
NO_LAUNCHER: Final = "no_launcher"
"""Cause: no live worker has the launcher of a pulse."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingAlertPost:
    """An alert that a server has claimed for posting, and may not have posted yet."""

    cause: str
    subject: str
    """Empty if the alert belongs to no session."""
    told_at: datetime
    """When the server claimed it."""
    body: Mapping[str, object]
