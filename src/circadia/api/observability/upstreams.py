"""The providers behind the gateway."""

from collections.abc import Mapping
from typing import Final

from circadia.agents.access import require_operator
from circadia.api.parts import Parts, Who, noun_router
from circadia.schemas.upstreams import UpstreamList, UpstreamView
from circadia.settings.upstreams import Api, UpstreamSettings

router = noun_router("upstreams")

_VARIABLES: Final[Mapping[Api, tuple[str, str, str]]] = {
    "openai": ("/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "anthropic": ("", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "gemini": ("", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
}
"""End of the path, and the variables that the official SDKs read."""
_AZURE: Final = ("", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY")


@router.get("/upstreams")
async def list_upstreams(who: Who, parts: Parts) -> UpstreamList:
    """List the providers of the configuration, with what an agent's environment needs to reach them. Operator only."""
    require_operator(who)
    return UpstreamList(upstreams=[_view(name, upstream) for name, upstream in parts.settings.upstreams.items()])


def _view(name: str, upstream: UpstreamSettings) -> UpstreamView:
    end, url, key = _AZURE if upstream.key_header == "api-key" else _VARIABLES[upstream.api]
    return UpstreamView(name=name, api=upstream.api, path=f"/llm/{name}{end}", url_variable=url, key_variable=key)
