"""A person's approval of one call, which is held until then (WAKE-86)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from circadia.ids import AgentId, ApprovalId


class ApprovalRule(StrEnum):
    """The part of the policy that asks for the approval."""

    TOOL = "tool"
    MODEL = "model"
    SPEND = "spend"


class ApprovalStatus(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    """The call has not been sent yet."""
    USED = "used"
    """The call was sent, and no other may be."""
    REFUSED = "refused"
    EXPIRED = "expired"


TRANSITIONS: Final[Mapping[ApprovalStatus, frozenset[ApprovalStatus]]] = {
    ApprovalStatus.PENDING: frozenset({ApprovalStatus.APPROVED, ApprovalStatus.REFUSED, ApprovalStatus.EXPIRED}),
    ApprovalStatus.APPROVED: frozenset({ApprovalStatus.USED, ApprovalStatus.EXPIRED}),
    ApprovalStatus.USED: frozenset({ApprovalStatus.APPROVED}),  # its provider did nothing
    ApprovalStatus.REFUSED: frozenset(),
    ApprovalStatus.EXPIRED: frozenset(),
}
REPEATED_FOR: Final = timedelta(minutes=10)
"""How long a repeat of a call gets the refusal that its first caller did not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    id: ApprovalId
    agent_id: AgentId
    session: str
    agent: str
    door: str
    target: str
    """The provider or MCP server."""
    what: str
    """The operation: `POST /v1/chat/completions`, `tools/call merge`."""
    rule: ApprovalRule
    model: str = ""
    """Model of a model call; empty if it names none."""
    nanousd: int | None = None
    """Highest price of a model call; None if unknown."""
    digest: str
    """SHA-256 of the call in hex: equal for a repeat, and different for a changed call."""
    preview: str
    """The tool's arguments, or what the model is asked, without secrets and perhaps cut."""
    cut: bool = False
    """Whether the preview lacks an end."""
    valid_seconds: float
    """How long an approval stands."""
    status: ApprovalStatus = ApprovalStatus.PENDING
    requested_at: datetime
    expires_at: datetime
    """Pending: when it expires. Approved: until when the call may use it. Else: until when a repeat is refused."""
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str = ""
    closed_at: datetime | None = None
    """When repeats of the call ceased to find it."""
