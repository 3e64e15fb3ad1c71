"""Which model of which upstream, and how it is reached."""

from dataclasses import dataclass
from typing import Literal

from yarl import URL

from circadia.llm.providers import Api
from circadia.settings import KeyHeader

Reasoning = Literal["off", "low", "medium", "high"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    upstream: str
    """Name of the upstream in the configuration."""
    base_url: str
    api: Api
    key: str | None
    """The upstream's key; none sends none."""
    model: str
    key_header: KeyHeader | None = None
    """The header for the key; none is the API's default."""
    timeout_seconds: float = 120.0
    connect_timeout_seconds: float = 10.0
    proxy: URL | None = None
    """The forward proxy on the way to it."""
    reasoning: Reasoning = "off"
    """How much a thinking model may think, if the provider lets one choose; `off` is the least that it accepts."""

    def __repr__(self) -> str:
        return f"ModelSpec(upstream={self.upstream!r}, base_url={self.base_url!r}, model={self.model!r})"
