"""Usage: total tokens, cost and time of model calls."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from circadia.agents.access import require_operator
from circadia.agents.directory import require_names
from circadia.api.parts import Parts, Who, noun_router
from circadia.api.references import Instant
from circadia.records.call import UsageGroup

router = noun_router("usage")

GroupBy = Literal["agent", "model", "tier", "session", "upstream", "end_user", "conversation", "day"]

_NANO = 10**9


class UsageLine(BaseModel):
    """Totals over model calls. Token totals exclude calls without reported usage."""

    calls: int = Field(description="Number of calls.")
    unknown: int = Field(description="Calls whose usage the provider did not report.")
    failed: int = Field(description="Calls that failed.")
    input_tokens: int = Field(description="Input tokens, including cached ones.")
    output_tokens: int = Field(description="Output tokens, including reasoning.")
    cached_tokens: int = Field(description="Input tokens from the provider's cache.")
    reasoning_tokens: int = Field(description="Output tokens for reasoning.")
    cost_usd: float = Field(description="US dollars at list prices, for calls with a known price.")
    unpriced: int = Field(description="Calls without a known price.")
    held_seconds: float = Field(description="Total time held.")


class GroupUsage(UsageLine):
    """Totals of one group."""

    key: str = Field(description="Agent reference, model, day …; empty if a call has none.")


class UsageReport(BaseModel):
    """Totals of model calls by group."""

    group_by: GroupBy = Field(description="Grouping.")
    usage: list[GroupUsage] = Field(description="Sorted by key.")
    total: UsageLine = Field(description="Totals over all groups.")


@router.get("/usage")
async def report_usage(
    who: Who,
    parts: Parts,
    group_by: Annotated[GroupBy, Query(description="Grouping; days are in UTC.")] = "agent",
    since: Annotated[Instant, Query(description="Calls at or after this date or time.")] = None,
    until: Annotated[Instant, Query(description="Calls before this date or time.")] = None,
    session: Annotated[str | None, Query(description="Only of this session.")] = None,
    agent: Annotated[str | None, Query(description="Only of agents with this name.")] = None,
) -> UsageReport:
    """Sum up the ended model calls. Operator only."""
    require_operator(who)
    async with parts.store.begin_read() as tx:
        await require_names(tx, who, session, agent)
        groups = await tx.calls.sum_by_group(group_by, since=since, until=until, session=session, agent=agent)
    return UsageReport(
        group_by=group_by,
        usage=[GroupUsage(key=group.key, **dict(_line([group]))) for group in groups],
        total=_line(groups),
    )


def _line(groups: Sequence[UsageGroup]) -> UsageLine:
    return UsageLine(
        calls=sum(each.calls for each in groups),
        unknown=sum(each.unknown for each in groups),
        failed=sum(each.failed for each in groups),
        input_tokens=sum(each.input_tokens for each in groups),
        output_tokens=sum(each.output_tokens for each in groups),
        cached_tokens=sum(each.cached_tokens for each in groups),
        reasoning_tokens=sum(each.reasoning_tokens for each in groups),
        cost_usd=sum(each.cost_nanousd for each in groups) / _NANO,
        unpriced=sum(each.unpriced for each in groups),
        held_seconds=round(sum(each.held_seconds for each in groups), 3),
    )
