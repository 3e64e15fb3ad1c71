"""How often the body of a large call is read on its way."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

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


@pytest.mark.spec("LARGE-03")
@pytest.mark.parametrize(
    ("policy", "parses"),
    [({}, 1), ({"bank": "team", "answer_mode": "off"}, 1), ({"bank": "team"}, 2)],
    ids=["plain", "with memory", "with ready answers"],
)
async def test_a_streamed_call_is_parsed_once_for_all_but_ready_answers_and_scanned_once_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: dict[str, str], parses: int
) -> None:
    body = json.dumps({"model": "m", "stream": True, "messages": [*TURNS, {"role": "user", "content": "hi"}]}).encode()
    parsed: list[int] = []
    loads = orjson.loads

    def counting_loads(text: Any) -> Any:
        parsed.append(len(text))
        return loads(text)

    scanner = ReadingScanner()
    async with live(tmp_path, memory={"embedder": {"kind": "none"}}) as at:
        token = await at.agent("ann", **policy)
        monkeypatch.setattr(orjson, "loads", counting_loads)
        monkeypatch.setattr(splice, "_SCANNER", scanner)
        assert b"[DONE]" in await at.called(token, body)
        monkeypatch.undo()
    (request,) = at.upstream.requests
    assert json.loads(request.body)["stream_options"] == {"include_usage": True}
    assert parsed.count(len(body)) == parses
    assert scanner.read_characters <= len(body)
