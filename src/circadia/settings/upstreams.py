"""Sections `upstreams` and `mcp_servers`: servers behind the gateway. Only this file defines them, never REST."""

import re
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field, field_validator, model_validator

from circadia.records.variable_name import VariableName
from circadia.settings.section import USER_DESCRIPTION, OsUserName, Section, require_api_root, show_value

Api = Literal["openai", "anthropic", "gemini"]
KeyHeader = Literal["authorization", "x-api-key", "api-key", "x-goog-api-key"]
"""Headers in which providers take their key; the gateway removes them from an agent's request."""


_KEY_HEADERS: Final[Mapping[Api, KeyHeader]] = {
    "openai": "authorization",
    "anthropic": "x-api-key",
    "gemini": "x-goog-api-key",
}
_VERSION: Final = re.compile(r"/v\d+[a-z0-9]*$")


def build_key_header(key: str, *, api: Api, header: KeyHeader | None) -> tuple[KeyHeader, str]:
    """Return the name and value of the header that carries the key."""
    header = header or _KEY_HEADERS[api]
    return header, f"Bearer {key}" if header == "authorization" else key


class UpstreamSettings(Section):
    base_url: str = Field(
        description="Address behind `/llm/{upstream}`: `/llm/openai/v1/models` goes to `{base_url}/v1/models`, or to "
        "`{base_url}/models` if the address ends in `/v1` or another version."
    )
    api: Api = Field("openai", description="API of the provider, for its key and for errors on unknown paths.")
    key_env: VariableName | None = Field(
        None, description="Environment variable with the provider's key; without it the gateway sends no key."
    )
    key_header: KeyHeader | None = Field(
        None,
        description="Header for the key, after `Bearer` in `authorization`; by default the usual one of `api`. Azure "
        "takes `api-key`.",
    )
    paths: tuple[str, ...] = Field(
        (),
        description="Further paths to allow, as `METHOD /path`. `{id}` matches a segment, `{own}` an id that this "
        "provider gave to the same agent, `{model}` the model.",
    )
    connect_timeout_seconds: float = Field(10.0, gt=0, description="Longest wait for a connection.")
    answer_timeout_seconds: float = Field(
        600.0, gt=0, description="Longest wait for the first byte, and between two bytes of an answer."
    )
    retries: int = Field(
        2, ge=0, le=10, description="Retries after a connection error, 429 or 5xx, before the first byte is sent."
    )
    retry_max_seconds: float = Field(
        30.0, ge=0, description="Longest `Retry-After` to wait for; a longer one goes to the caller."
    )
    max_connections: int = Field(2000, ge=1, description="Maximum number of connections; further calls wait.")

    @field_validator("base_url")
    @classmethod
    def _http_url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError(f"must start with http:// or https://, got {show_value(value)}")
        return require_api_root(value)

    def target_path(self, path: str) -> str:
        """Return the path below `base_url`, with a version such as `/v1` only once."""
        version = _VERSION.search(self.base_url)
        return path.removeprefix(version[0]) if version is not None and path.startswith(f"{version[0]}/") else path

    @property
    def chat_api(self) -> Literal["openai", "anthropic"]:
        """Return the API for the server's own calls: Google also speaks OpenAI's."""
        return "anthropic" if self.api == "anthropic" else "openai"


class McpServerSettings(Section):
    """An MCP server behind `/mcp/{server}`, with either a `url` or a `command`."""

    url: str | None = Field(None, description="URL of a streamable-HTTP server.")
    headers_env: dict[str, VariableName] = Field(
        default_factory=dict, description="Headers to send, each with the environment variable that holds its value."
    )
    command: tuple[str, ...] = Field((), description="Program and arguments of a stdio server.")
    env: dict[str, str] = Field(default_factory=dict, description="Environment of the program, besides PATH and HOME.")
    env_from: tuple[VariableName, ...] = Field((), description="Variables to pass on from the server's environment.")
    cwd: str | None = Field(None, description="Working directory of the program.")
    user: OsUserName | None = Field(None, description=USER_DESCRIPTION)
    per_agent: bool = Field(False, description="Run one child per agent instead of a shared one.")
    idle_seconds: float = Field(600.0, gt=0, description="Idle time after which a child is stopped.")
    answer_timeout_seconds: float = Field(600.0, gt=0, description="Longest wait for an answer.")

    @model_validator(mode="after")
    def _require_url_or_command(self) -> "McpServerSettings":
        if bool(self.url) == bool(self.command):
            raise ValueError("give either `url` or `command`")
        if self.user is not None and not self.command:
            raise ValueError("`user` is for a `command`; take it out")
        return self
