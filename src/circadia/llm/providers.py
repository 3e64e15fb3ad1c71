"""Known model providers: the path of their API, and their cheap model (SLEEP-41)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from circadia.llm.chat_model import ChatModel
from circadia.llm.prices import PriceList, load_snapshot

Api = Literal["openai", "anthropic"]

SIZE_INPUT_TOKENS: Final = 10_000
SIZE_OUTPUT_TOKENS: Final = 1_000
"""The size of a question at which prices of two models are compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderDefaults:
    cheap: str
    """The model for background work."""
    root: str = "/v1"
    """The path before the endpoint in its OpenAI-compatible API."""


# Chosen on 2026-11-21 from the names, windows and prices in genai-prices 0.2.3 (US dollars for a million tokens read /
# written): the cheapest of each provider's present generation that reads at least 100,000 tokens; older ones that cost
# as much or less are left out, since providers retire them. None has been measured at this work.
PROVIDERS: Final[Mapping[str, ProviderDefaults]] = {
    # 0.10 / 0.50; gpt-5-nano and gpt-4.1-nano are two generations older.
    "openai": ProviderDefaults(cheap="gpt-6-luna"),
    # 0.10 / 0.50; claude-haiku-4-5 costs ten times as much.
    "anthropic": ProviderDefaults(cheap="claude-haiku-5-5"),
    # 0.25 / 1.50; gemini-2.5-flash-lite costs less and is a generation older, gemini-3.5-flash-lite costs more.
    "google": ProviderDefaults(cheap="gemini-3.1-flash-lite", root="/v1beta/openai"),
    # 0.15 / 0.60; deepseek-chat is its older name for a smaller window.
    "deepseek": ProviderDefaults(cheap="deepseek-flash"),
    # 0.15 / 0.60; the ministral models cost less and are smaller.
    "mistral": ProviderDefaults(cheap="mistral-small-latest"),
    # 0.075 / 0.30.
    "groq": ProviderDefaults(cheap="openai/gpt-oss-20b", root="/openai/v1"),
    # OpenAI's cheap model at OpenAI's price.
    "openrouter": ProviderDefaults(cheap="openai/gpt-6-luna", root="/api/v1"),
}


def provider_at(base_url: str) -> str | None:
    """Return the provider's id in genai-prices by its address; none for an unlisted one."""
    try:
        return load_snapshot().find_provider(None, None, base_url).id
    except LookupError:
        return None


def api_root(base_url: str, api: Api) -> str:
    """Return the address for the provider's SDK: OpenAI's takes the version, Anthropic's does not.

    An upstream's `base_url` may end anywhere before the endpoint, since its callers send the rest.
    """
    base = base_url.rstrip("/")
    if api == "anthropic":
        return base.removesuffix("/v1")
    known = PROVIDERS.get(provider_at(base) or "")
    steps = (known.root if known else "/v1").split("/")[1:]
    for shared in range(len(steps), 0, -1):
        if base.endswith("/" + "/".join(steps[:shared])):
            return "/".join((base, *steps[shared:]))
    return "/".join((base, *steps))


def cheap_model(base_url: str, api: Api) -> str | None:
    provider = provider_at(base_url)
    known = PROVIDERS.get(provider or "")
    if known is None or (api == "anthropic") != (provider == "anthropic"):
        return None
    return known.cheap


def price_warning(model: ChatModel, foreground: Mapping[str, PriceList], at: datetime) -> str:
    """Return a warning if `model` is too expensive for background work; else an empty text.

    `foreground` maps the models that agents use to the prices of their upstreams.
    """
    if model.name in foreground:
        return (
            f"the sleep tier's model {model.name!r} is one that agents use; a cheaper one does its work as well: "
            "name it at `sleeptime.model.name`"
        )
    own = model.worst_price(SIZE_INPUT_TOKENS, SIZE_OUTPUT_TOKENS)
    prices = {
        name: price
        for name, listed in foreground.items()
        if (price := listed.worst_price(name, SIZE_INPUT_TOKENS, SIZE_OUTPUT_TOKENS, at)) is not None
    }
    if own is None or not prices:
        return ""
    costliest = max(prices, key=lambda name: prices[name])
    if own <= prices[costliest]:
        return ""
    return (
        f"the sleep tier's model {model.name!r} costs more than {costliest!r}, the most expensive that agents use; "
        "a cheaper one does its work as well: name it at `sleeptime.model.name`"
    )
