"""Wake settings of an agent: show each with its source, and change them for later decisions (WAKE-16)."""

from typing import Annotated, Any

from fastapi import Body

from circadia.agents.access import require_operator
from circadia.api.parts import Parts, Who, noun_router
from circadia.api.references import named_agent, own_agent
from circadia.records.agent import Agent
from circadia.records.coordination import KEYS, SettingSource, flatten_coordination
from circadia.schemas.coordination import CoordinationView, SettingView

router = noun_router("coordination")


@router.get("/agents/{agent}/coordination")
async def show_coordination(agent: str, who: Who, parts: Parts) -> CoordinationView:
    """Show the wake settings of an agent with their sources. Access: operator, the agent."""
    async with parts.store.begin_read() as tx:
        return _view(await own_agent(tx, who, agent))


@router.patch("/agents/{agent}/coordination")
async def change_coordination(
    agent: str,
    body: Annotated[
        dict[str, Any],
        Body(
            description="Settings to change, nested as in the file or by flat name; null removes a limit.",
            examples=[{"wake_guardrails": {"max_wakes_per_day": 4}}],
        ),
    ],
    who: Who,
    parts: Parts,
) -> CoordinationView:
    """Change the wake settings of an agent, starting with the next decision. Operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        found_agent = await named_agent(tx, who, agent)
        changed = await parts.wake.coordinations.patch(tx, found_agent, body, by=who.name)
    return _view(changed)


@router.delete("/agents/{agent}/coordination/{key}")
async def reset_coordination(agent: str, key: str, who: Who, parts: Parts) -> CoordinationView:
    """Undo a change of a setting, by its flat name: the file or the default applies again.

    Operator only. A setting that was not changed stays as it is.
    """
    require_operator(who)
    async with parts.store.begin_write() as tx:
        return _view(await parts.wake.coordinations.reset(tx, await named_agent(tx, who, agent), key, by=who.name))


def _view(agent: Agent) -> CoordinationView:
    values = flatten_coordination(agent.coordination)
    settings: dict[str, SettingView] = {}
    for name in KEYS:
        setting = agent.settings.get(name)
        settings[name] = SettingView(
            value=values[name],
            source=SettingSource.DEFAULT if setting is None else setting.source,
            at=None if setting is None else setting.at,
        )
    return CoordinationView(agent=agent.reference, settings=settings)
