"""Approvals of calls, in answers."""

from datetime import datetime

from pydantic import Field

from circadia.records.approval import Approval, ApprovalRule, ApprovalStatus
from circadia.records.session import build_reference
from circadia.schemas.view import View


class ApprovalView(View):
    """A person's approval of one call, which waits until then."""

    id: str = Field(description="Unique id.", examples=["apr_0cwd…"])
    agent: str = Field(description="Name of the agent.", examples=["writer"])
    session: str = Field(description="Name of the session.", examples=["default"])
    reference: str = Field(description="`name` in the session `default`, else `session:name`.", examples=["writer"])
    door: str = Field(description="`model` or `mcp`.", examples=["mcp"])
    target: str = Field(description="Provider or MCP server that the call is for.", examples=["github"])
    what: str = Field(description="Called endpoint or tool.", examples=["tools/call merge_pull_request"])
    rule: ApprovalRule = Field(description="Part of the policy that asks: `tool`, `model` or `spend`.")
    model: str = Field(description="Model that a model call names; empty without one.")
    max_usd: float | None = Field(description="Highest price of a model call; null if unknown, and for tools.")
    preview: str = Field(description="The tool's arguments, or what the model is asked, without secrets.")
    cut: bool = Field(description="Whether the preview lacks an end.")
    digest: str = Field(description="SHA-256 of the call: an approval is for this call and for no other.")
    status: ApprovalStatus = Field(
        description="`pending`; `approved` until the call is sent, then `used`; `refused`; `expired`."
    )
    requested_at: datetime = Field(description="Time of the call.")
    expires_at: datetime = Field(
        description="Pending: when it expires. Approved: until when the call may use it. Else: until when a repeat of "
        "the call is refused without asking again."
    )
    decided_by: str | None = Field(description="Who approved or refused it.", examples=["operator/pat"])
    decided_at: datetime | None = Field(description="Time of the decision.")
    reason: str = Field(description="Reason of the decision; the agent gets that of a refusal.")


class ApprovalList(View):
    """A page of approvals."""

    approvals: list[ApprovalView] = Field(description="Newest first.")
    before: str | None = Field(None, description="`before` of the next page; null in the last one.")


def approval_view(approval: Approval) -> ApprovalView:
    return ApprovalView.of(
        approval,
        reference=build_reference(approval.session, approval.agent),
        max_usd=None if approval.nanousd is None else approval.nanousd / 1e9,
    )
