"""Wake settings of an agent in answers."""

from datetime import datetime
from typing import Any

from pydantic import Field

from circadia.records.coordination import SettingSource
from circadia.schemas.view import SettingsView, View


class SettingView(View):
    """A setting and its source."""

    value: Any = Field(description="Current value; null means no limit.")
    source: SettingSource = Field(description="Source of the value: `default`, `file` or `patch`.")
    at: datetime | None = Field(description="When it was set; null for a default.")


class CoordinationView(SettingsView):
    """The wake settings of an agent."""

    etag: str = Field(description="Entity tag of the settings, as in the header `ETag`.")
    agent: str = Field(description="Reference of the agent: `name` or `session:name`.", examples=["writer"])
    settings: dict[str, SettingView] = Field(
        description="Settings by flat name.",
        examples=[{"wake_guardrails.max_wakes_per_day": {"value": 4, "source": "patch", "at": "2026-01-31T12:00:00Z"}}],
    )
