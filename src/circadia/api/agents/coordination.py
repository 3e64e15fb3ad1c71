"""How an agent may be woken: each setting with where it was made, and a change that holds from then on (WAKE-16)."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Body
from pydantic import BaseModel, Field

from circadia.agents.access import require_operator
from circadia.api.parts import Parts, Who, noun_router
from circadia.api.references import named_agent, own_agent
from circadia.errors import InvalidRequest
from circadia.records.agent import Agent
from circadia.records.coordination import KEYS, SettingSource, flatten_coordination
from circadia.wake.coordination import flatten_keys

router = noun_router("coordination")


class SettingView(BaseModel):
    """One setting."""

    value: Any = Field(description="What holds; null is no limit.")
    source: SettingSource = Field(description="Where it was made last: `default`, `file` or `patch`.")
    at: datetime | None = Field(description="When; null for a default.")


class CoordinationView(BaseModel):
    """How an agent may be woken."""

    agent: str = Field(description="Reference of the agent.", examples=["writer"])
    settings: dict[str, SettingView] = Field(
        description="Each setting by its flat name.",
        examples=[{"wake_guardrails.max_wakes_per_day": {"value": 4, "source": "patch", "at": "2026-01-31T12:00:00Z"}}],
    )


@router.get("/agents/{a}/coordination")
async def show_coordination(a: str, who: Who, parts: Parts) -> CoordinationView:
    """Tell each setting of how an agent may be woken, with its source. The operator, and the agent itself."""
    async with parts.store.begin_read() as tx:
        return _view(await own_agent(tx, who, a))


@router.patch("/agents/{a}/coordination")
async def change_coordination(
    a: str,
    body: Annotated[
        dict[str, Any],
        Body(
            description="Settings to change, nested as in the file or by flat name; null for a limit takes it away.",
            examples=[{"wake_guardrails": {"max_wakes_per_day": 4}}],
        ),
    ],
    who: Who,
    parts: Parts,
) -> CoordinationView:
    """Change how an agent may be woken, from the next decision on. The operator only."""
    require_operator(who)
    async with parts.store.begin_write() as tx:
        agent = await named_agent(tx, who, a)
        changed = await parts.wake.coordinations.patch(tx, agent, body, by=who.name)
        _require_same_types(flatten_keys(body), flatten_coordination(changed.coordination))
    return _view(changed)


@router.delete("/agents/{a}/coordination/{key}")
async def reset_coordination(a: str, key: str, who: Who, parts: Parts) -> CoordinationView:
    """Take back what was patched of a setting, by its flat name: the file or the default holds again.

    The operator only. Nothing happens to a setting that was not patched.
    """
    require_operator(who)
    async with parts.store.begin_write() as tx:
        return _view(await parts.wake.coordinations.reset(tx, await named_agent(tx, who, a), key, by=who.name))


def _require_same_types(given: dict[str, object], made: dict[str, object]) -> None:
    """Raise InvalidRequest where a value was read as one of another type; that undoes the change."""
    for name, value in given.items():
        if not isinstance(value, list) and _kind(value) is not _kind(made[name]):
            raise InvalidRequest(f"{name}: {value!r} is of the wrong type; write it as {made[name]!r}")


def _kind(value: object) -> type:
    """Return the type as JSON has it: one for all numbers."""
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _view(agent: Agent) -> CoordinationView:
    values = flatten_coordination(agent.coordination)
    settings: dict[str, SettingView] = {}
    for name in KEYS:
        made = agent.settings.get(name)
        settings[name] = SettingView(
            value=values[name],
            source=SettingSource.DEFAULT if made is None else made.source,
            at=None if made is None else made.at,
        )
    return CoordinationView(agent=agent.reference, settings=settings)
