"""Opens the models of the sleep tier."""

import asyncio
import contextlib
import importlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final, Literal

from circadia.clock import Clock
from circadia.llm.chat_model import ChatModel
from circadia.llm.prices import PriceList
from circadia.llm.providers import Api, api_root
from circadia.settings import KeyHeader

Reasoning = Literal["off", "low", "medium", "high"]

_MODULES: Final[dict[Api, str]] = {
    "openai": "circadia.llm.openai_model",
    "anthropic": "circadia.llm.anthropic_model",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """A model, and where it is asked."""

    upstream: str
    """Name of the provider in the configuration."""
    base_url: str
    """The upstream's address, as the gateway has it."""
    api: Api
    """The upstream's API."""
    key: str | None
    """The upstream's key; none sends none."""
    model: str
    """The model's name."""
    key_header: KeyHeader | None = None
    """The header that carries the key; none is the usual one of the API."""
    timeout_seconds: float = 120.0
    """Longest wait for an answer."""
    connect_timeout_seconds: float = 10.0
    """Longest wait for a connection."""
    reasoning: Reasoning = "off"
    """How much a thinking model may think, where the provider lets one say; `off` is the least that it accepts."""

    def __repr__(self) -> str:
        """Return all but the key."""
        return f"ModelSpec(upstream={self.upstream!r}, base_url={self.base_url!r}, model={self.model!r})"


@contextlib.asynccontextmanager
async def open_model(at: ModelSpec, clock: Clock) -> AsyncGenerator[ChatModel]:
    """Give the model until the block ends; its connections are closed then.

    What speaks to providers is large, so it is loaded here, in a thread, and only where there is a model.
    """
    http, mind = await asyncio.to_thread(_build_model, at, clock)
    async with http:
        yield mind


def _build_model(at: ModelSpec, clock: Clock) -> tuple[Any, ChatModel]:
    wire: Any = importlib.import_module("circadia.llm.provider_model")
    provider: Any = importlib.import_module(_MODULES[at.api])
    http = wire.build_http_client(at)
    model = provider.build_model(at, api_root(at.base_url, at.api), http)
    return http, wire.ProviderModel(at, model, PriceList(base_url=at.base_url, api=at.api), clock)
