"""Prices equal those of the list's own library, offline."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from decimal import ROUND_CEILING
from itertools import product
from typing import NoReturn

import pytest
from genai_prices import Usage as LibraryUsage
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, Provider, StartDateConstraint

from circadia.llm.prices import PriceList
from circadia.llm.usage import Usage

pytestmark = pytest.mark.spec("GATE-64")

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
OPENAI = PriceList(base_url="https://api.openai.com", api="openai")


def known_models() -> Iterator[tuple[Provider, ModelInfo]]:
    for provider in get_snapshot().providers:
        for model in provider.models:
            prices = model.get_prices(AT)
            if prices.input_mtok is not None or prices.output_mtok is not None:
                yield provider, model


class _OneModel(PriceList):
    """A list that finds one model, whatever its name."""

    def __init__(self, model: ModelInfo) -> None:
        super().__init__(base_url="https://api.openai.com", api="openai")
        self._find = lambda _: model


def test_every_model_in_the_list_costs_what_its_library_says() -> None:
    shapes = [
        Usage(
            input_tokens=read, output_tokens=17, cached_tokens=read // 3, cache_write_tokens=write, reasoning_tokens=5
        )
        for read, write in product((90, 150_000, 300_000), (0, 20))
    ]
    compared = 0
    for provider, model in known_models():
        prices = _OneModel(model)
        for usage in shapes:
            theirs = model.calc_price(
                LibraryUsage(
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cache_read_tokens=usage.cached_tokens,
                    cache_write_tokens=usage.cache_write_tokens,
                    cache_write_1h_tokens=0,
                    output_reasoning_tokens=usage.reasoning_tokens,
                    **_no_other_tokens(),
                ),
                provider,
                genai_request_timestamp=AT,
            )
            nano = (theirs.total_price * 10**9).to_integral_value(ROUND_CEILING)
            assert prices.price("any", usage, AT) == int(nano), (provider.id, model.id, usage)
            compared += 1
    assert compared > 1000


def _no_other_tokens() -> dict[str, int]:
    return {
        f"{prefix}_{kind}{suffix}_tokens": 0
        for prefix, kind, suffix in (
            ("input", "audio", ""),
            ("input", "image", ""),
            ("input", "video", ""),
            ("output", "audio", ""),
            ("output", "image", ""),
            ("output", "video", ""),
            ("cache", "audio", "_read"),
            ("cache", "image", "_read"),
            ("output", "citation", ""),
        )
    }


def test_the_worst_price_is_never_below_the_price_of_what_fits_in_it() -> None:
    for provider, model in known_models():
        prices = _OneModel(model)
        for read in (1000, 250_000):
            worst = prices.worst_price("any", read, 500, AT)
            for usage in (
                Usage(input_tokens=read, output_tokens=500, reasoning_tokens=500),
                Usage(input_tokens=read, output_tokens=500, cache_write_tokens=read, cache_write_1h_tokens=read),
                Usage(input_tokens=read // 3, output_tokens=1, cached_tokens=read // 3),
            ):
                price = prices.price("any", usage, AT)
                assert price is not None
                assert worst is not None
                assert price <= worst, (provider.id, model.id)


def test_a_cached_token_costs_less_than_a_plain_one() -> None:
    plain = OPENAI.price("gpt-4o-mini", Usage(input_tokens=1000, output_tokens=10), AT)
    cached = OPENAI.price("gpt-4o-mini", Usage(input_tokens=1000, output_tokens=10, cached_tokens=1000), AT)
    assert plain == 156_000
    assert cached == 81_000


def test_a_cache_write_for_an_hour_costs_more_than_a_short_one() -> None:
    prices = PriceList(base_url="https://api.anthropic.com", api="anthropic")
    short = Usage(input_tokens=1000, output_tokens=0, cache_write_tokens=1000)
    long = Usage(input_tokens=1000, output_tokens=0, cache_write_tokens=1000, cache_write_1h_tokens=1000)
    assert prices.price("claude-sonnet-4-5", short, AT) == 3_750_000
    assert prices.price("claude-sonnet-4-5", long, AT) == 6_000_000


@pytest.mark.parametrize("model", ["smollm2", "", "x" * 5000, "my-own-model"])
def test_an_unknown_model_has_no_price(model: str) -> None:
    prices = PriceList(base_url="http://127.0.0.1:8080", api="openai")
    assert prices.price(model, Usage(input_tokens=1, output_tokens=1), AT) is None
    assert prices.worst_price(model, 1, 1, AT) is None


def test_a_relay_of_a_known_provider_is_priced_like_it() -> None:
    relay = PriceList(base_url="http://relay.internal", api="openai")
    usage = Usage(input_tokens=1000, output_tokens=10)
    assert relay.price("gpt-4o-mini", usage, AT) == OPENAI.price("gpt-4o-mini", usage, AT)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(input_tokens=5),
        Usage(output_tokens=5),
        Usage(input_tokens=5, output_tokens=1, cached_tokens=6),
        Usage(input_tokens=5, output_tokens=1, reasoning_tokens=2),
    ],
)
def test_usage_that_is_not_told_or_contradicts_itself_has_no_price(usage: Usage) -> None:
    assert OPENAI.price("gpt-4o-mini", usage, AT) is None


def test_an_embedding_needs_no_output_to_be_priced() -> None:
    assert OPENAI.price("text-embedding-3-small", Usage(input_tokens=1000), AT) == 20_000


def test_the_price_is_that_of_the_day_of_the_call() -> None:
    usage = Usage(input_tokens=10**6, output_tokens=10**6)
    changed = 0
    for provider, model in known_models():
        last = model.prices[-1].constraint if isinstance(model.prices, list) else None
        if not isinstance(last, StartDateConstraint):
            continue
        day = datetime.combine(last.start_date, time(), UTC)
        found: list[int | None] = []
        for at in (day - timedelta(days=1), day):
            theirs = model.calc_price(
                {"input_tokens": 10**6, "output_tokens": 10**6}, provider, genai_request_timestamp=at
            )
            found.append(_OneModel(model).price("any", usage, at))
            nano = (theirs.total_price * 10**9).to_integral_value(ROUND_CEILING)
            assert found[-1] == int(nano), (provider.id, model.id, at)
        changed += found[0] != found[1]
    assert changed > 20


def test_no_network_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise AssertionError("a price must not need the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    prices = PriceList(base_url="https://api.groq.com/openai", api="openai")
    assert prices.price("llama-3.3-70b-versatile", Usage(input_tokens=1000, output_tokens=0), AT) == 590_000
