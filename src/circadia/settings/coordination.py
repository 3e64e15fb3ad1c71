"""Key `coordination` of an agent, and section `fleet`: rules for waking agents."""

from typing import Any

from pydantic import Field

from circadia.records.coordination import OnBlock, PairMode
from circadia.settings.section import Section


class GuardrailsSettings(Section):
    """Limits of wakes: 0 allows none, null means no limit."""

    cooldown_seconds: float | None = Field(300.0, ge=0, description="Minimum time between two wakes of the agent.")
    max_daily_session_minutes: float | None = Field(
        120.0, ge=0, description="Maximum total run time of its pulses per day."
    )
    max_wakes_per_day: int | None = Field(12, ge=0, description="Maximum wakes per day, in the agent's time zone.")
    max_wakes_per_pair_per_day: int | None = Field(5, ge=0, description="Maximum wakes per day by one sender.")
    max_wakes_per_session: int | None = Field(
        3,
        ge=0,
        description="Maximum wakes by a sender in one pulse or wake period; per day if that has no time limit.",
    )
    pair_mode: PairMode = Field(PairMode.DIRECTED, description="Count A→B and B→A separately (`directed`) or together.")
    max_chain_depth: int | None = Field(24, ge=0, description="Maximum wakes from the root of a chain.")
    max_chain_visits: int | None = Field(None, ge=0, description="Maximum wakes of the same agent in a chain.")


class CoordinationSettings(Section):
    wakes_enabled: bool = Field(True, description="Allow wakes; people can always wake the agent.")
    launcher: str = Field(
        "resident",
        description="How its pulses run: `resident` opens its gate; or a name of `launchers`.",
    )
    max_concurrent_pulse_sessions: int | None = Field(2, ge=0, description="Maximum number of its concurrent pulses.")
    wake_guardrails: GuardrailsSettings = Field(GuardrailsSettings.model_validate({}), description="Limits of wakes.")
    on_busy: OnBlock = Field(OnBlock.DEFER, description="`defer` or `refuse` a wake while the agent has a pulse.")
    on_cooldown: OnBlock = Field(OnBlock.DEFER, description="`defer` or `refuse` a wake during its cooldown.")
    on_concurrency: OnBlock = Field(OnBlock.DEFER, description="`defer` or `refuse` a wake while all slots are in use.")
    guard_thread_events: bool = Field(False, description="Apply the guardrails to its `wake_events` too.")
    wake_on_high_priority: bool = Field(True, description="Request a wake for `high` and `urgent` messages.")
    defer_max_seconds: float = Field(86_400.0, gt=0, le=30 * 86_400, description="Lifetime of a deferred wake.")
    pulse_timeout_seconds: float | None = Field(
        3600.0, gt=0, le=86_400, description="Longest pulse, unless its routine sets a limit."
    )
    prompt_tokens: int = Field(4000, ge=100, le=1_000_000, description="Maximum prompt size of a launched pulse.")
    heartbeat_minutes: int | None = Field(
        30,
        ge=1,
        le=43_200,
        description="Interval at which a launched agent without routines checks for unread messages; `null` means "
        "never.",
    )

    def stated_values(self) -> dict[str, Any]:
        """Return what the file states, nested as there, ready for JSON."""
        return self.model_dump(mode="json", exclude_unset=True)


class FleetSettings(Section):
    """Limits of all agents together; null means no limit."""

    max_concurrent_pulses: int | None = Field(None, ge=0, description="Maximum number of open pulses.")
    max_wakes_per_day: int | None = Field(None, ge=0, description="Maximum number of wakes per UTC day.")
    alert_webhook_url: str | None = Field(
        None, description="URL that receives alert events, besides the log; one of several servers posts each event."
    )
    drain_seconds: float = Field(
        30.0, ge=0, description="How long pulses may run after SIGTERM; the rest is interrupted and retried."
    )
