"""Wake statistics of an agent's current day, in snake_case and camelCase (WAKE-70)."""

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from circadia.api.parts import ApiParts, Parts, Who, noun_router
from circadia.api.references import own_agent
from circadia.records.principal import Principal
from circadia.schemas.wakes import WakeStatsView
from circadia.wake.admission.stats import WakeStats, fetch_wake_stats

router = noun_router("wake-stats", prefix="")


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
    limits = stats.limits
    return WakeStatsView.of(
        stats,
        agent=reference,
        max_wakes_per_day=limits.max_wakes_per_day,
        cooldown_seconds=limits.cooldown_seconds,
        last_wake_time=None if stats.last_wake_at is None else int(stats.last_wake_at.timestamp() * 1000),
        max_daily_session_minutes=limits.max_daily_session_minutes,
    )
