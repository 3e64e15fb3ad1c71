"""What a proxied MCP server answers that is no response: after a hold its caller gets an error that it can read."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.gateway.wire.peer import answering, peer
from tests.interaction.live import live
from tests.interaction.test_mcp_door import call, messages

LOST = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}'
SERVED = b'{"jsonrpc":"2.0","id":7,"result":{"content":[]}}'


def http(status: bytes, body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(b"%b\r\n" % line for line in headers or (b"content-type: application/json",))
    return b"HTTP/1.1 %b X\r\n%bcontent-length: %d\r\n\r\n%b" % (status, lines, len(body), body)


@pytest.mark.spec("GATE-98")
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (http(b"404", LOST), "answered 404: Session not found; initialize again"),
        (http(b"404", b"data: %b\n\n" % LOST, b"content-type: text/event-stream"), "Session not found"),
        (http(b"400", b"No valid session", b"content-type: text/plain"), "answered 400: No valid session; initialize"),
        (http(b"401", b'{"error":"invalid_token"}'), "answered 401: invalid_token"),
        (http(b"500", b""), "answered 500"),
        (http(b"200", b'{"jsonrpc":"2.0","id":8,"result":{}}'), "answered 200 without a response"),
        (http(b"200", b'{"jsonrpc":"2.0","id":"7","result":{}}'), "answered 200 without a response"),
        (http(b"202", b""), "answered 202 without a response"),
    ],
)
async def test_after_a_hold_what_is_no_response_is_an_error_with_the_requests_id(
    tmp_path: Path, answer: bytes, told: str
) -> None:
    async with peer(answering(answer)) as far:
        servers = {"far": {"url": f"http://127.0.0.1:{far.port}/mcp"}}
        async with live(tmp_path, mcp_servers=servers) as at:
            token = await at.agent()
            await at.sleeping(True)
            async with asyncio.timeout(60), at.tool(token, call("x", 7), server="/far") as response:
                assert await response.content.readuntil(b"\n\n") == b": keep-alive\n\n"
                await at.sleeping(False)
                (message,) = messages(await response.text())
    assert message["id"] == 7
    assert told in message["error"]["message"]


@pytest.mark.spec("GATE-98")
@pytest.mark.parametrize("held", [False, True], ids=["awake", "held"])
async def test_a_redirect_of_a_proxied_server_reaches_nobody(tmp_path: Path, held: bool) -> None:
    inside = http(b"307", b"", b"location: http://10.1.2.3:9000/internal")
    async with peer(answering(inside)) as far:
        servers = {"far": {"url": f"http://127.0.0.1:{far.port}/mcp"}}
        async with live(tmp_path, mcp_servers=servers) as at:
            token = await at.agent()
            await at.sleeping(held)
            pending = asyncio.ensure_future(at.tool(token, call("x", 7), server="/far").__aenter__())
            if held:
                await at.held(1)
                await at.sleeping(False)
            async with asyncio.timeout(60), await pending as response:
                text = await response.text()
                assert response.status == 200
                assert "10.1.2.3" not in text + str(response.headers)
    (message,) = messages(text)
    assert (message["id"], message["error"]["message"]) == (
        7, "MCP server 'far' redirects; the operator must set its url",
    )  # fmt: skip


@pytest.mark.spec("GATE-98")
async def test_of_an_endless_error_only_the_beginning_is_read(tmp_path: Path) -> None:
    head = b"HTTP/1.1 500 X\r\ncontent-type: text/plain\r\ncontent-length: 100000000\r\n\r\n"
    async with peer(answering(head + b"x" * 70_000)) as far:
        servers = {"far": {"url": f"http://127.0.0.1:{far.port}/mcp"}}
        async with live(tmp_path, mcp_servers=servers) as at:
            token = await at.agent()
            async with asyncio.timeout(60), at.tool(token, call("x", 7), server="/far") as response:
                assert (response.status, await response.read()) == (500, b"x" * 65_536)


@pytest.mark.spec("GATE-98")
async def test_a_response_with_the_requests_id_passes_after_a_hold(tmp_path: Path) -> None:
    async with peer(answering(http(b"200", SERVED))) as far:
        servers = {"far": {"url": f"http://127.0.0.1:{far.port}/mcp"}}
        async with live(tmp_path, mcp_servers=servers) as at:
            token = await at.agent()
            await at.sleeping(True)
            async with asyncio.timeout(60), at.tool(token, call("x", 7), server="/far") as response:
                await response.content.readuntil(b"\n\n")
                await at.sleeping(False)
                assert messages(await response.text()) == [json.loads(SERVED)]


@pytest.mark.spec("GATE-98", "GATE-74")
@pytest.mark.parametrize("size", [10, 2_000_000])
async def test_a_stream_that_breaks_off_within_an_event_ends_with_an_error_that_can_be_read(
    tmp_path: Path, size: int
) -> None:
    begun = b'event: message\ndata: {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"%b' % (
        b"x" * size
    )
    noted = b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9000000\r\n\r\n"
    async with peer(answering(head + noted + begun, then_close=True)) as far:
        servers = {"far": {"url": f"http://127.0.0.1:{far.port}/mcp"}}
        async with live(tmp_path, mcp_servers=servers) as at:
            token = await at.agent()
            async with asyncio.timeout(60), at.tool(token, call("x", 7), server="/far") as response:
                events = (await response.text()).split("\n\n")
    assert events[0].encode() + b"\n\n" == noted
    assert len(events) == (3 if size == 10 else 4), "what is too long to be held back has begun"
    (message,) = messages(events[-2])
    assert (message["id"], "broke off" in message["error"]["message"]) == (7, True)
