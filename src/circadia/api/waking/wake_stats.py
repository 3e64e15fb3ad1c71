"""Wake statistics of an agent's current day (WAKE-70)."""

from circadia.api.parts import Parts, Who, noun_router
from circadia.api.references import own_agent
from circadia.schemas.wakes import WakeStatsView
from circadia.wake.admission.budgets import WakeStats, fetch_wake_stats

router = noun_router("wake-stats")


@router.get("/agents/{agent}/wake-stats", operation_id="wake_stats")
async def show_wake_stats(agent: str, who: Who, parts: Parts) -> WakeStatsView:
    """Show an agent's wakes in its current day. Access: operator, the agent."""
    async with parts.store.begin_read() as tx:
        found_agent = await own_agent(tx, who, agent)
        return _view(found_agent.reference, await fetch_wake_stats(tx, found_agent, parts.clock.now()))


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
