"""Models behind Anthropic's API."""

import httpx2
from anthropic import AsyncAnthropic
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from circadia.llm.anthropic_batches import AnthropicBatches
from circadia.llm.batches import BatchInterface
from circadia.llm.models import ModelSpec
from circadia.llm.provider_model import PLACEHOLDER, build_timeout, prefer_json_schema


def _build_client(at: ModelSpec, root: str, http: httpx2.AsyncClient) -> AsyncAnthropic:
    return AsyncAnthropic(
        base_url=root, api_key=PLACEHOLDER, http_client=http, timeout=build_timeout(at), max_retries=0
    )


def build_batches(at: ModelSpec, root: str, http: httpx2.AsyncClient) -> BatchInterface:
    return AnthropicBatches(_build_client(at, root, http))


def build_model(at: ModelSpec, root: str, http: httpx2.AsyncClient) -> Model:
    client = _build_client(at, root, http)
    _ = client.beta.messages  # the SDK imports it on first use, which is slow
    return AnthropicModel(at.model, provider=AnthropicProvider(anthropic_client=client), profile=prefer_json_schema)
