"""Answers that come in another form than was asked for: paid for, and so passed on and counted, also after a hold."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import brotli
import httpx2
import openai
import pytest
from backports import zstd

from tests.gateway.wire.peer import Caller, answering, peer
from tests.interaction.live import CHAT, Live, live


def bare(said: bytes) -> bytes:
    """Return a text deflated without the head and the sum of zlib, as some servers send it."""
    return zlib.compress(said)[2:-4]


SAID = "The pier is closed."
ARGUMENTS = '{"where":"pier"}'
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}
SPOKEN = {"role": "assistant", "content": SAID, "reasoning_content": "Hm"}
COMPLETION = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": SPOKEN},
        {"index": 1, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [CALL]}},
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
}  # fmt: skip
RESPONSE: dict[str, Any] = {
    "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-4o-mini",
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None,
    "instructions": None, "metadata": {}, "temperature": None, "top_p": None,
    "output": [
        {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {
            "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": SAID, "annotations": []}],
        },
        {
            "id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "look",
            "arguments": ARGUMENTS,
        },
    ],
    "usage": {
        "input_tokens": 7, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12,
    },
}  # fmt: skip
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-3-5-haiku-latest",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "text", "text": SAID},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"where": "pier"}},
    ],
    "stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 7, "output_tokens": 5},
}  # fmt: skip
COMPLETED = {
    "id": "cmpl-1", "object": "text_completion", "created": 1, "model": "gpt-4o-mini",
    "choices": [{"index": 0, "text": SAID, "finish_reason": "stop", "logprobs": None}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
}  # fmt: skip
TALK = [{"role": "user", "content": "Is it open?"}]
ENDPOINTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "/v1/chat/completions": ({"model": "gpt-4o-mini", "messages": TALK}, COMPLETION),
    "/v1/responses": ({"model": "gpt-4o-mini", "input": "Is it open?"}, RESPONSE),
    "/v1/completions": ({"model": "gpt-4o-mini", "prompt": "Is it open?"}, COMPLETED),
    "/v1/messages": ({"model": "claude-3-5-haiku-latest", "max_tokens": 99, "messages": TALK}, MESSAGE),
}
PACKED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", bare),
    ("br", brotli.compress),  # pyright: ignore[reportUnknownMemberType]
    ("zstd", zstd.compress),
]
EACH = pytest.mark.parametrize("path", ENDPOINTS, ids=lambda path: path.rpartition("/")[2])
HELD = pytest.mark.parametrize("held", [False, True], ids=["awake", "held"])


def upstream_of(path: str) -> str:
    return "anthropic" if path == "/v1/messages" else "openai"


async def ask(at: Live, path: str, body: object, *, held: bool) -> tuple[int, str, bytes]:
    """Make a call, which is held until its reply is opened if so wished; return status, kind and body of its answer."""
    token = await at.agent(include_usage=False)
    await at.sleeping(held)

    async def call() -> tuple[int, str, bytes]:
        async with at.call(token, path, body, upstream=upstream_of(path)) as response:
            return response.status, response.headers["content-type"].partition(";")[0], await response.read()

    asking = asyncio.create_task(call())
    if held:
        while (await at.held(1))[0]["phase"] != "opened":
            await asyncio.sleep(0.01)
        await at.sleeping(False)
    return await asking


async def counted(at: Live) -> tuple[int, int, int, int]:
    (line,) = await at.usage()
    return line["calls"], line["failed"], line["input_tokens"], line["output_tokens"]


@EACH
@pytest.mark.spec("GATE-50", "GATE-64")
async def test_a_whole_answer_to_a_call_for_a_stream_is_streamed_after_a_hold_and_its_usage_counted(
    tmp_path: Path, path: str
) -> None:
    asked, said = ENDPOINTS[path]
    async with live(tmp_path) as at:
        at.upstream.next(body=said, headers={"content-type": "application/json"})
        status, kind, stream = await ask(at, path, {**asked, "stream": True}, held=True)
        assert (status, kind) == (200, "text/event-stream")
        assert await counted(at) == (1, 0, 7, 5)
    read_as_stream(path, stream)


@EACH
@pytest.mark.spec("GATE-61", "GATE-64")
async def test_a_whole_answer_to_a_call_for_a_stream_passes_as_it_came_while_awake_and_its_usage_is_counted(
    tmp_path: Path, path: str
) -> None:
    asked, said = ENDPOINTS[path]
    async with live(tmp_path) as at:
        at.upstream.next(body=said, headers={"content-type": "application/json"})
        status, kind, whole = await ask(at, path, {**asked, "stream": True}, held=False)
        assert (status, kind, json.loads(whole)) == (200, "application/json", said)
        assert await counted(at) == (1, 0, 7, 5)


@HELD
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("packing", PACKED, ids=["gzip", "deflate", "deflate without a head", "br", "zstd"])
@pytest.mark.spec("GATE-61", "GATE-64")
async def test_a_compressed_answer_is_unpacked_and_counted(
    tmp_path: Path, packing: tuple[str, Callable[[bytes], bytes]], streamed: bool, held: bool
) -> None:
    delta = {"index": 0, "delta": {"role": "assistant", "content": SAID}, "finish_reason": "stop"}
    events = b"data: %b\n\ndata: [DONE]\n\n" % json.dumps({**COMPLETION, "choices": [delta]}).encode()
    said = events if streamed else json.dumps(COMPLETION).encode()
    coding, pack = packing
    body, kind = pack(said), b"text/event-stream" if streamed else b"application/json"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-encoding: %b\r\n" % (kind, coding.encode())
    async with peer(answering(head + b"content-length: %d\r\n\r\n" % len(body) + body)) as far:
        async with live(tmp_path, upstream={"base_url": f"http://127.0.0.1:{far.port}"}) as at:
            status, got, answer = await ask(at, "/v1/chat/completions", {**CHAT, "stream": streamed}, held=held)
            assert (status, got.encode(), answer.lstrip(b": keep-alive\n")) == (200, kind, said)
            assert await counted(at) == (1, 0, 7, 5)


@pytest.mark.spec("GATE-63")
@pytest.mark.parametrize(("coding", "pack"), [PACKED[0], *PACKED[3:]])
@pytest.mark.parametrize("flaw", ["cut off", "not packed"])
async def test_a_compressed_answer_that_is_not_whole_is_a_502(
    tmp_path: Path, flaw: str, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(json.dumps(COMPLETION).encode())
    body = packed[:-20] if flaw == "cut off" else b"\x1f\x8b" + packed
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: %b\r\n" % coding.encode()
    async with peer(answering(head + b"content-length: %d\r\n\r\n" % len(body) + body)) as far:
        async with live(tmp_path, upstream={"base_url": f"http://127.0.0.1:{far.port}", "retries": 0}) as at:
            assert (await at.answered(await at.agent()))[0] == 502


@pytest.mark.spec("GATE-63")
@pytest.mark.parametrize(("coding", "pack"), [PACKED[0], *PACKED[3:]])
async def test_a_few_packed_bytes_cannot_fill_the_memory(
    tmp_path: Path, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    body = pack(b" " * 80 * 2**20)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: %b\r\n" % coding.encode()
    async with peer(answering(head + b"content-length: %d\r\n\r\n" % len(body) + body)) as far:
        async with live(tmp_path, upstream={"base_url": f"http://127.0.0.1:{far.port}", "retries": 0}) as at:
            status, problem = await at.answered(await at.agent())
            assert (status, "sent more than" in problem["error"]["message"]) == (502, True)


DELTA = {"index": 0, "delta": {"role": "assistant", "content": SAID}, "finish_reason": "stop"}
DONE = b"data: [DONE]\n\n"
EVENTS = b"data: %b\n\n%b" % (json.dumps({**COMPLETION, "choices": [DELTA]}).encode(), DONE)


@HELD
@pytest.mark.parametrize(
    ("kind", "before"),
    [
        ("text/plain", b""),
        ("application/json", b": one moment\n\n"),
        ("application/octet-stream", b""),
        ("text/html", b"\xef\xbb\xbf\r\n"),
        ("", b"event: m\n"),
    ],
)
@pytest.mark.spec("GATE-98", "GATE-64")
async def test_a_stream_of_any_type_is_told_by_its_first_bytes_and_counted(
    tmp_path: Path, kind: str, before: bytes, held: bool
) -> None:
    go_on = asyncio.Event()
    first, rest = before + EVENTS[: -len(DONE)], DONE

    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(b"HTTP/1.1 200 OK\r\n" + (f"content-type: {kind}\r\n".encode() if kind else b""))
        await caller.say(b"transfer-encoding: chunked\r\n\r\n")
        await caller.say(*(b"1\r\n%b\r\n" % first[at : at + 1] for at in range(12)))
        await caller.say(b"%x\r\n%b\r\n" % (len(first) - 12, first[12:]))
        await go_on.wait()
        await caller.say(b"%x\r\n%b\r\n0\r\n\r\n" % (len(rest), rest))

    async with peer(script) as far, live(tmp_path, upstream={"base_url": f"http://127.0.0.1:{far.port}"}) as at:
        token = await at.agent(include_usage=False)
        await at.sleeping(held)
        call = asyncio.ensure_future(at.call(token, body={**CHAT, "stream": True}).__aenter__())
        if held:
            while (await at.held(1))[0]["phase"] != "opened":
                await asyncio.sleep(0.01)
            await at.sleeping(False)
        async with asyncio.timeout(60), await call as response:
            got = b""
            while first not in got:
                got += await response.content.readany()
            go_on.set()
            got += await response.content.read()
        assert got.endswith(first + rest)
        assert held or got == first + rest
        assert await counted(at) == (1, 0, 7, 5)


@pytest.mark.spec("GATE-99", "GATE-64")
@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/v1/chat/completions", b'data: {"error":{"message":"overloaded","code":503}}\n\n'),
        ("/v1/completions", b'data: {"error":{"message":"overloaded","code":503}}\n\n'),
        ("/v1/chat/completions", b'data: {"error":"overloaded"}\n\n'),
    ],
)
async def test_a_stream_with_an_error_and_a_regular_end_has_failed(tmp_path: Path, path: str, error: bytes) -> None:
    async with live(tmp_path) as at:
        asked, _ = ENDPOINTS[path]
        at.upstream.next(body=error + DONE, headers={"content-type": "text/event-stream"})
        assert (await ask(at, path, {**asked, "stream": True}, held=False))[2] == error + DONE
        (line,) = await at.usage()
        assert (line["calls"], line["failed"]) == (1, 1)


@pytest.mark.spec("GATE-99", "GATE-64")
async def test_an_event_too_long_to_be_read_fails_no_call_and_hides_no_usage(tmp_path: Path) -> None:
    picture = b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": {"image": "x" * 9_000_000}}]}).encode()
    async with live(tmp_path) as at:
        at.upstream.next(body=picture + EVENTS, headers={"content-type": "text/event-stream"})
        answer = (await ask(at, "/v1/chat/completions", {**CHAT, "stream": True}, held=False))[2]
        assert answer == picture + EVENTS
        assert await counted(at) == (1, 0, 7, 5)


@pytest.mark.spec("GATE-99", "GATE-64")
async def test_a_whole_answer_too_long_to_be_read_has_not_failed(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        at.upstream.next(body={**COMPLETION, "image": "x" * 9_000_000}, headers={"content-type": "application/json"})
        assert len((await ask(at, "/v1/chat/completions", CHAT, held=False))[2]) > 9_000_000
        (line,) = await at.usage()
        assert (line["calls"], line["failed"], line["unknown"]) == (1, 0, 1)


def read_as_stream(path: str, stream: bytes) -> None:
    """Have the provider's own SDK read the stream, and see that all of the answer is in it."""

    def handler(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    if path == "/v1/messages":
        claude = anthropic.Anthropic(api_key="x", base_url="http://x", http_client=http)
        with claude.messages.stream(model="m", max_tokens=9, messages=[]) as events:
            assert (
                events.get_final_message().model_dump(mode="json", exclude_unset=True)["content"] == MESSAGE["content"]
            )
        return
    client = openai.OpenAI(api_key="x", base_url="http://x/v1", http_client=http)
    if path == "/v1/responses":
        with client.responses.stream(model="m", input="x") as events:
            kinds = [event.type for event in events]
            response = events.get_final_response()
        assert response.output_text == SAID
        assert "response.reasoning_summary_text.delta" in kinds
        assert "response.function_call_arguments.done" in kinds
    elif path == "/v1/completions":
        with client.completions.create(model="m", prompt="x", stream=True) as chunks:
            assert "".join(chunk.choices[0].text for chunk in chunks) == SAID
    else:
        with client.chat.completions.stream(model="m", messages=[]) as events:
            said = events.get_final_completion()
        assert said.choices[0].message.content == SAID
        assert said.choices[0].message.model_extra == {"reasoning_content": "Hm"}
        assert [choice.finish_reason for choice in said.choices] == ["stop", "tool_calls"]
        assert said.choices[1].message.tool_calls is not None
        assert said.choices[1].message.tool_calls[0].function.arguments == ARGUMENTS
