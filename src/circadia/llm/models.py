"""Opens the models of the sleep tier."""

import asyncio
import contextlib
import importlib
from collections.abc import AsyncGenerator
from typing import Any, Final

from circadia.clock import Clock
from circadia.llm.chat_model import ChatModel
from circadia.llm.model_spec import ModelSpec
from circadia.llm.prices import PriceList
from circadia.llm.providers import Api, api_root

_MODULES: Final[dict[Api, str]] = {"openai": "circadia.llm.openai_model", "anthropic": "circadia.llm.anthropic_model"}


@contextlib.asynccontextmanager
async def open_model(at: ModelSpec, clock: Clock) -> AsyncGenerator[ChatModel]:
    """Open the model until the block ends, then close its connections.

    The provider libraries are large, so they are imported here, in a thread, and only if there is a model.
    """
    http, model = await asyncio.to_thread(_build_model, at, clock)
    async with http:
        yield model


def _build_model(at: ModelSpec, clock: Clock) -> tuple[Any, ChatModel]:
    wire: Any = importlib.import_module("circadia.llm.provider_model")
    provider: Any = importlib.import_module(_MODULES[at.api])
    http = wire.build_http_client(at)
    model = provider.build_model(at, api_root(at.base_url, at.api), http)
    return http, wire.ProviderModel(at, model, PriceList(base_url=at.base_url, api=at.api), clock)
