"""Section `redis_bridge`: programs that talk to agents over Redis, by default with DjinnBot's names."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from circadia.settings.section import RedisUrl, Section


def _require_agent_field(template: str) -> str:
    if template.replace("{prefix}", "").count("{agent}") != 1:
        raise ValueError("the name must hold `{agent}` once, where the agent's name stands")
    return template


AgentTemplate = Annotated[str, AfterValidator(_require_agent_field)]


class RedisBridgeSettings(Section):
    """In each name, `{prefix}` stands for `prefix`."""

    url: RedisUrl | None = Field(None, description="Redis URL (`redis://host:6379/0`); the bridge runs if it is set.")
    url_env: str | None = Field(None, description="Environment variable with the URL, which may hold a password.")
    prefix: str = Field("djinnbot", min_length=1, description="First part of all names.")
    session: str = Field("default", description="Session whose agents get the messages and wakes.")
    inbox_stream: AgentTemplate = Field(
        "{prefix}:agent:{agent}:inbox", description="Stream of an agent whose entries become messages in its inbox."
    )
    wake_channel: AgentTemplate = Field(
        "{prefix}:agent:{agent}:wake", description="Channel of an agent on which a publication is a request to wake it."
    )
    group: str = Field("circadia", min_length=1, description="Consumer group in which the server reads the streams.")
    events_stream: str = Field(
        "{prefix}:events:global", description="Stream to which the server adds sleeps, wakes, pulses and messages."
    )
    events_channel: str = Field(
        "{prefix}:events:lifecycle", description="Channel on which the server publishes the same."
    )
    max_entries: int = Field(
        10_000, ge=1, description="Approximate length to which the server trims the streams that it writes."
    )

    @model_validator(mode="after")
    def _require_one_url(self) -> "RedisBridgeSettings":
        if self.url is not None and self.url_env is not None:
            raise ValueError("url and url_env say the same; leave one out")
        return self

    def name(self, template: str, agent: str = "") -> str:
        """Return a name with its fields filled in."""
        return template.replace("{prefix}", self.prefix).replace("{agent}", agent)
