"""The end of a stream, which may come before its beginning has been passed on."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.gateway.wire.peer import answering, peer
from tests.interaction.live import CHAT, live


@pytest.mark.spec("GATE-61")
async def test_a_stream_that_ends_while_its_id_is_written_down_comes_whole(tmp_path: Path) -> None:
    said = " ".join(f"word {number}" for number in range(50))
    async with live(tmp_path) as at:
        token = await at.agent()
        path = tmp_path / "circadia.db"
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)) as other:

            async def events() -> list[str]:
                body = {"model": "gpt-4o-mini", "input": said, "stream": True}
                async with at.call(token, "/v1/responses", body) as response:
                    return [line for line in (await response.text()).splitlines() if line.startswith("event: ")]

            # So that the gateway waits before it passes on the first event; in a thread, since the server may be in the
            # middle of a write, which it ends in this event loop.
            await asyncio.to_thread(other.execute, "BEGIN IMMEDIATE")
            call = asyncio.create_task(events())
            while not at.upstream.answered:
                await asyncio.sleep(0.01)
            other.execute("COMMIT")
            names = await call
    assert names[:1] == ["event: response.created"]
    assert names.count("event: response.output_text.delta") == 100
    assert names[-1:] == ["event: response.completed"]


@pytest.mark.spec("GATE-64")
async def test_a_message_whose_server_sends_no_event_of_its_end_is_counted_as_done(tmp_path: Path) -> None:
    events = (
        {"type": "message_start", "message": {"type": "message", "model": "m", "usage": {"input_tokens": 7}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    )
    async with live(tmp_path) as at:
        token = await at.agent()
        for count, failed in ((3, 0), (2, 1)):
            sent = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events[:count])
            at.upstream.next(body=sent, status=200, headers={"content-type": "text/event-stream"})
            body = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
            async with at.call(token, "/v1/messages", body, upstream="anthropic") as response:
                assert await response.read() == sent
            (line,) = await at.usage()
            assert (line["failed"], line["input_tokens"], line["output_tokens"]) == (failed, 7, 5)


@pytest.mark.spec("GATE-63")
@pytest.mark.parametrize("size", [10, 2_000_000])
async def test_a_stream_that_breaks_off_within_an_event_ends_with_an_error_that_can_be_read(
    tmp_path: Path, size: int
) -> None:
    begun = b'data: {"choices":[{"index":0,"delta":{"content":"%b' % (b"x" * size)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9000000\r\n\r\n"
    async with peer(answering(head + begun, then_close=True)) as far:
        async with live(tmp_path, upstream={"base_url": f"http://127.0.0.1:{far.port}"}) as at:
            token = await at.agent(include_usage=False)  # else the gateway holds an event of any length back
            async with asyncio.timeout(60), at.call(token, body={**CHAT, "stream": True}) as response:
                *_, last, end = (await response.read()).split(b"\n\n")
    assert end == b""
    assert "broke off" in json.loads(last.removeprefix(b"data: "))["error"]["message"]
