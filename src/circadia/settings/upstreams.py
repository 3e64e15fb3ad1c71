"""Sections `upstreams` and `mcp_servers`: what stands behind the gateway. Only this file defines them, never REST."""

import re
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field, field_validator, model_validator

from circadia.settings.section import USER_DESCRIPTION, OsUserName, Section

Api = Literal["openai", "anthropic", "gemini"]
KeyHeader = Literal["authorization", "x-api-key", "api-key", "x-goog-api-key"]
"""Where a provider takes its key; what an agent sends in any of them goes no further."""


_KEY_HEADERS: Final[Mapping[Api, KeyHeader]] = {
    "openai": "authorization",
    "anthropic": "x-api-key",
    "gemini": "x-goog-api-key",
}
_VERSION: Final = re.compile(r"/v\d+[a-z0-9]*$")


def build_key_header(key: str, *, api: Api, header: KeyHeader | None) -> tuple[KeyHeader, str]:
    """Return the header that carries the key, and what it says."""
    header = header or _KEY_HEADERS[api]
    return header, f"Bearer {key}" if header == "authorization" else key


class UpstreamSettings(Section):
    """One model provider."""

    base_url: str = Field(
        description="What `/llm/{upstream}` stands for: `/llm/openai/v1/models` goes to `{base_url}/v1/models`, and to "
        "`{base_url}/models` where it ends in `/v1`; so with other versions, such as `/v1beta`."
    )
    api: Api = Field(
        "openai", description="How the key is sent and what an error looks like on paths of no known shape."
    )
    key_env: str | None = Field(
        None, description="Environment variable with the provider's key; without it no key is sent."
    )
    key_header: KeyHeader | None = Field(
        None,
        description="Header that carries the key, after `Bearer` in `authorization`; without it, the usual one of "
        "`api`. Azure takes `api-key`.",
    )
    paths: tuple[str, ...] = Field(
        (),
        description="More paths to let through, as `METHOD /path`; `{id}` stands for one segment, `{own}` for an id "
        "that this provider handed to the same agent, and `{model}` for the model that is called.",
    )
    connect_timeout_seconds: float = Field(10.0, gt=0, description="Longest wait for a connection.")
    answer_timeout_seconds: float = Field(
        600.0, gt=0, description="Longest wait for the first byte, and between two bytes of an answer."
    )
    retries: int = Field(
        2,
        ge=0,
        le=10,
        description="Repeats after a connection error, 429 or 5xx, before the first byte went out.",
    )
    retry_max_seconds: float = Field(
        30.0,
        ge=0,
        description="Longest `Retry-After` that is waited for; a longer one is handed to the caller.",
    )
    max_connections: int = Field(2000, ge=1, description="Most connections to it; further calls wait.")

    @field_validator("base_url")
    @classmethod
    def _http_url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError(f"must start with http:// or https://, got {value!r}")
        return value.rstrip("/")

    def target_path(self, path: str) -> str:
        """Return what an agent's path is behind `base_url`: with one `/v1` where both have it."""
        version = _VERSION.search(self.base_url)
        return path.removeprefix(version[0]) if version is not None and path.startswith(f"{version[0]}/") else path

    @property
    def chat_api(self) -> Literal["openai", "anthropic"]:
        """How a model there is asked by this server itself: Google speaks OpenAI's API, too."""
        return "anthropic" if self.api == "anthropic" else "openai"


class McpServerSettings(Section):
    """One MCP server behind `/mcp/{server}`: either a `url` or a `command`."""

    url: str | None = Field(None, description="Address of a streamable-HTTP server.")
    headers_env: dict[str, str] = Field(
        default_factory=dict,
        description="Headers to send, each with the environment variable that holds its value.",
    )
    command: tuple[str, ...] = Field((), description="Program and arguments of a stdio server.")
    env: dict[str, str] = Field(
        default_factory=dict, description="Environment that the program gets, besides PATH and HOME."
    )
    env_from: tuple[str, ...] = Field((), description="Variables of this server's environment that the program gets.")
    cwd: str | None = Field(None, description="Folder that the program starts in.")
    user: OsUserName | None = Field(None, description=USER_DESCRIPTION)
    per_agent: bool = Field(False, description="One child per agent instead of one shared by all who may use it.")
    idle_seconds: float = Field(600.0, gt=0, description="A child that no one used for so long is stopped.")
    answer_timeout_seconds: float = Field(600.0, gt=0, description="Longest wait for an answer.")

    @model_validator(mode="after")
    def _require_url_or_command(self) -> "McpServerSettings":
        if bool(self.url) == bool(self.command):
            raise ValueError("give either `url` or `command`")
        if self.user is not None and not self.command:
            raise ValueError("`user` is for a `command`; take it out")
        return self
