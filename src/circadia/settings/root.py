"""The whole of `circadia.yaml`, and a fingerprint that tells whether two processes run the same one."""

import hashlib
import json
import re
from typing import Any, Final, cast

from pydantic import Field

from circadia.records.hook import HookName
from circadia.records.variable_name import VariableName
from circadia.settings.answers import AnswersSettings
from circadia.settings.launchers import LauncherSettings, SubprocessLauncherSettings
from circadia.settings.memory import BankSettings, EndpointEmbedderSettings, MemorySettings
from circadia.settings.schedule import AgentSettings, HookSettings
from circadia.settings.section import RedisUrl, Section
from circadia.settings.server import (
    CallsSettings,
    DefaultsSettings,
    FleetSettings,
    LimitsSettings,
    RedisBridgeSettings,
    ServerSettings,
)
from circadia.settings.sleeptime import DreamSettings, SleeptimeSettings
from circadia.settings.upstreams import McpServerSettings, UpstreamSettings

ADMIN_TOKEN_VARIABLES: Final = ("CIRCADIA_ADMIN_TOKEN", "CIRCADIA_ADMIN_TOKEN_SECONDARY")


def _days(default: int, what: str) -> int | None:
    return Field(default, ge=32, le=36_500, description=f"Days for which {what} are kept; `null` keeps them forever.")


class RetentionSettings(Section):
    """How long records are kept: at least 32 days, since budgets and limits count up to a month."""

    events_days: int | None = _days(90, "events and spans of the timeline")
    calls_days: int | None = _days(90, "single model calls")
    sums_days: int | None = _days(3_650, "daily sums of calls")
    wakes_days: int | None = _days(90, "decided wake requests, and ids of webhooks' deliveries")
    pulses_days: int | None = _days(90, "ended pulses")
    conversations_days: int | None = _days(90, "conversations without a new turn")
    messages_days: int | None = _days(
        365, "messages that are in no inbox any more, closed threads, and ended sessions and agents"
    )
    memory_days: int | None = _days(365, "retired notes, and versions of a block that have 50 newer ones")
    provider_ids_days: int | None = _days(400, "owners of ids that providers hand out")


class Settings(Section):
    server: ServerSettings = Field(ServerSettings.model_validate({}), description="Where the server listens.")
    upstreams: dict[str, UpstreamSettings] = Field(default_factory=dict, description="Model providers, by name.")
    mcp_servers: dict[str, McpServerSettings] = Field(default_factory=dict, description="MCP servers, by name.")
    defaults: DefaultsSettings = Field(
        DefaultsSettings.model_validate({}), description="Policy and timing for agents that state none."
    )
    calls: CallsSettings = Field(
        CallsSettings.model_validate({}), description="What is kept of model calls besides their figures."
    )
    limits: LimitsSettings = Field(LimitsSettings.model_validate({}), description="Maximum sizes and counts.")
    launchers: dict[str, LauncherSettings] = Field(
        default_factory=dict, description="Ways to run agents for a pulse, by name; `resident` always exists."
    )
    retention: RetentionSettings = Field(RetentionSettings.model_validate({}), description="How long records are kept.")
    fleet: FleetSettings = Field(FleetSettings.model_validate({}), description="Limits of all agents together.")
    memory: MemorySettings = Field(MemorySettings.model_validate({}), description="How banks are searched.")
    banks: dict[str, BankSettings] = Field(
        default_factory=dict,
        description="Memory banks, by name; a name with `{user}` is a template: each end user gets a bank.",
    )
    sleeptime: SleeptimeSettings = Field(
        SleeptimeSettings.model_validate({}), description="Passes over banks while nobody waits."
    )
    dreams: dict[str, DreamSettings] = Field(
        default_factory=dict, description="Memory folders of coding agents over which the server dreams, by name."
    )
    answers: AnswersSettings = Field(
        AnswersSettings.model_validate({}), description="Answers to expected questions, prepared ahead."
    )
    agents: dict[str, AgentSettings] = Field(
        default_factory=dict, description="Agents of the session `default`, by name."
    )
    hooks: dict[HookName, HookSettings] = Field(
        default_factory=dict,
        description="Inbound webhooks, by name: a signed `POST /hooks/NAME` becomes a message to an agent.",
    )
    redis_bridge: RedisBridgeSettings = Field(
        RedisBridgeSettings.model_validate({}), description="Messages, wakes and events over Redis."
    )
    signals: RedisUrl | None = Field(
        None,
        description="Redis URL (`redis://host:6379/0`) over which servers on one PostgreSQL signal changes; "
        "without it, they use NOTIFY.",
    )
    signals_env: VariableName | None = Field(
        None, description="Environment variable with the URL for `signals`, which may hold a password."
    )

    @property
    def withheld_variables(self) -> frozenset[str]:
        """Return the variables that no agent may get (WAKE-52)."""
        named = {upstream.key_env for upstream in self.upstreams.values()} | {
            self.server.metrics_token_env, self.signals_env, self.redis_bridge.url_env,
            self.fleet.alert_webhook_secret_env,
        }  # fmt: skip
        for embedder in (self.memory.embedder, self.memory.previous_embedder):
            if isinstance(embedder, EndpointEmbedderSettings):
                named.add(embedder.key_env)
        for hook in self.hooks.values():
            named |= {hook.secret_env, hook.previous_secret_env}
        for server in self.mcp_servers.values():
            named |= {*server.headers_env.values(), *server.env_from}
        return frozenset({*(name for name in named if name), *ADMIN_TOKEN_VARIABLES})

    @property
    def signals_by_redis(self) -> bool:
        return self.signals is not None or self.signals_env is not None

    @property
    def programs(self) -> dict[str, str | None]:
        """Return the user of each program that settings start on this machine, by the path of the setting."""
        launchers = {f"launchers.{name}": launcher for name, launcher in self.launchers.items()}
        servers = {f"mcp_servers.{name}": server for name, server in self.mcp_servers.items()}
        return {
            path: program.user
            for path, program in (launchers | servers).items()
            if isinstance(program, SubprocessLauncherSettings | McpServerSettings) and program.command
        }


_OWN: Final = frozenset({"host", "port", "database_url", "direct_database_url", "log_format", "log_level"})
"""Keys of `server` that may differ from process to process."""
_PASSWORD: Final = re.compile(r"//[^/@]*@")


def fingerprint(settings: Settings) -> str:
    """Return eight digits that change with the configuration; values of `env` and passwords in URLs do not count."""
    document = settings.model_dump(mode="json", exclude_defaults=True)  # a new release may add keys
    server = {key: value for key, value in document.pop("server", {}).items() if key not in _OWN}
    return hashlib.sha256(json.dumps([server, _hide_secrets(document)], sort_keys=True).encode()).hexdigest()[:8]


def _hide_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        section = cast("dict[str, Any]", value)
        return {key: sorted(each) if key == "env" else _hide_secrets(each) for key, each in section.items()}
    if isinstance(value, list):
        return [_hide_secrets(each) for each in cast("list[Any]", value)]
    return _PASSWORD.sub("//", value) if isinstance(value, str) else value
