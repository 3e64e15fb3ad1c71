"""Wake statistics of one agent's day, in both spellings (WAKE-70)."""

from datetime import date as Day
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.api.references import own_agent
from circadia.records.principal import Principal
from circadia.wake.admission.stats import WakeStats, fetch_wake_stats

router = noun_router("wake-stats", prefix="")


class WakeStatsView(BaseModel):
    """An agent's wakes in its present day, against its limits; null is no limit, or never."""

    agent: str = Field(description="Reference of the agent.", examples=["writer"])
    wakes_today: int = Field(description="Wakes that count, in the day of its zone.")
    max_wakes_per_day: int | None = Field(description="Their limit.")
    cooldown_seconds: float | None = Field(description="Least time between two wakes.")
    last_wake_time: int | None = Field(
        description="When one was last admitted that counts, in milliseconds since 1970.", examples=[1_740_000_000_000]
    )
    max_daily_session_minutes: float | None = Field(description="Limit of the minutes that its pulses may run a day.")
    date: Day = Field(description="The day that it is in its zone.")
    timezone: str = Field(description="Its zone.", examples=["Europe/Berlin"])
    resets_at: datetime = Field(description="When that day ends.")
    cooldown_remaining_seconds: float = Field(description="Until its cooldown is over; 0 if it is.")
    session_minutes_today: float = Field(description="Minutes that its pulses have run today, the present ones too.")
    per_source: dict[str, int] = Field(description="Of the wakes that count, how many who asked for.")
    refused_today: dict[str, int] = Field(description="Refused requests of today by guardrail.")
    deferred: int = Field(description="Requests that wait.")
    active_pulses: int = Field(description="Its pulses that have not ended.")


class WakeStatsInCamelCase(WakeStatsView):
    """The same with the names of the source design."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


@router.get("/api/v1/agents/{a}/wake-stats", operation_id="wake_stats")
async def show_wake_stats(a: str, who: Who, parts: Parts) -> WakeStatsView:
    """Tell an agent's wakes of its present day. The operator, and the agent itself."""
    return await _stats(a, who, parts)


@router.get("/v1/agents/{a}/wake-stats", operation_id="wake_stats_bare")
async def show_wake_stats_bare(a: str, who: Who, parts: Parts) -> WakeStatsInCamelCase:
    """Tell the same in camelCase, at the path of the source design. The operator, and the agent itself."""
    return WakeStatsInCamelCase(**dict(await _stats(a, who, parts)))


async def _stats(reference: str, who: Principal, parts: ApiParts) -> WakeStatsView:
    async with parts.store.begin_read() as tx:
        agent = await own_agent(tx, who, reference)
        return _view(agent.reference, await fetch_wake_stats(tx, agent, parts.clock.now()))


def _view(reference: str, stats: WakeStats) -> WakeStatsView:
    return WakeStatsView(
        agent=reference,
        wakes_today=stats.wakes_today,
        max_wakes_per_day=stats.limits.max_wakes_per_day,
        cooldown_seconds=stats.limits.cooldown_seconds,
        last_wake_time=None if stats.last_wake_at is None else int(stats.last_wake_at.timestamp() * 1000),
        max_daily_session_minutes=stats.limits.max_daily_session_minutes,
        date=stats.day,
        timezone=stats.zone,
        resets_at=stats.resets_at,
        cooldown_remaining_seconds=stats.cooldown_remaining_seconds,
        session_minutes_today=stats.session_minutes_today,
        per_source=dict(stats.per_source),
        refused_today=dict(stats.refused_today),
        deferred=stats.deferred,
        active_pulses=stats.active_pulses,
    )
