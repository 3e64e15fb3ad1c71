"""Models behind OpenAI's API: OpenAI's own, and those of other providers and local servers."""

from typing import Final

import httpx2
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.openrouter import OpenRouterModel
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.deepseek import DeepSeekProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.providers.openrouter import OpenRouterProvider

from circadia.llm.batches import BatchInterface
from circadia.llm.models import ModelSpec
from circadia.llm.openai_batches import OpenAIBatches
from circadia.llm.prices import PriceList
from circadia.llm.provider_model import PLACEHOLDER, build_timeout, prefer_json_schema
from circadia.llm.providers import provider_at

_GROQ_WITH_SCHEMAS: Final = ("openai/gpt-oss", "moonshotai/kimi", "meta-llama/llama-4")
"""https://console.groq.com/docs/structured-outputs lists who supports schemas; others answer a schema with a 400."""


def _build_client(at: ModelSpec, root: str, http: httpx2.AsyncClient) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=root, api_key=PLACEHOLDER, http_client=http, timeout=build_timeout(at), max_retries=0)


def build_batches(at: ModelSpec, root: str, http: httpx2.AsyncClient) -> BatchInterface:
    return OpenAIBatches(_build_client(at, root, http))


def build_model(at: ModelSpec, root: str, http: httpx2.AsyncClient) -> Model:
    client = _build_client(at, root, http)
    provider = provider_at(at.base_url)
    if provider == "openrouter":
        return OpenRouterModel(at.model, provider=OpenRouterProvider(openai_client=client), profile=prefer_json_schema)
    if provider == "deepseek":
        return OpenAIChatModel(at.model, provider=DeepSeekProvider(openai_client=client), profile=prefer_json_schema)
    if provider == "openai" or _is_openai_relay(at):
        return OpenAIChatModel(at.model, provider=OpenAIProvider(openai_client=client), profile=prefer_json_schema)
    known = _build_known_profile(provider, at.model)

    def profile(default: ModelProfile) -> ModelProfile:
        return prefer_json_schema(merge_profile(default, known))

    named = OpenAICompatibleProvider(provider or at.upstream, openai_client=client)
    return OpenAIChatModel(at.model, provider=named, profile=profile)


def _is_openai_relay(at: ModelSpec) -> bool:
    """Return whether an unknown address serves one of OpenAI's own models, and so passes its API on."""
    return (
        provider_at(at.base_url) is None
        and "/" not in at.model
        and not at.model.startswith("gpt-oss")
        and PriceList(base_url="https://api.openai.com", api="openai").has_model(at.model)
    )


def _build_known_profile(provider: str | None, model: str) -> ModelProfile:
    """Return the abilities of a provider's models that the library does not know."""
    # Newer than `max_tokens`. Providers without it ignore it, so that nothing limits an answer, or refuse the request.
    known = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=False, openai_chat_supports_multiple_system_messages=False
    )
    if provider in (None, "groq"):
        # Servers of open weights enforce the schema, but do not show it to the model.
        known["native_output_requires_schema_in_instructions"] = True
    if provider == "google":
        # https://ai.google.dev/gemini-api/docs/openai: only the flash models of 2.5 can stop thinking.
        known["supports_thinking"] = True
        known["openai_reasoning_efforts"] = frozenset(
            ("none", "low", "medium", "high")
            if model.startswith("gemini-2.5-flash")
            else ("minimal", "low", "medium", "high")
        )
    if provider == "groq":
        known["supports_json_schema_output"] = model.startswith(_GROQ_WITH_SCHEMAS)
        if model.startswith("openai/gpt-oss"):
            # https://console.groq.com/docs/reasoning
            known["supports_thinking"] = known["thinking_always_enabled"] = True
            known["openai_reasoning_efforts"] = frozenset(("low", "medium", "high"))
    return known
