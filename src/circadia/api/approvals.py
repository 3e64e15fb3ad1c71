"""Approvals of calls: list, show, approve, refuse (WAKE-86)."""

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from circadia.agents.access import require_operator
from circadia.api.bodies import Body, named_agent
from circadia.api.context import ApiContext, Context, Limit, Who, fetch_page, noun_router
from circadia.ids import ApprovalId
from circadia.records.approval import ApprovalStatus
from circadia.records.principal import Principal
from circadia.schemas.approvals import ApprovalList, ApprovalView, approval_view

router = noun_router("approvals")

ApprovalPath = Annotated[str, Path(alias="approval", description="Id of the approval.")]


class ApprovalBody(Body):
    """A decision."""

    reason: str = Field("", max_length=1000, description="Why; optional.", examples=["checked with the customer"])


class RefusalBody(Body):
    """A refusal."""

    reason: str = Field(
        min_length=1, max_length=1000, description="Why; the agent gets it.", examples=["merge it after the release"]
    )


@router.get("/approvals")
async def list_approvals(
    who: Who,
    context: Context,
    status: Annotated[ApprovalStatus | None, Query(description="Only with this status.")] = None,
    agent: Annotated[str | None, Query(description="Only for calls of this agent.")] = None,
    before: Annotated[str | None, Query(description="Id of the last approval on the previous page.")] = None,
    limit: Limit = 100,
) -> ApprovalList:
    """List the calls that needed a person's approval, newest first. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        agent_id = None if agent is None else (await named_agent(tx, who, agent)).id
        first = None if before is None else ApprovalId(before)
        approvals, more = await fetch_page(
            lambda last, most: tx.approvals.find_all(
                status=status, agent_id=agent_id, before=first if last is None else last.id, limit=most
            ),
            limit,
        )
    return ApprovalList(
        approvals=[approval_view(each) for each in approvals], before=approvals[-1].id if more else None
    )


@router.get("/approvals/{approval}")
async def show_approval(approval: ApprovalPath, who: Who, context: Context) -> ApprovalView:
    """Show a call that needed a person's approval. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        return approval_view(await context.approvals.get(tx, approval))


@router.post("/approvals/{approval}/approve")
async def approve_call(
    approval: ApprovalPath, who: Who, context: Context, body: ApprovalBody | None = None
) -> ApprovalView:
    """Let a call pass that waits for approval. It is sent once; a changed call asks anew.

    A call that is decided or has expired is a conflict. Operator only.
    """
    return await _decide(context, who, approval, approves=True, reason="" if body is None else body.reason)


@router.post("/approvals/{approval}/refuse")
async def refuse_call(approval: ApprovalPath, body: RefusalBody, who: Who, context: Context) -> ApprovalView:
    """Refuse a call that waits for approval. Its agent gets the reason as its protocol's own error.

    A call that is decided or has expired is a conflict. Operator only.
    """
    return await _decide(context, who, approval, approves=False, reason=body.reason)


async def _decide(context: ApiContext, who: Principal, approval: str, *, approves: bool, reason: str) -> ApprovalView:
    require_operator(who)
    async with context.store.begin_write() as tx:
        return approval_view(
            await context.approvals.decide(tx, approval, approves=approves, by=who.name, reason=reason)
        )
