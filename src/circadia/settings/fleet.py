"""Section `fleet`: rules for waking agents."""

from pydantic import Field

from circadia.settings.section import Section


class FleetSettings(Section):
    """Limits of all agents together; null means no limit."""

    max_concurrent_pulses: int | None = Field(None, ge=0, description="Maximum number of open pulses.")
    max_wakes_per_day: int | None = Field(None, ge=0, description="Maximum number of wakes per UTC day.")
    alert_webhook_url: str | None = Field(
        None, description="URL that receives alert events, besides the log; one of several servers posts each event."
    )
