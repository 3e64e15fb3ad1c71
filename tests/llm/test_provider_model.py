"""A provider's model behind pydantic-ai, asked for an answer with a schema; the provider is the mock upstream."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from circadia.clock import SystemClock
from circadia.llm import local, local_weights
from circadia.llm.chat_model import ModelAnswerError
from circadia.llm.models import ModelSpec, Reasoning, open_model
from circadia.llm.providers import Api
from circadia.llm.usage import Usage
from circadia.testing.upstream import MockUpstream
from tests.llm.provider_stand import (
    GOOD,
    KEY,
    MAX_TOKENS,
    NAMES,
    PROMPT,
    WORDS_ASKED,
    Stand,
    Word,
    answering,
    completion,
    counts,
    message,
    provided,
    standing,
)


@pytest.fixture(params=["openai", "anthropic"])
async def stand(request: pytest.FixtureRequest) -> AsyncGenerator[Stand]:
    async with standing(request.param) as made:
        yield made


@pytest.mark.spec("SLEEP-41")
async def test_an_answer_comes_with_what_it_used_and_costs(stand: Stand) -> None:
    answer, used = await stand.ask()
    assert answer == Word(word="one", more=["two"])
    assert counts(used) == {"input_tokens": WORDS_ASKED, "output_tokens": 1}
    price, worst = stand.mind.price(used), stand.mind.worst_price(WORDS_ASKED, MAX_TOKENS)
    assert price is not None
    assert worst is not None
    assert 0 < price < worst


@pytest.mark.spec("SLEEP-40", "SLEEP-41")
async def test_a_request_has_the_limit_the_schema_the_key_and_both_sides_of_the_prompt(stand: Stand) -> None:
    await stand.ask()
    (seen,) = stand.up.requests
    body = seen.json()
    assert body["model"] == NAMES[stand.api]
    assert not body.get("stream")
    if stand.api == "openai":
        assert seen.path == "/v1/chat/completions"
        assert body["max_completion_tokens"] == MAX_TOKENS
        schema = body["response_format"]["json_schema"]
        assert schema["strict"] is True
        assert schema["schema"]["required"] == ["word", "more"]
        assert [each["role"] for each in body["messages"]] == ["system", "user"]
        assert PROMPT.rules not in body["messages"][1]["content"]
        assert seen.header("authorization") == f"Bearer {KEY}"
        assert seen.header("x-api-key") is None
    else:
        assert seen.path == "/v1/messages"
        assert body["max_tokens"] == MAX_TOKENS
        assert body["output_config"]["format"]["type"] == "json_schema"
        assert [each["text"] for each in body["system"]] == [PROMPT.rules]
        assert seen.header("x-api-key") == KEY
        assert seen.header("authorization") is None


async def test_a_cancelled_question_ends_at_the_provider(stand: Stand) -> None:
    scripts: list[dict[str, Any]] = [{"hang": True}, {"pause_after_chunks": 1}]
    for script in scripts:
        before = len(stand.up.requests)
        stand.up.next(**script)
        asking = asyncio.create_task(stand.ask())
        await stand.up.wait_for_requests(before + 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await stand.up.wait_for_drops(before + 1)
    assert (await stand.ask())[0].word == "one"


def test_the_key_is_not_in_what_a_place_says_of_itself() -> None:
    at = ModelSpec(upstream="u", base_url="http://127.0.0.1", api="openai", key=KEY, model="m")
    assert KEY not in f"{at} {at!r} {replace(at, model='n')}"


async def test_keys_of_the_environment_go_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "somebody-elses")
    for api in NAMES:
        async with standing(api, key=None) as stand:
            await stand.ask()
            (seen,) = stand.up.requests
            assert not [value for _, value in seen.headers if "somebody-elses" in value]
            assert seen.header("authorization") is None
            assert seen.header("x-api-key") is None


async def test_a_redirect_is_not_followed_with_the_key(stand: Stand) -> None:
    async with MockUpstream() as other:
        path = "/v1/chat/completions" if stand.api == "openai" else "/v1/messages"
        stand.up.next(status=307, headers={"location": f"{other.base_url}{path}"}, body=b"")
        assert (await stand.fails()).passing
        assert not other.requests


@pytest.mark.spec("SLEEP-41")
@pytest.mark.parametrize(
    ("api", "model", "reasoning", "wanted"),
    [
        ("openai", "gpt-6-luna", "off", {"reasoning_effort": "none"}),
        ("openai", "gpt-6-luna", "low", {"reasoning_effort": "low"}),
        ("openai", "gpt-5-mini", "off", {"reasoning_effort": "minimal"}),
        ("openai", "gpt-4.1-nano", "low", {"reasoning_effort": None}),
        ("anthropic", "claude-haiku-5-5", "off", {"thinking": {"type": "disabled"}}),
        ("anthropic", "claude-haiku-5-5", "low", {"thinking": {"type": "adaptive"}}),
        ("anthropic", "claude-haiku-4-5", "off", {"thinking": None}),
        ("anthropic", "claude-haiku-4-5", "low", {"thinking": None}),
    ],
)
async def test_reasoning_is_capped_as_far_as_the_model_lets_one(
    api: Api, model: str, reasoning: Reasoning, wanted: dict[str, Any]
) -> None:
    """Haiku 4.5 counts its thinking in tokens, of which 500 leave none for an answer."""
    async with standing(api, model=model, reasoning=reasoning) as stand:
        await stand.ask()
        body = stand.up.requests[0].json()
        assert {name: body.get(name) for name in wanted} == wanted


@pytest.mark.spec("SLEEP-81")
@pytest.mark.parametrize(("reasoning", "thinking"), [("low", 2_000), ("medium", 8_000), ("high", 16_000)])
async def test_thinking_that_is_counted_in_tokens_has_the_room_of_its_effort(
    reasoning: Reasoning, thinking: int
) -> None:
    async with standing("anthropic", model="claude-haiku-4-5", reasoning=reasoning) as stand:
        assert stand.mind.thinking_tokens == thinking
        await stand.mind.ask(PROMPT, Word, most_tokens=thinking + 120)
        body = stand.up.requests[0].json()
        assert body["thinking"] == {"type": "enabled", "budget_tokens": thinking}
        assert body["max_tokens"] == thinking + 120


async def test_a_model_that_knows_no_schema_is_given_it_as_a_tool() -> None:
    async with standing("anthropic", model="claude-3-haiku") as stand:
        used = {"type": "tool_use", "id": "t", "name": "answer", "input": {"word": "one"}}
        stand.up.next(body=message(used, stop="tool_use"))
        assert (await stand.ask())[0] == Word(word="one")
        body = stand.up.requests[0].json()
        assert [tool["name"] for tool in body["tools"]] == ["answer"]
        assert body["tool_choice"]["type"] in ("any", "tool")
        stand.up.next(body=message({"type": "text", "text": f"```json\n{GOOD}\n```"}))
        assert (await stand.ask())[0].word == "one"


PROVIDED: list[tuple[str, str, Reasoning, dict[str, Any]]] = [
    ("https://api.openai.com", "gpt-6-luna", "off", {"max_completion_tokens": 500, "reasoning_effort": "none"}),
    ("https://api.deepseek.com", "deepseek-flash", "off", {"max_tokens": 500, "reasoning_effort": "none"}),
    ("https://api.mistral.ai", "mistral-small-latest", "off", {"max_tokens": 500, "reasoning_effort": None}),
    ("https://api.groq.com", "openai/gpt-oss-20b", "off", {"max_tokens": 500, "reasoning_effort": "low"}),
    ("https://api.groq.com", "llama-3.1-8b-instant", "off", {"max_tokens": 500, "response_format": None}),
    ("https://openrouter.ai", "openai/gpt-6-luna", "off", {"max_tokens": 500, "reasoning": {"effort": "none"}}),
    ("https://generativelanguage.googleapis.com", "gemini-3.1-flash-lite", "off", {"reasoning_effort": "minimal"}),
    ("https://generativelanguage.googleapis.com", "gemini-2.5-flash", "off", {"reasoning_effort": "none"}),
    ("http://127.0.0.1:1", "gpt-6-luna", "off", {"max_completion_tokens": 500}),
    ("http://127.0.0.1:1", "gpt-oss-20b", "off", {"max_tokens": 500}),
    ("http://127.0.0.1:1", "qwen3", "off", {"max_tokens": 500, "reasoning_effort": None}),
]


@pytest.mark.parametrize(("base_url", "model", "reasoning", "wanted"), PROVIDED)
async def test_each_provider_is_asked_in_its_own_words(
    base_url: str, model: str, reasoning: Reasoning, wanted: dict[str, Any]
) -> None:
    async with provided(base_url, model, reasoning) as stand:
        stand.up.next(body=answering(stand, GOOD))
        assert (await stand.ask())[0].word == "one"
        body = stand.up.requests[0].json()
        assert {name: body.get(name) for name in wanted} == wanted
        assert ("response_format" in body) != ("tools" in body)
        assert {"max_tokens", "max_completion_tokens"} & body.keys()


async def test_an_address_of_nobody_known_is_taken_for_a_server_of_open_weights() -> None:
    async with standing("openai", model="some-model") as stand:
        await stand.ask()
        body = stand.up.requests[0].json()
        assert body["max_tokens"] == MAX_TOKENS
        assert body["response_format"]["type"] == "json_schema"
        (shown,) = [each["content"] for each in body["messages"] if each["role"] == "system"]
        assert PROMPT.rules in shown
        assert '"more"' in shown, "the model sees the schema that its server holds it to"
        assert stand.mind.worst_price(1, 1) is None


async def test_a_provider_that_counts_nothing_leaves_the_price_unknown() -> None:
    async with standing("openai") as stand:
        stand.up.next(usage=False)
        _, used = await stand.ask()
        assert used == Usage()
        assert stand.mind.price(used) is None


@pytest.mark.parametrize("wrong", [{"prompt_tokens": 2**62}, {"completion_tokens": 10**15}])
async def test_a_count_that_no_call_can_have_is_taken_for_none(wrong: Mapping[str, int]) -> None:
    async with standing("openai") as stand:
        usage = {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70, **wrong}
        stand.up.next(body=completion({"content": GOOD}, usage=usage))
        word, used = await stand.ask()
        assert (word.word, used) == ("one", Usage())


def test_what_speaks_to_providers_is_not_loaded_before_there_is_a_model() -> None:
    program = "import sys, circadia.server.wiring, circadia.llm.models; print('pydantic_ai' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


class Colour(BaseModel):
    """An answer that ends by itself: without a bound a model of this size writes on and on."""

    name: Literal["red", "blue"]
    sure: bool


@pytest.mark.slow
async def test_the_real_small_model_keeps_to_a_schema_and_to_its_limit(tmp_path: Path) -> None:
    folder = local_weights.models_folder(os.environ)
    weights = await local_weights.fetch_weights(local_weights.SMOLLM2, folder, lambda _: None)
    async with local.run_local_model(weights, name="small", log=tmp_path / "log") as model:
        at = ModelSpec(upstream="local", base_url=model.base_url, api="openai", key=None, model=model.name)
        async with open_model(at, SystemClock()) as mind:
            answer, used = await mind.ask(PROMPT, Colour, most_tokens=MAX_TOKENS)
            assert answer.name in {"red", "blue"}
            assert used.input_tokens
            assert used.output_tokens
            with pytest.raises(ModelAnswerError, match="cut off at 3 tokens"):
                await mind.ask(PROMPT, Colour, most_tokens=3)


@pytest.mark.spec("SLEEP-13", "SLEEP-83")
async def test_an_answer_is_read_with_words_a_fence_or_thinking_around_it(stand: Stand) -> None:
    for text in (
        f"Here you are:\n```json\n{GOOD}\n```\nAnything else?", f"```JSON\n{GOOD}\n```", f"\ufeff{GOOD}",
        f"Here you are {{as asked}}: {GOOD} Anything else?", f"答えは次のとおりです。{GOOD}", f"[{GOOD}]",
        f'<think>Is it {{"word": … ?</think>\n{GOOD}', f'It may be {{"word": "two"}}.\n</think>\n\n{GOOD}',
    ):  # fmt: skip
        stand.up.next(body=answering(stand, text))
        assert (await stand.ask())[0].word == "one", text
    for text in (f"Either\n```json\n{GOOD}\n```\nor\n```json\n{GOOD}\n```", f'Look: {{"word": "x}} or {GOOD}'):
        stand.up.next(body=answering(stand, text))
        assert (await stand.fails()).cause == "the answer was prose instead of JSON"


@pytest.mark.spec("SLEEP-83")
@pytest.mark.parametrize(
    "rows", ['["two",{"a":1},"four"]', '["two",3,"four"]', '["two","four",5]', '["two","four",5,"more","than","asked"]']
)
async def test_a_row_of_another_shape_and_rows_too_many_do_not_lose_the_others(stand: Stand, rows: str) -> None:
    stand.up.next(body=answering(stand, f'{{"rows":{rows}}}'))
    answer, _ = await stand.mind.ask(PROMPT, Rows, most_tokens=MAX_TOKENS)
    assert answer.rows == ["two", "four"]


class Rows(BaseModel):
    """An answer of at most three texts."""

    rows: list[str] = Field(max_length=3)


@pytest.mark.spec("SLEEP-83")
@pytest.mark.parametrize("answer", ['{"rows":[3]}', '{"rows":3}', '{"more":["two"]}'])
async def test_an_answer_of_which_nothing_is_left_is_a_failure(stand: Stand, answer: str) -> None:
    stand.up.next(body=answering(stand, answer))
    with pytest.raises(ModelAnswerError, match="JSON of another shape"):
        await stand.mind.ask(PROMPT, Rows, most_tokens=MAX_TOKENS)
