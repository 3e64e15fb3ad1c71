"""Usage: total tokens, cost and time of model calls."""

from collections.abc import Sequence
from typing import Annotated, Any, cast

from fastapi import Query
from pydantic import AfterValidator, BeforeValidator

from circadia.agents.access import require_operator
from circadia.agents.directory import require_names
from circadia.api.context import Context, Who, noun_router
from circadia.api.references import Instant
from circadia.records.call import UsageGroup
from circadia.schemas.usage import GroupBy, GroupUsage, UsageLine, UsageReport

router = noun_router("usage")


_NANO = 10**9
_COUNTS = (
    "calls", "unknown", "failed", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "unpriced",
)  # fmt: skip


def _split_commas(given: Any) -> Any:
    """Return all groupings of a repeated parameter whose values may list several."""
    values = cast("list[Any]", given) if isinstance(given, list) else [given]
    return [grouping for value in values for grouping in str(value).split(",")]


def _require_different(groupings: list[GroupBy]) -> list[GroupBy]:
    if len(set(groupings)) != len(groupings):
        raise ValueError(f"{groupings[0]!r} is given twice; give another grouping, or one only")
    return groupings


@router.get("/usage")
async def report_usage(
    who: Who,
    context: Context,
    group_by: Annotated[
        list[GroupBy],
        BeforeValidator(_split_commas),
        AfterValidator(_require_different),
        Query(min_length=1, max_length=2, description="One or two groupings, as in `day,tier`; days are in UTC."),
    ] = ["agent"],  # noqa: B006 (FastAPI copies it)
    since: Annotated[Instant, Query(description="Calls at or after this date or time.")] = None,
    until: Annotated[Instant, Query(description="Calls before this date or time.")] = None,
    session: Annotated[str | None, Query(description="Only of this session.")] = None,
    agent: Annotated[str | None, Query(description="Only of agents with this name.")] = None,
    after: Annotated[str | None, Query(description="`next` of the previous page.")] = None,
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Groups of a page, roughly: all groups of a key are in the same page.")
    ] = 1000,
) -> UsageReport:
    """Sum up the ended model calls. Operator only.

    By `agent`, `end_user` or `conversation`, a page has the groups of the next keys of that. With two of them, calls
    that lack one of them count in `total` only.
    """
    require_operator(who)
    async with context.store.begin_read() as tx:
        await require_names(tx, who, session, agent)
        page = await tx.calls.find_usage_page(
            *group_by, since=since, until=until, session=session, agent=agent, limit=limit, after=after
        )
    return UsageReport(
        group_by=",".join(group_by), usage=[group_usage(group) for group in page.groups],
        total=usage_line([page.total]), next=page.next,
    )  # fmt: skip


def group_usage(group: UsageGroup) -> GroupUsage:
    return GroupUsage.of(usage_line([group]), key=group.key, keys=group.keys)


def usage_line(groups: Sequence[UsageGroup]) -> UsageLine:
    counts = {name: sum(getattr(group, name) for group in groups) for name in _COUNTS}
    return UsageLine(
        cost_usd=sum(group.cost_nanousd for group in groups) / _NANO,
        held_seconds=round(sum(group.held_seconds for group in groups), 3),
        **counts,
    )
