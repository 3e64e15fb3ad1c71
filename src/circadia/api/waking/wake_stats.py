"""Wake statistics of an agent's current day, in snake_case and camelCase (WAKE-70)."""

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
    """An agent's wakes in its current day, against its limits; null means no limit, or never."""

    agent: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    wakes_today: int = Field(description="Number of wakes today that count.")
    max_wakes_per_day: int | None = Field(description="Maximum number of wakes per day.")
    cooldown_seconds: float | None = Field(description="Minimum time between two wakes.")
    last_wake_time: int | None = Field(
        description="Time of the last admitted wake that counts, in milliseconds since 1970.",
        examples=[1_740_000_000_000],
    )
    max_daily_session_minutes: float | None = Field(description="Maximum run time of its pulses per day.")
    date: Day = Field(description="Current day in the agent's time zone.")
    timezone: str = Field(description="Time zone of the agent.", examples=["Europe/Berlin"])
    resets_at: datetime = Field(description="End of that day.")
    cooldown_remaining_seconds: float = Field(description="Remaining cooldown; 0 if it is over.")
    session_minutes_today: float = Field(description="Run time of its pulses today, including open ones.")
    per_source: dict[str, int] = Field(description="Number of counted wakes by requester.")
    refused_today: dict[str, int] = Field(description="Number of refused requests today by guardrail.")
    deferred: int = Field(description="Number of deferred requests.")
    active_pulses: int = Field(description="Number of open pulses.")


class WakeStatsInCamelCase(WakeStatsView):
    """The same in DjinnBot's camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


@router.get("/api/v1/agents/{agent}/wake-stats", operation_id="wake_stats")
async def show_wake_stats(agent: str, who: Who, parts: Parts) -> WakeStatsView:
    """Show an agent's wakes in its current day. Access: operator, the agent."""
    return await _stats(agent, who, parts)


@router.get("/v1/agents/{agent}/wake-stats", operation_id="wake_stats_bare")
async def show_wake_stats_bare(agent: str, who: Who, parts: Parts) -> WakeStatsInCamelCase:
    """Show the same in camelCase, at DjinnBot's path. Access: operator, the agent."""
    return WakeStatsInCamelCase(**dict(await _stats(agent, who, parts)))


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
