"""Which models the sleep tier asks, how each is reached, and its opening."""

import asyncio
import contextlib
import importlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from yarl import URL

from circadia.clock import Clock
from circadia.llm.chat_model import ChatModel
from circadia.llm.prices import PriceList
from circadia.llm.providers import Api, api_root
from circadia.settings import KeyHeader

Reasoning = Literal["off", "low", "medium", "high"]
THINKING_TOKENS: Final[Mapping[Reasoning, int]] = {"off": 0, "low": 2_000, "medium": 8_000, "high": 16_000}
"""Output tokens for thinking, beside those of an answer, by effort (SLEEP-81)."""


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

    @property
    def thinking_tokens(self) -> int:
        return THINKING_TOKENS[self.reasoning]

    def __repr__(self) -> str:
        return f"ModelSpec(upstream={self.upstream!r}, base_url={self.base_url!r}, model={self.model!r})"


_MODULES: Final[dict[Api, str]] = {"openai": "circadia.llm.openai_model", "anthropic": "circadia.llm.anthropic_model"}


@contextlib.asynccontextmanager
async def open_model(at: ModelSpec, clock: Clock) -> AsyncGenerator[ChatModel]:
    """Open the model until the block ends, then close its connections.

    The provider libraries are large, so they are imported here, in a thread, and only if there is a model.
    """
    http, model = await asyncio.to_thread(_build_model, at, clock)
    async with http:
        yield model


@contextlib.asynccontextmanager
async def open_batches(at: ModelSpec, clock: Clock) -> AsyncGenerator[Any]:
    """Open the model's batches (`ProviderBatches`) until the block ends."""
    http, batches = await asyncio.to_thread(_build_batches, at, clock)
    async with http:
        yield batches


def _build_batches(at: ModelSpec, clock: Clock) -> tuple[Any, Any]:
    wire: Any = importlib.import_module("circadia.llm.provider_model")
    of_batches: Any = importlib.import_module("circadia.llm.provider_batches")
    provider: Any = importlib.import_module(_MODULES[at.api])
    root, prices = api_root(at.base_url, at.api), PriceList(base_url=at.base_url, api=at.api)
    http = wire.build_http_client(at)

    def build_model(http: Any) -> ChatModel:
        return wire.ProviderModel(at, provider.build_model(at, root, http), prices, clock)

    return http, of_batches.ProviderBatches(
        build_model, provider.build_batches(at, root, http), timeout_seconds=at.timeout_seconds
    )


def _build_model(at: ModelSpec, clock: Clock) -> tuple[Any, ChatModel]:
    wire: Any = importlib.import_module("circadia.llm.provider_model")
    provider: Any = importlib.import_module(_MODULES[at.api])
    http = wire.build_http_client(at)
    model = provider.build_model(at, api_root(at.base_url, at.api), http)
    return http, wire.ProviderModel(at, model, PriceList(base_url=at.base_url, api=at.api), clock)
