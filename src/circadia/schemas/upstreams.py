"""Upstreams in answers."""

from collections.abc import Mapping
from typing import Final, Self

from pydantic import Field

from circadia.schemas.view import View
from circadia.settings.upstreams import Api, UpstreamSettings

_VARIABLES: Final[Mapping[Api, tuple[str, str, str]]] = {
    "openai": ("/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "anthropic": ("", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "gemini": ("", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
}
"""End of the path, and the variables that the official SDKs read."""
_AZURE: Final = ("", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY")


class UpstreamView(View):
    """A provider behind the gateway, and how the official SDKs reach it."""

    name: str = Field(description="Name in the configuration.", examples=["openai"])
    api: Api = Field(description="API of the provider.")
    path: str = Field(description="Path at this server, to which SDKs add their own.", examples=["/llm/openai/v1"])
    url_variable: str = Field(
        description="Environment variable in which SDKs of this API read the base URL.", examples=["OPENAI_BASE_URL"]
    )
    key_variable: str = Field(
        description="Environment variable in which they read the key, here the agent's token.",
        examples=["OPENAI_API_KEY"],
    )

    @classmethod
    def of(cls, name: str, upstream: UpstreamSettings) -> Self:
        end, url, key = _AZURE if upstream.key_header == "api-key" else _VARIABLES[upstream.api]
        return cls(name=name, api=upstream.api, path=f"/llm/{name}{end}", url_variable=url, key_variable=key)


class UpstreamList(View):
    """The providers behind the gateway."""

    upstreams: list[UpstreamView] = Field(description="In the order of the configuration.")
