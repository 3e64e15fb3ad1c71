"""The official model SDKs behind one call: ask a text, get the model's words."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import anthropic
import openai

from tests.clients.node_program import NodeFailed, run_node

MODEL = "mock-1"

Ask = Callable[[str, str, str, dict[str, Any]], Awaitable[str]]
"""Base URL (as its SDK wants it), key, text and options of the client."""


@dataclass(frozen=True, kw_only=True)
class ModelClient:
    """One way to call a model."""

    name: str
    upstream: str
    """Name of the upstream that speaks its format: openai or anthropic."""
    path: str
    """Path of the call at the upstream."""
    streamed: bool
    node: bool
    ask: Ask

    async def say(self, server_url: str, token: str, text: str, **options: Any) -> str:
        """Ask through the gateway at `server_url` with the agent's token."""
        suffix = "/v1" if self.upstream == "openai" else ""
        return await self.ask(f"{server_url}/llm/{self.upstream}{suffix}", token, text, options)


def _chat_sync(url: str, key: str, text: str, options: dict[str, Any], streamed: bool) -> str:
    with openai.OpenAI(base_url=url, api_key=key, **options) as client:
        if not streamed:
            whole = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}])
            return whole.choices[0].message.content or ""
        chunks = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}], stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


async def _chat(url: str, key: str, text: str, options: dict[str, Any], streamed: bool) -> str:
    async with openai.AsyncOpenAI(base_url=url, api_key=key, **options) as client:
        if not streamed:
            whole = await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}])
            return whole.choices[0].message.content or ""
        chunks = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": text}], stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])


def _responses_sync(url: str, key: str, text: str, options: dict[str, Any], streamed: bool) -> str:
    with openai.OpenAI(base_url=url, api_key=key, **options) as client:
        if not streamed:
            return client.responses.create(model=MODEL, input=text).output_text
        events = client.responses.create(model=MODEL, input=text, stream=True)
        return "".join(event.delta for event in events if event.type == "response.output_text.delta")


async def _responses(url: str, key: str, text: str, options: dict[str, Any], streamed: bool) -> str:
    async with openai.AsyncOpenAI(base_url=url, api_key=key, **options) as client:
        if not streamed:
            return (await client.responses.create(model=MODEL, input=text)).output_text
        events = await client.responses.create(model=MODEL, input=text, stream=True)
        return "".join([event.delta async for event in events if event.type == "response.output_text.delta"])


def _messages_sync(url: str, key: str, text: str, options: dict[str, Any], streamed: bool) -> str:
    with anthropic.Anthropic(base_url=url, api_key=key, **options) as client:
        if not streamed:
            message = client.messages.create(model=MODEL, max_tokens=100, messages=[{"role": "user", "content": text}])
            return "".join(block.text for block in message.content if block.type == "text")
        with client.messages.stream(
            model=MODEL, max_tokens=100, messages=[{"role": "user", "content": text}]
        ) as stream:
            return "".join(stream.text_stream)


async def _messages(url: str, key: str, text: str, options: dict[str, Any], streamed: bool) -> str:
    async with anthropic.AsyncAnthropic(base_url=url, api_key=key, **options) as client:
        if not streamed:
            message = await client.messages.create(
                model=MODEL, max_tokens=100, messages=[{"role": "user", "content": text}]
            )
            return "".join(block.text for block in message.content if block.type == "text")
        async with client.messages.stream(
            model=MODEL, max_tokens=100, messages=[{"role": "user", "content": text}]
        ) as stream:
            return "".join([text async for text in stream.text_stream])


def _in_thread(work: Callable[[str, str, str, dict[str, Any], bool], str], streamed: bool) -> Ask:
    async def ask(url: str, key: str, text: str, options: dict[str, Any]) -> str:
        # A pool of its own: the loop's has as few as five threads, and a held call keeps one busy.
        with ThreadPoolExecutor(1) as pool:
            return await asyncio.get_running_loop().run_in_executor(pool, work, url, key, text, options, streamed)

    return ask


def _awaited(work: Callable[[str, str, str, dict[str, Any], bool], Awaitable[str]], streamed: bool) -> Ask:
    async def ask(url: str, key: str, text: str, options: dict[str, Any]) -> str:
        return await work(url, key, text, options, streamed)

    return ask


def _in_node(call: str, streamed: bool) -> Ask:
    """The options have Python's names and seconds; Node's SDKs know `maxRetries`, and milliseconds."""

    async def ask(url: str, key: str, text: str, options: dict[str, Any]) -> str:
        renamed = {{"max_retries": "maxRetries"}.get(name, name): value for name, value in options.items()}
        if "timeout" in renamed:
            renamed["timeout"] = round(renamed["timeout"] * 1000)
        said = await run_node(
            "models.mjs", call=call, stream=streamed, base_url=url, key=key, text=text, options=renamed
        )
        return said.text

    return ask


async def failure(
    client: ModelClient, server_url: str, token: str, *, max_retries: int = 0
) -> tuple[list[str], int | None, str]:
    """Ask, and return the raised exception's class names (the nearest first), its status and its words."""
    try:
        said = await client.say(server_url, token, "hello", max_retries=max_retries)
    except NodeFailed as failed:
        return failed.classes, failed.status, failed.message
    except (openai.OpenAIError, anthropic.AnthropicError) as raised:
        names = [each.__name__ for each in type(raised).__mro__]
        return names, getattr(raised, "status_code", None), str(raised)
    raise AssertionError(f"{client.name} raised nothing and said {said!r}")


def model_clients() -> list[ModelClient]:
    """Return all combinations of SDK, call, sync or async, streamed or buffered."""
    calls = [
        ("openai-chat", "openai", "/v1/chat/completions", "chat", _chat_sync, _chat),
        ("openai-responses", "openai", "/v1/responses", "responses", _responses_sync, _responses),
        ("anthropic-messages", "anthropic", "/v1/messages", "messages", _messages_sync, _messages),
    ]
    found: list[ModelClient] = []
    for name, upstream, path, call, sync, awaited in calls:
        for streamed in (True, False):
            ways = (("sync", _in_thread(sync, streamed)), ("async", _awaited(awaited, streamed)))
            for way, ask in (*ways, ("node", _in_node(call, streamed))):
                found.append(
                    ModelClient(
                        name=f"{name}-{way}-{'streamed' if streamed else 'buffered'}",
                        upstream=upstream,
                        path=path,
                        streamed=streamed,
                        node=way == "node",
                        ask=ask,
                    )
                )
    return found
