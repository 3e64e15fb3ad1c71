"""Sections `server`, `defaults` (policy and hold timing), `limits` (sizes and counts) and `fleet` (all agents).

Section `redis_bridge`: programs that talk to agents over Redis, by default with DjinnBot's names.
"""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from circadia.records.agent import AgentPolicy
from circadia.records.variable_name import VariableName
from circadia.settings.section import RedisUrl, Section, show_value


class ServerSettings(Section):
    host: str = Field("127.0.0.1", description="Address to bind; loopback by default.")
    port: int = Field(4114, ge=0, le=65535, description="Port to bind; 0 takes a free one.")
    database_url: str | None = Field(
        None, description="PostgreSQL URL (`postgresql://user@host/db`); without it, SQLite in the data folder."
    )
    direct_database_url: str | None = Field(
        None, description="PostgreSQL URL without a pooler between; signals need it if `database_url` has one."
    )
    auth_grace_seconds: float = Field(
        30.0,
        ge=0,
        description="How long awake agents without budgets pass while PostgreSQL does not answer; then they get 503.",
    )
    readers: int = Field(4, ge=1, le=1000, description="Maximum number of database connections that read.")
    writers: int = Field(
        8, ge=1, le=1000, description="Maximum number of database connections that write; SQLite uses one."
    )
    operator_read_seconds: float = Field(
        5.0, gt=0, le=60, description="Maximum time of a statement for a list or sum that a person reads; then 504."
    )
    gateway_url: str | None = Field(
        None, description="URL at which launched agents reach a gateway; by default this process itself."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Host names to accept besides `localhost`, `host` and addresses; `*` turns the check off."
    )
    allowed_origins: tuple[str, ...] = Field(
        (), description="Origins of web pages that may call the API and MCP (CORS); none by default."
    )
    metrics_token_env: VariableName | None = Field(
        None, description="Environment variable with a token only for `/metrics`."
    )
    drain_seconds: float = Field(
        30.0,
        ge=0,
        description="How long pulses, running calls and opened holds may go on after SIGTERM; none after Ctrl-C.",
    )

    log_format: Literal["text", "json"] = Field(
        "text", description="Form of the log on standard error: lines of text, or one JSON object a line."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least level that the log records."
    )

    @field_validator("gateway_url")
    @classmethod
    def _require_host(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"http://[^/@?#]+", value):
            raise ValueError(f"{show_value(value)} is no URL like http://gateway:4114")
        return value

    @property
    def connections(self) -> int:
        """Most connections to PostgreSQL: besides readers and writers two for people, one for `/readyz` and signals."""
        return self.readers + self.writers + 4


class DefaultsSettings(AgentPolicy, Section):
    """Policy of agents that state none, and the timing of holds."""

    hold_grace_seconds: float = Field(
        2.0,
        ge=0,
        description="How long a held stream or MCP call can still return its real status; then the server sends 200.",
    )
    hold_silent_seconds: float | None = Field(
        None,
        ge=0,
        description="How long a held buffered model call stays silent, so that it can return its real status; 120 by "
        "default, 45 with the profile `reverse_proxy`.",
    )
    keep_alive_seconds: float = Field(15.0, gt=0, description="Interval of keep-alive signals to a held caller.")
    profile: Literal["direct", "reverse_proxy"] = Field(
        "direct", description="`reverse_proxy` if a proxy cuts silent connections after 60 s."
    )
    mcp_wait_answer_seconds: float | None = Field(
        None,
        gt=0,
        description='Time after which Circadia\'s wait tools return "nothing yet, call again". By default 55 s for '
        "JavaScript clients that request no progress, else never.",
    )
    stall_seconds: float = Field(
        300.0, gt=0, description="Time that all agents of a session must sleep before the event `session_stalled`."
    )

    def policy(self) -> AgentPolicy:
        return AgentPolicy.model_validate(dict(self))

    @property
    def silent_seconds(self) -> float:
        """Return the effective length of the silent phase."""
        if self.hold_silent_seconds is not None:
            return self.hold_silent_seconds
        return 45.0 if self.profile == "reverse_proxy" else 120.0


class CallsSettings(Section):
    """What is kept of model calls besides their figures."""

    keep_texts: bool = Field(
        False, description="Whether the beginnings of requests and answers are kept, without secrets of known forms."
    )
    max_text_bytes: int = Field(16 * 2**10, ge=1, le=2**16, description="Maximum size of each text that is kept.")
    text_days: int = Field(7, ge=1, le=365, description="Days for which texts are kept.")


class LimitsSettings(Section):
    """Maximum sizes and counts; the server refuses a call over a limit with 429 or 413."""

    max_holds: int = Field(20_000, ge=0, description="Maximum number of held calls, over all gateways.")
    max_holds_per_agent: int = Field(2_000, ge=0, description="Maximum number of held calls of one agent.")
    max_held_bytes: int = Field(
        256 * 2**20, ge=0, description="Maximum size of held bodies in memory; the rest goes to disk."
    )
    spill_bytes: int = Field(64 * 2**10, ge=0, description="Size above which a held body goes to disk.")
    max_spilled_bytes: int = Field(4 * 2**30, ge=0, description="Maximum size of all held bodies on disk.")
    max_body_bytes_in_flight: int = Field(
        256 * 2**20,
        gt=0,
        description="Maximum size of all bodies that one server reads, parses and sends at once; further calls wait.",
    )
    max_model_body_bytes: int = Field(8 * 2**20, gt=0, description="Maximum body size of a model call.")
    max_mcp_body_bytes: int = Field(4 * 2**20, gt=0, description="Maximum body size of a proxied MCP call.")
    max_api_body_bytes: int = Field(
        1 * 2**20, gt=0, description="Maximum body size of a call to REST or to Circadia's MCP tools."
    )
    max_hook_body_bytes: int = Field(1 * 2**20, gt=0, description="Maximum body size of a webhook's delivery.")
    max_answer_bytes: int = Field(
        64 * 2**20,
        gt=0,
        description="Maximum size of a buffered answer from an upstream or MCP server; streams have no limit.",
    )
    max_resume_bytes: int = Field(
        64 * 2**20, ge=0, description="Maximum size of all streamed answers that are kept for callers to resume."
    )
    max_message_characters: int = Field(64_000, gt=0, description="Maximum length of a message in a thread.")
    max_open_threads_per_agent: int = Field(1_000, ge=0, description="Maximum open threads that one agent created.")
    max_failed_tokens_per_minute: int | None = Field(
        60,
        ge=1,
        description="Maximum number of invalid tokens from one address; then it gets 429. `null` means no limit.",
    )
    keep_handled_days: int | None = Field(
        90,
        ge=0,
        le=36_500,
        description="Days after which handled deliveries are deleted, with direct messages that nothing refers to; "
        "`null` keeps them forever.",
    )


class FleetSettings(Section):
    """Limits of all agents together; null means no limit."""

    max_concurrent_pulses: int | None = Field(None, ge=0, description="Maximum number of open pulses.")
    max_wakes_per_day: int | None = Field(None, ge=0, description="Maximum number of wakes per UTC day.")
    alert_webhook_url: str | None = Field(
        None, description="URL that receives alert events, besides the log; one of several servers posts each event."
    )
    alert_webhook_secret_env: VariableName | None = Field(
        None, description="Environment variable with a secret that signs alerts: `whsec_` and base64 of 24 to 64 bytes."
    )


def _require_agent_field(template: str) -> str:
    if template.replace("{prefix}", "").count("{agent}") != 1:
        raise ValueError("the name must hold `{agent}` once, where the agent's name stands")
    return template


AgentTemplate = Annotated[str, AfterValidator(_require_agent_field)]


class RedisBridgeSettings(Section):
    """In each name, `{prefix}` stands for `prefix`."""

    url: RedisUrl | None = Field(None, description="Redis URL (`redis://host:6379/0`); the bridge runs if it is set.")
    url_env: VariableName | None = Field(
        None, description="Environment variable with the URL, which may hold a password."
    )
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
