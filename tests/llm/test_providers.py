"""What is known of providers: addresses, cheap models, and when the sleep tier's model is too dear."""

from datetime import UTC, datetime

import pytest

from circadia.llm.prices import PriceList
from circadia.llm.providers import PROVIDERS, Api, api_root, cheap_model, price_warning
from circadia.testing.scripted_model import ScriptedChatModel

SIZE_INPUT_TOKENS = 10_000
SIZE_OUTPUT_TOKENS = 1_000

AT = datetime(2026, 11, 21, tzinfo=UTC)
ADDRESSES: dict[str, tuple[str, Api]] = {
    "openai": ("https://api.openai.com", "openai"),
    "anthropic": ("https://api.anthropic.com", "anthropic"),
    "google": ("https://generativelanguage.googleapis.com", "openai"),
    "deepseek": ("https://api.deepseek.com", "openai"),
    "mistral": ("https://api.mistral.ai", "openai"),
    "groq": ("https://api.groq.com/openai", "openai"),
    "openrouter": ("https://openrouter.ai/api", "openai"),
}
OPENAI = PriceList(base_url="https://api.openai.com", api="openai")
BILLION = 10**9


@pytest.mark.spec("SLEEP-41")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_known_provider_has_a_cheap_model_with_a_known_low_price(provider: str) -> None:
    base_url, api = ADDRESSES[provider]
    model = cheap_model(base_url, api)
    assert model is not None
    price = PriceList(base_url=base_url, api=api).worst_price(model, SIZE_INPUT_TOKENS, SIZE_OUTPUT_TOKENS, AT)
    assert price is not None
    assert price < 0.005 * BILLION, "half a cent for a question of usual size"


@pytest.mark.spec("SLEEP-41")
@pytest.mark.parametrize(
    ("base_url", "api"),
    [
        ("http://127.0.0.1:8080", "openai"),
        ("https://models.example.org", "openai"),
        ("https://models.example.org", "anthropic"),
        ("https://api.anthropic.com", "openai"),
        ("https://api.x.ai", "openai"),
    ],
)
def test_an_address_of_nobody_known_has_no_cheap_model(base_url: str, api: Api) -> None:
    assert cheap_model(base_url, api) is None


@pytest.mark.parametrize(
    ("base_url", "api", "root"),
    [
        ("https://api.openai.com", "openai", "https://api.openai.com/v1"),
        ("https://api.openai.com/v1/", "openai", "https://api.openai.com/v1"),
        ("http://127.0.0.1:8080", "openai", "http://127.0.0.1:8080/v1"),
        ("http://127.0.0.1:8080/relay", "openai", "http://127.0.0.1:8080/relay/v1"),
        ("https://api.groq.com", "openai", "https://api.groq.com/openai/v1"),
        ("https://api.groq.com/openai", "openai", "https://api.groq.com/openai/v1"),
        ("https://api.groq.com/openai/v1", "openai", "https://api.groq.com/openai/v1"),
        ("https://openrouter.ai", "openai", "https://openrouter.ai/api/v1"),
        ("https://openrouter.ai/api", "openai", "https://openrouter.ai/api/v1"),
        (
            "https://generativelanguage.googleapis.com",
            "openai",
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
        ("https://api.anthropic.com", "anthropic", "https://api.anthropic.com"),
        ("https://api.anthropic.com/v1", "anthropic", "https://api.anthropic.com"),
    ],
)
def test_the_root_of_the_api_is_found_wherever_the_base_url_ends(base_url: str, api: Api, root: str) -> None:
    assert api_root(base_url, api) == root


def costing(name: str, price: int | None) -> ScriptedChatModel:
    """Return a model of a name and a price for the size at which models are compared."""
    return _Priced([], name, price)


class _Priced(ScriptedChatModel):
    def __init__(self, answers: list[BaseException], name: str, price: int | None) -> None:
        super().__init__(answers, name=name)
        self._price = price

    def worst_price(self, input_tokens: int, output_tokens: int) -> int | None:
        assert (input_tokens, output_tokens) == (SIZE_INPUT_TOKENS, SIZE_OUTPUT_TOKENS)
        return self._price


def of_openai(model: str) -> int:
    price = OPENAI.worst_price(model, SIZE_INPUT_TOKENS, SIZE_OUTPUT_TOKENS, AT)
    assert price is not None
    return price


@pytest.mark.spec("SLEEP-41")
def test_a_model_that_agents_use_is_warned_of_whatever_it_costs() -> None:
    told = price_warning(costing("gpt-4.1", None), {"gpt-4.1": OPENAI}, AT)
    assert "'gpt-4.1'" in told
    assert "sleeptime.model.name" in told


@pytest.mark.spec("SLEEP-41")
def test_a_model_dearer_than_all_that_agents_use_is_warned_of_and_others_are_not() -> None:
    foreground = {"gpt-4.1": OPENAI, "gpt-6-luna": OPENAI, "of-nobody": OPENAI}
    assert "'gpt-4.1'" in price_warning(costing("dear", of_openai("gpt-4.1") + 1), foreground, AT)
    assert price_warning(costing("same", of_openai("gpt-4.1")), foreground, AT) == ""
    assert price_warning(costing("unknown", None), foreground, AT) == ""
    assert price_warning(costing("dear", BILLION), {}, AT) == ""
    assert price_warning(costing("dear", BILLION), {"of-nobody": OPENAI}, AT) == ""
