"""Wake settings of an agent: show each with its source, and change them for later decisions (WAKE-16)."""

from typing import Annotated, Any

from fastapi import Body, Response

from circadia.agents.access import require_operator
from circadia.api.context import Context, Who, noun_router
from circadia.api.entity_tags import TAGGED, IfMatch, entity_tag, require_match, set_etag
from circadia.api.references import named_agent, own_agent
from circadia.records.agent import Agent
from circadia.records.coordination import KEYS, SettingSource, flatten_coordination
from circadia.records.event import EventType
from circadia.schemas.coordination import CoordinationView, SettingView
from circadia.stores.base import Tx

router = noun_router("coordination")


@router.get("/agents/{agent}/coordination", responses=TAGGED)
async def show_coordination(agent: str, response: Response, who: Who, context: Context) -> CoordinationView:
    """Show the wake settings of an agent with their sources. Access: operator, the agent."""
    async with context.store.begin_read() as tx:
        return _tagged_view(await own_agent(tx, who, agent), response)


@router.patch("/agents/{agent}/coordination", responses=TAGGED)
async def change_coordination(
    agent: str,
    body: Annotated[
        dict[str, Any],
        Body(
            description="Settings to change, nested as in the file or by flat name; null removes a limit.",
            examples=[{"wake_guardrails": {"max_wakes_per_day": 4}}],
        ),
    ],
    response: Response,
    who: Who,
    context: Context,
    if_match: IfMatch = None,
) -> CoordinationView:
    """Change the wake settings of an agent, starting with the next decision. Operator only."""
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_agent = await named_agent(tx, who, agent)
        await _require_match(tx, if_match, found_agent)
        changed = await context.wake.coordinations.patch(tx, found_agent, body, by=who.name)
    return _tagged_view(changed, response)


@router.delete("/agents/{agent}/coordination/{key}", responses=TAGGED)
async def reset_coordination(
    agent: str, key: str, response: Response, who: Who, context: Context, if_match: IfMatch = None
) -> CoordinationView:
    """Undo a change of a setting, by its flat name: the file or the default applies again.

    Operator only. A setting that was not changed stays as it is.
    """
    require_operator(who)
    async with context.store.begin_write() as tx:
        found_agent = await named_agent(tx, who, agent)
        await _require_match(tx, if_match, found_agent)
        changed = await context.wake.coordinations.reset(tx, found_agent, key, by=who.name)
    return _tagged_view(changed, response)


async def _require_match(tx: Tx, if_match: str | None, agent: Agent) -> None:
    what, changes = f"the coordination of {agent.reference!r}", (EventType.COORDINATION,)
    await require_match(tx, if_match, entity_tag(_settings(agent)), what, changes=changes, agent=agent)


def _tagged_view(agent: Agent, response: Response) -> CoordinationView:
    settings = _settings(agent)
    tag = entity_tag(settings)
    set_etag(response, tag)
    return CoordinationView(etag=tag, agent=agent.reference, settings=settings)


def _settings(agent: Agent) -> dict[str, SettingView]:
    values = flatten_coordination(agent.coordination)
    settings: dict[str, SettingView] = {}
    for name in KEYS:
        setting = agent.settings.get(name)
        settings[name] = SettingView(
            value=values[name],
            source=SettingSource.DEFAULT if setting is None else setting.source,
            at=None if setting is None else setting.at,
        )
    return settings
