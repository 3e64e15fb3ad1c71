"""A provider's model, and the mock upstream as its provider; what it answers is written byte for byte."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from circadia.clock import SystemClock
from circadia.llm import openai_model
from circadia.llm.chat_model import ChatModel, ModelAnswerError, Prompt
from circadia.llm.models import ModelSpec, Reasoning, open_model
from circadia.llm.prices import PriceList
from circadia.llm.provider_model import ProviderModel, build_http_client
from circadia.llm.providers import Api
from circadia.llm.usage import Usage
from circadia.testing.upstream import MockUpstream

KEY = "key-that-nobody-may-see"
SECRET = "the-word-that-was-said"
PROMPT = Prompt(rules="Say which word it is.", data=f"<data>{SECRET}</data>")
GOOD = '{"word":"one","more":["two"]}'
MAX_TOKENS = 500
NAMES: Mapping[Api, str] = {"openai": "gpt-6-luna", "anthropic": "claude-haiku-5-5"}
WORDS_ASKED = 6


class Word(BaseModel):
    """An answer."""

    word: str
    more: list[str] = []


@dataclass(frozen=True, kw_only=True)
class Stand:
    """A model, and its provider."""

    up: MockUpstream
    mind: ChatModel
    api: Api

    async def ask(self) -> tuple[Word, Usage]:
        return await self.mind.ask(PROMPT, Word, most_tokens=MAX_TOKENS)

    async def fails(self) -> ModelAnswerError:
        """Ask, see that one request went out and no answer came, and return what was raised."""
        before = len(self.up.requests)
        with pytest.raises(ModelAnswerError) as raised:
            await self.ask()
        assert len(self.up.requests) == before + 1
        return raised.value


@asynccontextmanager
async def standing(
    api: Api,
    *,
    model: str | None = None,
    reasoning: Reasoning = "off",
    timeout_seconds: float = 20.0,
    key: str | None = KEY,
) -> AsyncGenerator[Stand]:
    async with MockUpstream(key=key, reply=GOOD) as up:
        at = ModelSpec(
            upstream="mock", base_url=up.base_url, api=api, key=key, model=model or NAMES[api],
            reasoning=reasoning, timeout_seconds=timeout_seconds,
        )  # fmt: skip
        async with open_model(at, SystemClock()) as mind:
            yield Stand(up=up, mind=mind, api=api)


def completion(message: dict[str, Any], *, finish: str = "stop", usage: Mapping[str, Any] | None = None) -> bytes:
    """Return an answer as OpenAI gives it."""
    counted = usage or {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}
    choice = {"index": 0, "message": {"role": "assistant", "content": None} | message, "finish_reason": finish}
    return orjson.dumps(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "provider": "p",
            "choices": [choice],
            "usage": counted,
        }
    )


def message(*blocks: Mapping[str, Any], stop: str = "end_turn", usage: Mapping[str, Any] | None = None) -> bytes:
    """Return an answer as Anthropic gives it."""
    counted = usage or {"input_tokens": 50, "output_tokens": 20}
    return orjson.dumps(
        {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": blocks, "stop_reason": stop,
         "stop_sequence": None, "usage": counted}
    )  # fmt: skip


def cut_while_thinking(api: Api, thought: int) -> bytes:
    """Return what a provider answers if the whole limit went into thinking: 50 tokens read and these written."""
    if api == "openai":
        usage = {
            "prompt_tokens": 50, "completion_tokens": thought, "total_tokens": 50 + thought,
            "completion_tokens_details": {"reasoning_tokens": thought},
        }  # fmt: skip
        return completion({"content": ""}, finish="length", usage=usage)
    usage = {
        "input_tokens": 50, "output_tokens": thought, "output_tokens_details": {"thinking_tokens": thought},
    }  # fmt: skip
    return message({"type": "thinking", "thinking": SECRET, "signature": "s"}, stop="max_tokens", usage=usage)


def answering(stand: Stand, text: str, *, cut: bool = False, refused: bool = False) -> bytes:
    """Return an answer of 50 tokens read and 20 written in the provider's shape."""
    if stand.api == "openai":
        finish = "length" if cut else "content_filter" if refused else "stop"
        return completion({"content": text}, finish=finish)
    stop = "max_tokens" if cut else "refusal" if refused else "end_turn"
    return message(*([{"type": "text", "text": text}] if text else []), stop=stop)


USED = {"input_tokens": 50, "output_tokens": 20}


def counts(used: Usage | None) -> dict[str, int | None]:
    assert used is not None
    return {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}


@asynccontextmanager
async def provided(base_url: str, model: str, reasoning: Reasoning = "off") -> AsyncGenerator[Stand]:
    """Give a model as it is asked at `base_url`, but that the mock answers."""
    async with MockUpstream(key=KEY, reply=GOOD) as up:
        at = ModelSpec(upstream="mock", base_url=base_url, api="openai", key=KEY, model=model, reasoning=reasoning)
        async with build_http_client(at) as http:
            prices = PriceList(base_url=base_url, api="openai")
            mind = ProviderModel(at, openai_model.build_model(at, f"{up.base_url}/v1", http), prices, SystemClock())
            yield Stand(up=up, mind=mind, api="openai")
