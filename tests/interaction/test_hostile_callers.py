"""What callers and upstreams do that no SDK does: each ends in a clear answer, and nothing is left behind."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from circadia.testing.mcp_upstream import MockMcpServer
from tests.interaction.live import ADMIN, CHAT, Live, live
from tests.interaction.test_mcp_door import VERSION, ask, call, session

MESSAGE = {"model": "claude-sonnet-4-5", "max_tokens": 900, "messages": [{"role": "user", "content": "hello"}]}


def raw(
    at: Live, token: str, body: object = CHAT, *, path: str = "/llm/openai/v1/chat/completions", **more: str
) -> bytes:
    data = json.dumps(body).encode()
    given = {"host": "127.0.0.1", "authorization": f"Bearer {token}", "content-length": str(len(data)), **more}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + data


async def connect(at: Live) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = int(at.url.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port)


async def status_of(at: Live, request: bytes) -> int:
    reader, writer = await connect(at)
    writer.write(request)
    async with asyncio.timeout(60):
        line = await reader.readline()
    writer.close()
    return int(line.split()[1])


@pytest.mark.spec("GATE-47", "GATE-46")
async def test_after_many_callers_have_hung_up_nothing_ticks_waits_or_is_counted(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        writers: list[asyncio.StreamWriter] = []
        for _ in range(50):
            _, writer = await connect(at)
            writer.write(raw(at, token))
            writers.append(writer)
        await at.held(50)
        for writer in writers:
            writer.transport.abort()
        await at.held(0)
        assert at.server.waiting() == 0
        await at.sleeping(False)
        assert at.upstream.requests == []


@pytest.mark.spec("GATE-47")
async def test_a_caller_with_a_second_request_in_the_pipe_is_dropped_like_any_other(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        _, writer = await connect(at)
        writer.write(raw(at, token) + raw(at, token))
        await at.held(1)
        writer.transport.abort()
        await at.held(0)
        await at.sleeping(False)
        assert at.upstream.requests == []


@pytest.mark.spec("GATE-46")
async def test_a_caller_that_goes_while_its_body_is_spilled_leaves_no_file(tmp_path: Path) -> None:
    async with live(tmp_path, limits={"spill_bytes": 1000}) as at:
        token = await at.agent()
        await at.sleeping(True)
        body = {**CHAT, "messages": [{"role": "user", "content": "x" * 2_000_000}]}
        for _ in range(20):
            _, writer = await connect(at)
            writer.write(raw(at, token, body))
            await writer.drain()
            writer.transport.abort()
        await at.held(0)
        async with asyncio.timeout(60):
            while at.server.waiting() or list((tmp_path / "held").glob("*")):
                await asyncio.sleep(0.02)


@pytest.mark.spec("GATE-66", "GATE-64")
async def test_hanging_up_before_the_usage_is_told_frees_no_budget(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(max_tokens_per_day=2_000)
        statuses: list[int] = []
        for _ in range(4):
            resume = asyncio.Event()
            at.upstream.next(pause_after_chunks=4, resume=resume, text="one two three four")
            async with at.call(token, "/v1/messages", {**MESSAGE, "stream": True}, upstream="anthropic") as response:
                statuses.append(response.status)
                if response.status == 200:
                    await response.content.readuntil(b"\n\n")
                response.close()
            await at.upstream.wait_for_drops(min(len(statuses), 2))
            resume.set()
            await at.server.journal.flush()
        assert statuses == [200, 200, 429, 429]
        assert (await at.usage())[0]["unknown"] == 2


@pytest.mark.spec("GATE-35")
@pytest.mark.parametrize("given", [{"host": "["}, {"host": "a@127.0.0.1"}, {"origin": "http://["}, {"origin": "["}])
async def test_addresses_that_are_none_are_refused_and_not_a_failure(tmp_path: Path, given: dict[str, str]) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        assert await status_of(at, raw(at, token, **given)) in (403, 421)


@pytest.mark.spec("GATE-35")
@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_who_names_no_host_is_told_to_name_one(tmp_path: Path, version: str) -> None:
    async with live(tmp_path) as at:
        reader, writer = await connect(at)
        writer.write(f"GET /healthz HTTP/{version}\r\nconnection: close\r\n\r\n".encode())
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 421 ")
    told = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert "send the header Host" in told["detail"]
    assert told["error"]["message"] == told["detail"], "where OpenAI's SDKs look"


@pytest.mark.spec("GATE-60")
async def test_odd_numbers_ids_and_paths_are_borne(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        assert await status_of(at, raw(at, token, x_stainless_timeout="\xb2")) == 200
        assert await status_of(at, raw(at, token, path="/llm%2Fopenai%2Fv1/models")) == 404
        assert await status_of(at, raw(at, token, path="/llm%2Fopenai/v1/chat/completions")) == 404
        assert await status_of(at, raw(at, token, path="/llm")) == 404
        assert await status_of(at, raw(at, token, path="/llm/openai")) in (400, 403)
        odds: list[Any] = [[], {}, None, 1.5]
        for odd in odds:
            cancel: dict[str, Any] = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": odd},
            }
            async with at.tool(token, cancel) as response:
                assert response.status == 202
        for kind in ("text/plain", "", "application/x-www-form-urlencoded"):
            async with at.tool(
                token, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers={"content-type": kind}
            ) as response:
                assert response.status == 400
                assert "send JSON-RPC with" in (await response.json())["error"]["message"]
        deep: Any = b"[" * 100_000
        async with at.tool(token, deep) as response:
            assert response.status == 400
        async with at.call(token, body=b'{"messages":' + deep) as response:
            assert response.status == 400


@pytest.mark.spec("GATE-63")
async def test_an_upstream_that_switches_protocols_or_sends_no_body_is_borne(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"retries": 0}) as at:
        token = await at.agent()
        at.upstream.next(status=204, body=b"")
        async with at.call(token) as response:
            assert response.status == 204
            assert "content-length" not in response.headers


@pytest.mark.spec("GATE-50", "GATE-63")
async def test_a_stream_that_breaks_within_an_event_ends_in_an_event_that_can_be_read(tmp_path: Path) -> None:
    broken = b'event: message_start\ndata: {"type":"message_start","mess'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%b\r\n" % (len(broken), broken))
        await writer.drain()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, live(tmp_path, upstream={"base_url": address, "retries": 0}) as at:
        token = await at.agent()
        async with at.call(token, "/v1/messages", {**MESSAGE, "stream": True}, upstream="anthropic") as response:
            lines = (await response.text()).splitlines()
        assert all(json.loads(line[6:]) for line in lines if line.startswith("data: "))
        assert "event: error" in lines


@pytest.mark.setting("mcp_servers.headers_env", "mcp_servers.url")
@pytest.mark.spec("GATE-62")
async def test_an_mcp_server_that_repeats_its_secret_in_an_error_does_not_tell_the_agent(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = b"you sent: " + head
        writer.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    settings = {"odd": {"url": url, "headers_env": {"x-secret": "SECRET"}}}
    environment = {"SECRET": "value-of-the-secret"}
    patient = {"hold_grace_seconds": 60}  # no sign of life makes a stream of the answer
    async with server, live(tmp_path, defaults=patient, mcp_servers=settings, environment=environment) as at:
        token = await at.agent()
        async with at.tool(token, call("echo"), server="/odd") as response:
            text = await response.text()
        assert "you sent" in text
        assert environment["SECRET"] not in text
        assert token not in text


@pytest.mark.spec("GATE-80", "GATE-64")
async def test_a_line_that_the_database_cannot_hold_costs_no_other_line(tmp_path: Path, postgres_url: str) -> None:
    async with live(tmp_path, server={"database_url": postgres_url}) as at:
        token = await at.agent()
        async with at.call(token, body={**CHAT, "model": "nul\u0000in-the-name"}) as response:
            await response.read()
        async with at.call(token) as response:
            await response.read()
        assert {group["key"] for group in await at.usage("model")} >= {"gpt-4o-mini"}


@pytest.mark.spec("GATE-47", "GATE-35")
async def test_one_session_cannot_cancel_what_another_has_under_way(tmp_path: Path) -> None:
    async with MockMcpServer() as tools, live(tmp_path, mcp_servers={"echo": {"url": tools.url}}) as at:
        ann, bob = await at.agent("ann"), await at.agent("bob")
        await at.sleeping(True)
        first, second, other = await session(at, ann), await session(at, ann), await session(at, bob)
        pending = asyncio.create_task(ask(at, ann, call("list_agents", 7), **{"mcp-session-id": first}))
        await at.held(1)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        for token, given in ((ann, second), (bob, other)):
            headers = {"mcp-session-id": given, "mcp-protocol-version": VERSION}
            async with at.tool(token, cancel, headers=headers) as response:
                assert response.status == 202
        assert len(await at.held(1)) == 1
        await at.sleeping(False)
        assert (await pending)[-1]["result"]


@pytest.mark.spec("GATE-62")
async def test_the_operators_token_is_no_agents_at_the_model_door(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        async with at.call(ADMIN) as response:
            assert response.status == 403
            assert "circadia agents add" in (await response.json())["error"]["message"]


@pytest.mark.spec("GATE-07", "GATE-60")
async def test_rights_that_are_taken_away_during_a_hold_are_gone_at_the_wake(tmp_path: Path) -> None:
    async with live(tmp_path, defaults={"hold_silent_seconds": 60}) as at:
        token = await at.agent()

        async def status() -> int:
            async with at.call(token) as response:
                await response.read()
                return response.status

        await at.sleeping(True)
        pending = asyncio.create_task(status())
        await at.held(1)
        path = "/sessions/default/agents/ann"
        assert (await at.rest("PATCH", path, {"policy": {"upstreams": []}}))[0] == 200
        await at.sleeping(False)
        assert await pending == 403
        assert (await at.rest("PATCH", path, {"policy": {"upstreams": ["*"]}}))[0] == 200
        await at.sleeping(True)
        pending = asyncio.create_task(status())
        await at.held(1)
        assert (await at.rest("POST", "/sessions/default/agents/ann/token"))[0] in (200, 201)
        await at.sleeping(False)
        assert await pending == 401


@pytest.mark.setting("upstreams.paths")
@pytest.mark.spec("GATE-63")
async def test_an_answer_that_broke_off_is_not_paid_for_again_and_redirects_are_not_followed(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"retries": 2, "paths": ["POST /v1/things"]}) as at:
        token = await at.agent()
        at.upstream.next(die_after_chunks=1)
        async with at.call(token) as response:
            assert response.status == 502
        assert len(at.upstream.requests) == 1
        at.upstream.next(status=500, body={"error": {"message": "no"}})
        async with at.call(token, "/v1/things", {"a": 1}) as response:
            assert response.status == 500
        assert len(at.upstream.requests) == 2
        at.upstream.next(status=307, body=b"{}", headers={"location": "http://127.0.0.1:9/"})
        async with at.call(token) as response:
            assert response.status == 502


@pytest.mark.spec("GATE-35")
async def test_a_head_without_end_is_refused(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        head = "".join(f"x-{number}: {'y' * 1000}\r\n" for number in range(100))
        assert await status_of(at, f"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n{head}\r\n".encode()) == 431


@pytest.mark.spec("GATE-35")
@pytest.mark.parametrize(
    ("sent", "status", "remedy"),
    [
        (f"GET /api/v1/agents?after={'a' * 70_000} HTTP/1.1\r\nhost: a\r\n\r\n", 414, "shorten"),
        (f"GET /api/v1/agents HTTP/1.1\r\nhost: a\r\nx: {'a' * 70_000}\r\n\r\n", 431, "shorten"),
        ("\x16\x03\x01\x02\x00\x01", 400, "without TLS"),
        ("GET /api/v1/agents HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n", 400, "an HTTP client"),
    ],
)
async def test_what_is_refused_before_it_is_a_request_is_told_what_to_do(
    tmp_path: Path, sent: str, status: int, remedy: str
) -> None:
    async with live(tmp_path) as at:
        reader, writer = await connect(at)
        writer.write(sent.encode("latin-1"))
        async with asyncio.timeout(60):
            head, body = (await reader.read()).split(b"\r\n\r\n")
        writer.close()
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\ncontent-type: application/problem+json\r\n" in head
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (status, "invalid_request")
    assert remedy in problem["detail"]
    assert problem["error"]["message"] == problem["detail"], "where OpenAI's SDKs look"


@pytest.mark.spec("GATE-35")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("host: 127.0.0.1", "host: evil.example"),
        ("host: 127.0.0.1", "Host: 127.0.0.1"),
        ("origin: http://127.0.0.1", "origin: https://evil.example"),
        ("idempotency-key: one", "Idempotency-Key: two"),
        ("authorization: Bearer one", "authorization: Bearer two"),
        ("mcp-session-id: one", "mcp-session-id: two"),
        ("api-key: one", "api-key: two"),
        ("x-circadia-user: ann", "x-circadia-user: bob"),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/messages", "/mcp", "/llm/openai/v1/chat/completions"])
async def test_of_two_headers_where_one_decides_none_is_taken(
    tmp_path: Path, path: str, first: str, second: str
) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        given = {"host": "127.0.0.1", "authorization": f"Bearer {token}", "content-length": "2"}
        name = first.partition(":")[0]
        lines = [f"{key}: {value}" for key, value in given.items() if key != name] + [first, second]
        head = "\r\n".join([f"POST {path} HTTP/1.1", *lines])
        assert await status_of(at, f"{head}\r\n\r\n{{}}".encode()) == 400
        assert at.upstream.requests == []


@pytest.mark.spec("GATE-35")
async def test_a_page_that_may_ask_may_send_the_headers_of_its_sdk_and_no_other_page_may(tmp_path: Path) -> None:
    async with live(tmp_path, server={"allowed_origins": ["https://good.example"]}) as at:
        for origin, status in (("https://good.example", 204), ("https://evil.example", 403)):
            asked = {
                "origin": origin, "access-control-request-method": "POST",
                "access-control-request-headers": "authorization,x-stainless-lang,mcp-method",
            }  # fmt: skip
            for path in ("/llm/openai/v1/chat/completions", "/mcp", "/api/v1/messages"):
                async with at.http.options(at.url + path, headers=asked) as response:
                    allowed = response.headers.get("access-control-allow-headers", "")
                assert response.status == status
                assert ("x-stainless-lang" in allowed and "mcp-method" in allowed) is (status == 204)


@pytest.mark.spec("GATE-66", "GATE-60")
async def test_a_model_that_is_taken_away_during_a_hold_is_not_asked_at_the_wake(tmp_path: Path) -> None:
    async with live(tmp_path, defaults={"hold_silent_seconds": 60}) as at:
        token = await at.agent(models=["gpt-4o-mini"])
        await at.sleeping(True)
        pending = asyncio.create_task(at.answered(token))
        await at.held(1)
        change = {"policy": {"models": ["gpt-4o"]}}
        assert (await at.rest("PATCH", "/sessions/default/agents/ann", change))[0] == 200
        await at.sleeping(False)
        status, answer = await pending
        assert (status, at.upstream.requests) == (403, [])
        assert "may not use model 'gpt-4o-mini'" in answer["error"]["message"]
