"""Upstreams in answers."""

from typing import Literal

from pydantic import Field

from circadia.schemas.view import View


class UpstreamView(View):
    """A provider behind the gateway, and how the official SDKs reach it."""

    name: str = Field(description="Name in the configuration.", examples=["openai"])
    api: Literal["openai", "anthropic", "gemini"] = Field(description="API of the provider.")
    path: str = Field(description="Path at this server, to which SDKs add their own.", examples=["/llm/openai/v1"])
    url_variable: str = Field(
        description="Environment variable in which SDKs of this API read the base URL.", examples=["OPENAI_BASE_URL"]
    )
    key_variable: str = Field(
        description="Environment variable in which they read the key, here the agent's token.",
        examples=["OPENAI_API_KEY"],
    )


class UpstreamList(View):
    """The providers behind the gateway."""

    upstreams: list[UpstreamView] = Field(description="In the order of the configuration.")
