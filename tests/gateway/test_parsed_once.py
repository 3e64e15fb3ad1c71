"""How often the body of a large call is read on its way."""

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from circadia.gateway.dialects.registry import build_dialects
from circadia.gateway.payload import splice
from tests.interaction.live import live

TURNS = [{"role": "user", "content": "what? " * 500}, {"role": "assistant", "content": "that. " * 500}] * 100


class ReadingScanner:
    """The scanner of `splice`, which counts what it reads."""

    def __init__(self) -> None:
        self._scanner = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=len)
        self.read_characters = 0

    def raw_decode(self, text: str, start: int) -> tuple[Any, int]:
        value, end = self._scanner.raw_decode(text, start)
        self.read_characters += end - start
        return value, end


@contextmanager
def counted_reads(monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[list[int], ReadingScanner]]:
    """Yield the lengths of what is parsed, and the scanner, while a call is made."""
    parsed: list[int] = []
    loads, scanner = orjson.loads, ReadingScanner()

    def counting_loads(text: Any) -> Any:
        parsed.append(len(text))
        return loads(text)

    with monkeypatch.context() as patched:
        patched.setattr(orjson, "loads", counting_loads)
        patched.setattr(splice, "_SCANNER", scanner)
        yield parsed, scanner


@pytest.mark.spec("LARGE-03")
@pytest.mark.parametrize(
    ("policy", "options", "scans"),
    [
        ({}, {}, 1),
        ({}, {"stream_options": {"include_obfuscation": False}}, 2),
        ({"bank": "team", "answer_mode": "off"}, {}, 1),
        ({"bank": "team"}, {}, 1),
    ],
    ids=["plain", "with other options", "with memory", "with ready answers"],
)
async def test_a_streamed_call_is_parsed_once_and_scanned_once_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: dict[str, str], options: dict[str, Any], scans: int
) -> None:
    messages = [*TURNS, {"role": "user", "content": "hi"}]
    body = json.dumps({"model": "m", "stream": True, **options, "messages": messages}).encode()
    async with live(tmp_path, memory={"embedder": {"kind": "none"}}) as at:
        token = await at.agent("ann", **policy)
        with counted_reads(monkeypatch) as (parsed, scanner):
            assert b"[DONE]" in await at.called(token, body)
    (request,) = at.upstream.requests
    assert json.loads(request.body)["stream_options"]["include_usage"] is True
    assert parsed.count(len(body)) == 1
    assert scanner.read_characters <= scans * len(body), "stream options of the caller's are looked for once more"


@pytest.mark.spec("LARGE-03")
@pytest.mark.parametrize("policy", [{}, {"bank": "team", "answer_mode": "off"}], ids=["plain", "with memory"])
async def test_a_held_call_is_parsed_once_and_scanned_once_for_memory_and_its_wake_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: dict[str, str]
) -> None:
    body = json.dumps({"model": "m", "messages": [*TURNS, {"role": "user", "content": "hi"}]}).encode()
    async with live(tmp_path, memory={"embedder": {"kind": "none"}}) as at:
        token = await at.agent("ann", **policy)
        await at.sleeping(True)
        with counted_reads(monkeypatch) as (parsed, scanner):
            call = asyncio.create_task(at.called(token, body))
            await at.held(1)
            await at.sleeping(False)
            await call
    (request,) = at.upstream.requests
    assert "<circadia-notice>" in json.loads(request.body)["messages"][-1]["content"]
    assert parsed.count(len(body)) == 1
    assert scanner.read_characters <= len(body)


@pytest.mark.spec("LARGE-03")
@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("chat_completions", {"messages": TURNS}),
        ("messages", {"system": "Be short.", "messages": TURNS}),
        ("responses", {"instructions": "Be short.", "input": TURNS}),
        ("generate_content", {"contents": [{"role": "user", "parts": [{"text": "what? " * 500}]}] * 100}),
    ],
)
def test_each_dialect_reads_a_prompt_in_one_scan(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, body: dict[str, Any]
) -> None:
    content = json.dumps(body).encode()
    with counted_reads(monkeypatch) as (_, scanner):
        prompt = build_dialects("openai")[endpoint].prompt(content)
    assert prompt is not None
    assert len(prompt.messages) >= 100
    assert scanner.read_characters <= len(content)
