"""The fleet: its overview and problems (UI-03), held calls, servers, providers, usage, and tokens of people."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from importlib.metadata import version
from typing import Annotated, Any, Final, cast

from fastapi import Path, Query
from pydantic import AfterValidator, BeforeValidator, Field
from starlette.responses import StreamingResponse

from circadia.agents.access import require_operator
from circadia.agents.directory import require_names
from circadia.api.bodies import Body, Instant
from circadia.api.context import AgentFilter, Context, LongLimit, NextPage, SessionFilter, Who, noun_router
from circadia.api.needs import find_problems
from circadia.gateway.model_call.hold import HoldView
from circadia.ids import HoldId
from circadia.memory.embedding.background import EMBEDDER_DOWN
from circadia.records.agent import MAX_COUNT
from circadia.records.call import UsageGroup
from circadia.records.member import MemberHolds, find_conflicts
from circadia.records.principal import AccessRole
from circadia.records.session import build_reference
from circadia.schemas.config import ConfigurationView, EffectiveSettingView
from circadia.schemas.fleet import (
    ROLE,
    AccessTokenCreated,
    AccessTokenList,
    AccessTokenView,
    AlertView,
    Cluster,
    GroupBy,
    GroupUsage,
    HeldCall,
    HoldList,
    MemberHoldsView,
    MemberView,
    OverviewView,
    PrincipalLink,
    PrincipalView,
    ProblemView,
    UpstreamList,
    UpstreamView,
    UsageLine,
    UsageReport,
)
from circadia.settings.effective import list_settings
from circadia.settings.root import fingerprint
from circadia.settings.upstreams import Api, UpstreamSettings
from circadia.sleeptime.engine.health import RED_BANK

router = noun_router("overview")

_ALERTS: Final = timedelta(days=1)
_MAX_ALERTS: Final = 20
_NANO: Final = 10**9


@router.get("/overview")
async def show_overview(who: Who, context: Context) -> OverviewView:
    """Show the fleet at a glance: agents, held calls, today's usage, savings and wakes, alerts and problems.

    Operator only.
    """
    require_operator(who)
    now = context.clock.now()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    async with context.store.begin_read() as tx:
        members = await tx.members.find_all(now)
        counts = await tx.overviews.count(now, own=context.member_id)
        tiers = await tx.calls.sum_by_group("tier", since=today)
        alerts = await tx.alerts.find_recent(since=now - _ALERTS, limit=_MAX_ALERTS)
        problems = await find_problems(tx, context, counts, members)
    _, held_here = context.holds.list_holds(limit=1)
    return OverviewView.of(
        counts,
        held=counts.held + held_here,
        usage_today=[group_usage(tier) for tier in tiers],
        saved_usd_today=counts.saved_nanousd_today / _NANO,
        alerts=[AlertView.of(alert) for alert in alerts if alert.cause not in (RED_BANK, EMBEDDER_DOWN)],
        problems=[problem.text for problem in problems],
        attention=[ProblemView.of(problem) for problem in problems],
    )


hold_router = noun_router("holds")


@hold_router.get("/holds")
async def list_holds(
    who: Who, context: Context, session: SessionFilter = None, agent: AgentFilter = None, limit: LongLimit = 1000
) -> HoldList:
    """List the calls that this server holds, and count those that the other servers of its cluster hold.

    Operator only.
    """
    require_operator(who)
    async with context.store.begin_read() as tx:
        await require_names(tx, who, session, agent)
        others: Sequence[MemberHolds] = ()
        total_elsewhere = 0
        if context.member_id is not None:
            others, total_elsewhere = await tx.hold_places.find_of_others(
                context.member_id, context.clock.now(), session=session, agent=agent, limit=limit
            )
    views, total = context.holds.list_holds(session=session, agent=agent, limit=limit)
    return HoldList(
        holds=[_held_call(view) for view in views],
        total=total,
        elsewhere=[MemberHoldsView.of(each) for each in others],
        total_elsewhere=total_elsewhere,
    )


@hold_router.post("/holds/{hold}/drop")
async def drop_hold(hold: str, who: Who, context: Context) -> HeldCall:
    """End a call that this server holds, with an error that SDKs do not retry; its agent stays asleep.

    Operator only.
    """
    require_operator(who)
    return _held_call(context.holds.drop(HoldId(hold), by=who.name))


def _held_call(view: HoldView) -> HeldCall:
    return HeldCall.of(view, reference=build_reference(view.session, view.agent))


call_router = noun_router("calls")


@call_router.get(
    "/calls/{call}/answer",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events."}},
)
async def resume_answer(
    call: Annotated[str, Path(description="Id of the call.")],
    who: Who,
    context: Context,
    after: Annotated[int, Query(ge=0, le=MAX_COUNT, description="Number of events that you have.")] = 0,
) -> StreamingResponse:
    """Fetch the rest of a streamed model answer after your connection broke, as its provider's own events.

    The header `x-circadia-call` of the answer has the id. Comments and pings are no events here. Only with the token
    that made the call, whose policy has `resume_seconds`, and only at the server that took the call.
    """
    answer = context.resumable.find(who, call, after)
    headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
    events = answer.read(after, context.settings.defaults.keep_alive_seconds)
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


cluster_router = noun_router("cluster")


@cluster_router.get("/cluster")
async def show_cluster(who: Who, context: Context) -> Cluster:
    """List the live servers on this database. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        members = await tx.members.find_all(context.clock.now())
    conflicts = find_conflicts(members)
    return Cluster(members=[MemberView.of(member) for member in members], conflicts=list(conflicts))


upstream_router = noun_router("upstreams")

_VARIABLES: Final[Mapping[Api, tuple[str, str, str]]] = {
    "openai": ("/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "anthropic": ("", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "gemini": ("", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
}
"""End of the path, and the variables that the official SDKs read."""
_AZURE: Final = ("", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY")


@upstream_router.get("/upstreams")
async def list_upstreams(who: Who, context: Context) -> UpstreamList:
    """List the providers of the configuration, with what an agent's environment needs to reach them. Operator only."""
    require_operator(who)
    return UpstreamList(
        upstreams=[_upstream_view(name, upstream) for name, upstream in context.settings.upstreams.items()]
    )


def _upstream_view(name: str, upstream: UpstreamSettings) -> UpstreamView:
    end, url, key = _AZURE if upstream.key_header == "api-key" else _VARIABLES[upstream.api]
    return UpstreamView(name=name, api=upstream.api, path=f"/llm/{name}{end}", url_variable=url, key_variable=key)


config_router = noun_router("config")


@config_router.get("/config")
async def show_config(who: Who, context: Context) -> ConfigurationView:
    """Show the configuration with which this server has started, without secrets. Operator only.

    Agents that the file has changed since are in force as `GET /sessions/{session}/agents/{agent}` shows them.
    """
    require_operator(who)
    stated = context.settings.model_dump(mode="json", exclude_unset=True)
    return ConfigurationView(
        version=version("circadia"), check=fingerprint(context.settings),
        settings=[EffectiveSettingView.of(setting) for setting in list_settings(context.settings, stated)],
    )  # fmt: skip


usage_router = noun_router("usage")


_COUNTS = (
    "calls", "unknown", "failed", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "unpriced",
)  # fmt: skip


def _split_commas(parameter: Any) -> Any:
    """Return all groupings of a repeated parameter whose values may list several."""
    values = cast("list[Any]", parameter) if isinstance(parameter, list) else [parameter]
    return [grouping for value in values for grouping in str(value).split(",")]


def _require_different(groupings: list[GroupBy]) -> list[GroupBy]:
    if len(set(groupings)) != len(groupings):
        raise ValueError(f"{groupings[0]!r} is given twice; give another grouping, or one only")
    return groupings


@usage_router.get("/usage")
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
    session: SessionFilter = None,
    agent: AgentFilter = None,
    after: NextPage = None,
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


token_router = noun_router("tokens")


class TokenBody(Body):
    name: str = Field(description="The person who gets it; events call that person ROLE/NAME.", examples=["ann"])
    role: AccessRole = Field(description=ROLE)


@token_router.post("/tokens", status_code=201)
async def create_token(body: TokenBody, who: Who, context: Context) -> AccessTokenCreated:
    """Create a token for a person. Only this answer has its secret. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        token, secret = await context.tokens.grant(tx, body.name, body.role, by=who.name)
    return AccessTokenCreated.of(token, token=secret)


@token_router.get("/tokens")
async def list_tokens(who: Who, context: Context) -> AccessTokenList:
    """List the tokens of people, without their secrets. Operator only."""
    require_operator(who)
    async with context.store.begin_read() as tx:
        return AccessTokenList(tokens=[AccessTokenView.of(token) for token in await tx.access_tokens.find_all()])


@token_router.delete("/tokens/{name}", status_code=204)
async def revoke_token(name: str, who: Who, context: Context) -> None:
    """Revoke a token at all servers. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        await context.tokens.revoke(tx, name, by=who.name)


@token_router.get("/me")
async def show_principal(who: Who) -> PrincipalView:
    """Show the owner of the request's token."""
    return PrincipalView.of(who)


@token_router.post("/me/links", status_code=201)
async def create_sign_in_link(who: Who, context: Context) -> PrincipalLink:
    """Create a link that opens the dashboard signed in, once and within a minute. Access: people."""
    return PrincipalLink(path=context.sign_in.create_link(who))
