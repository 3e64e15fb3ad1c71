"""Key `coordination` of an agent, and section `fleet`: how agents may be woken. What is not stated has its default."""

from typing import Any

from pydantic import Field

from circadia.records.coordination import OnBlock, PairMode
from circadia.settings.section import Section


class GuardrailsSettings(Section):
    """Limits of wakes: 0 allows none, null means no limit."""

    cooldown_seconds: float | None = Field(300.0, ge=0, description="Least time between two wakes of the agent.")
    max_daily_session_minutes: float | None = Field(
        120.0, ge=0, description="Minutes that its pulses may run in a day of its zone."
    )
    max_wakes_per_day: int | None = Field(12, ge=0, description="Wakes of the agent in a day of its zone.")
    max_wakes_per_pair_per_day: int | None = Field(5, ge=0, description="Of these, wakes by the same agent.")
    max_wakes_per_session: int | None = Field(
        3,
        ge=0,
        description="Wakes that a sender may ask for in one pulse or time awake; in a day, where that has no time "
        "limit.",
    )
    pair_mode: PairMode = Field(
        PairMode.DIRECTED, description="`directed` counts a pair one way, `undirected` both ways."
    )
    max_chain_depth: int | None = Field(24, ge=0, description="Wakes from the root of a chain.")
    max_chain_visits: int | None = Field(None, ge=0, description="Wakes of the same agent in a chain.")


class CoordinationSettings(Section):
    """How an agent may be woken."""

    wakes_enabled: bool = Field(True, description="Whether it can be woken at all, but by a person.")
    launcher: str = Field(
        "resident", description="How its pulses run: `resident` opens its gate; else a name of `launchers`."
    )
    max_concurrent_pulse_sessions: int | None = Field(2, ge=0, description="Its pulses at the same time.")
    wake_guardrails: GuardrailsSettings = Field(GuardrailsSettings.model_validate({}), description="Limits of wakes.")
    on_busy: OnBlock = Field(OnBlock.DEFER, description="`defer` or `refuse` a wake while it has a pulse.")
    on_cooldown: OnBlock = Field(OnBlock.DEFER, description="`defer` or `refuse` a wake in its cooldown.")
    on_concurrency: OnBlock = Field(OnBlock.DEFER, description="`defer` or `refuse` a wake while all places are taken.")
    guard_thread_events: bool = Field(False, description="Whether its `wake_events` pass the guardrails too.")
    wake_on_high_priority: bool = Field(
        True, description="Whether messages of priority `high` and `urgent` ask for a wake."
    )
    defer_max_seconds: float = Field(86_400.0, gt=0, le=30 * 86_400, description="When a deferred wake expires.")
    pulse_timeout_seconds: float | None = Field(
        3600.0, gt=0, le=86_400, description="Longest pulse that a wake or a routine without its own limit started."
    )
    prompt_tokens: int = Field(4000, ge=100, le=1_000_000, description="Size of the prompt of a launched pulse.")
    heartbeat_minutes: int | None = Field(
        30,
        ge=1,
        le=43_200,
        description="How often a launched agent without routines looks for unread messages; `null` means never.",
    )

    def stated_values(self) -> dict[str, Any]:
        """Return what the file states, nested as there, ready for JSON."""
        return self.model_dump(mode="json", exclude_unset=True)


class FleetSettings(Section):
    """Limits of all agents together; null means no limit."""

    max_concurrent_pulses: int | None = Field(None, ge=0, description="Open pulses of all agents.")
    max_wakes_per_day: int | None = Field(None, ge=0, description="Wakes of all agents in a UTC day.")
    alert_webhook_url: str | None = Field(
        None, description="Where alert events are posted, besides the log; one of several servers does it."
    )
    drain_seconds: float = Field(
        30.0, ge=0, description="How long pulses may go on after SIGTERM; the rest is interrupted and tried again."
    )
