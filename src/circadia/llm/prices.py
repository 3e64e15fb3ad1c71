"""Prices of model calls, from the list that ships with genai-prices; nothing is fetched.

The library's own calculation takes 50 to 170 µs. Its prices are linear in the tokens, so a model's rates are looked up
once and multiplied here; a test compares the results with the library's for every model in the list.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from circadia.llm.usage import Usage

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

_NANO_PER_TOKEN = 1000
"""1 US dollar per million tokens is 1000 billionths per token."""
_NANO_PER_REQUEST = 1_000_000
"""1 US dollar per thousand requests is a million billionths per request."""
_MAX_NAME_LENGTH = 256
_MAX_CACHED_MODELS = 1024
"""Callers choose the names, so the cache of look-ups must be bounded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rates:
    """Billionths of a US dollar per token, at one size of input."""

    read: Decimal
    cache_read: Decimal
    cache_write: Decimal
    cache_write_1h: Decimal
    written: Decimal | None
    reasoning: Decimal
    request: Decimal


class PriceList:
    """List prices of one upstream, in billionths of a US dollar.

    The base URL identifies the provider. An unlisted address counts as a relay of the API's own provider, with prices
    for that provider's models only. Prices are those of the standard service tier for tokens alone: no searches, audio
    or discounts.
    """

    def __init__(self, *, base_url: str, api: Literal["openai", "anthropic", "gemini"]) -> None:
        self._snapshot = load_snapshot()
        try:
            self._provider = self._snapshot.find_provider(None, None, base_url)
        except LookupError:
            self._provider = self._snapshot.find_provider(None, api, None)
        self._flat: dict[int, _Rates] = {}
        self._find: Callable[[str], ModelInfo | None] = lru_cache(_MAX_CACHED_MODELS)(self._look_up)

    def price(self, model: str, usage: Usage, at: datetime) -> int | None:
        """Return the price of a call; none if the model's price or a needed count is unknown."""
        prices = self._prices(model, at)
        read = usage.input_tokens
        if prices is None or read is None:
            return None
        rates = self._rates(prices, read)
        if usage.output_tokens is None and rates.written is not None:
            return None
        written, reasoning = usage.output_tokens or 0, usage.reasoning_tokens or 0
        cached, cache_write = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        cache_write_1h = usage.cache_write_1h_tokens or 0
        if cached + cache_write > read or cache_write_1h > cache_write or reasoning > written:
            return None
        total = (
            rates.request
            + rates.read * (read - cached - cache_write)
            + rates.cache_read * cached
            + rates.cache_write * (cache_write - cache_write_1h)
            + rates.cache_write_1h * cache_write_1h
            + (rates.written or 0) * (written - reasoning)
            + rates.reasoning * reasoning
        )
        return int(total.to_integral_value(ROUND_CEILING))

    def worst_price(self, model: str, input_estimate: int, output_limit: int, at: datetime) -> int | None:
        """Return the highest possible price of a call of this size; none if the model has no known price."""
        prices = self._prices(model, at)
        if prices is None:
            return None
        most = Decimal(0)
        for rates in (_rates(prices, 0), _rates(prices, input_estimate)):
            read = max(rates.read, rates.cache_read, rates.cache_write, rates.cache_write_1h)
            written = max(rates.written or Decimal(0), rates.reasoning)
            most = max(most, rates.request + read * input_estimate + written * output_limit)
        return int(most.to_integral_value(ROUND_CEILING))

    def has_model(self, model: str) -> bool:
        return 0 < len(model) <= _MAX_NAME_LENGTH and self._find(model) is not None

    def context_window(self, model: str) -> int | None:
        """Return the size of the model's context window in tokens; none if it is unknown."""
        if not 0 < len(model) <= _MAX_NAME_LENGTH:
            return None
        info = self._find(model)
        return None if info is None else info.context_window or None

    def _rates(self, prices: "ModelPrice", input_tokens: int) -> _Rates:
        key = id(prices)  # the list lives as long as the process, so ids are stable
        known = self._flat.get(key)
        if known is None:
            known = _rates(prices, input_tokens)
            if not _is_tiered(prices) and len(self._flat) < _MAX_CACHED_MODELS:
                self._flat[key] = known
        return known

    def _prices(self, model: str, at: datetime) -> "ModelPrice | None":
        if not model or len(model) > _MAX_NAME_LENGTH:
            return None
        info = self._find(model)
        if info is None:
            return None
        prices = info.get_prices(at)
        return None if prices.input_mtok is None and prices.output_mtok is None else prices

    def _look_up(self, model: str) -> "ModelInfo | None":
        return self._provider.find_model(model.lower(), all_providers=self._snapshot.providers)


def load_snapshot() -> "DataSnapshot":
    """Return the list. It takes 10 MB with its library, so that a server without upstreams does without it."""
    library: Any = importlib.import_module("genai_prices.data_snapshot")
    snapshot: DataSnapshot = library.get_snapshot()
    return snapshot


@cache
def listed_models() -> frozenset[str]:
    """Return the names of all models in the price list."""
    return frozenset(model.id for provider in load_snapshot().providers for model in provider.models)


def _is_tiered(prices: "ModelPrice") -> bool:
    return any(hasattr(value, "tiers") for value in vars(prices).values())


def _rates(prices: "ModelPrice", input_tokens: int) -> _Rates:
    """Return the rates at this size of input; a kind of token without a rate has its parent's."""

    def rate(price: "Decimal | TieredPrices | None", parent: Decimal) -> Decimal:
        if price is not None and not isinstance(price, Decimal):
            reached = [tier.price for tier in price.tiers if input_tokens > tier.start]
            return (reached[-1] if reached else price.base) * _NANO_PER_TOKEN
        return parent if price is None else price * _NANO_PER_TOKEN

    zero = Decimal(0)
    read = rate(prices.input_mtok, zero)
    written = rate(prices.output_mtok, zero)
    cache_write = rate(prices.cache_write_mtok, read)
    per_request = prices.requests_kcount
    return _Rates(
        read=read,
        cache_read=rate(prices.cache_read_mtok, read),
        cache_write=cache_write,
        cache_write_1h=rate(prices.cache_write_1h_mtok, cache_write),
        written=None if prices.output_mtok is None else written,
        reasoning=rate(prices.output_reasoning_mtok, written),
        request=per_request * _NANO_PER_REQUEST if isinstance(per_request, Decimal) else zero,
    )
