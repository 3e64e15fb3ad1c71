"""What providers send that they should not, what callers send twice, and what callers of an older HTTP are sent."""

import json
from pathlib import Path

import pytest

from tests.gateway.wire.peer import answering, peer
from tests.interaction.live import CHAT, KEY, live
from tests.interaction.test_hostile_callers import connect, raw

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@pytest.mark.spec("GATE-63")
@pytest.mark.parametrize("status", [600, 700, 999])
async def test_a_status_that_http_does_not_have_is_a_502(tmp_path: Path, status: int) -> None:
    said = answering(b"HTTP/1.1 %d Odd\r\ncontent-length: 2\r\n\r\n{}" % status)
    async with peer(said) as far:
        upstream = {"base_url": f"http://127.0.0.1:{far.port}", "retries": 0}
        async with live(tmp_path, upstream=upstream) as at:
            found, problem = await at.answered(await at.agent())
    assert (found, problem["error"]["code"]) == (502, "upstream_failed")


@pytest.mark.spec("GATE-62")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_key_that_a_provider_repeats_reaches_nobody_in_header_body_or_event(
    tmp_path: Path, streamed: bool
) -> None:
    document = json.dumps({"error": {"message": f"bad key {KEY}"}, "you_sent": KEY}).encode()
    body = b"event: error\ndata: " + document + b"\n\n" if streamed else document
    kind = b"text/event-stream" if streamed else b"application/json"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\nx-you-sent: Bearer %b\r\nx-kept: yes\r\n" % (kind, KEY.encode())
    said = answering(head + b"content-length: %d\r\n\r\n" % len(body) + body)
    async with peer(said) as far, live(tmp_path, upstream={"base_url": f"http://127.0.0.1:{far.port}"}) as at:
        token = await at.agent()
        async with at.call(token, body={**CHAT, "stream": streamed}) as response:
            text = await response.text()
        assert KEY not in text
        assert "bad key [key]" in text
        assert KEY not in str(response.headers)
        assert response.headers["x-kept"] == "yes"


@pytest.mark.spec("GATE-61")
async def test_cookies_cross_origin_rights_and_what_describes_the_site_of_a_provider_stay_here(tmp_path: Path) -> None:
    more = b"set-cookie: a=b\r\naccess-control-allow-origin: *\r\naccess-control-allow-credentials: true\r\n"
    more += b'server: cloudflare\r\nvia: 1.1 edge\r\nalt-svc: h3=":443"\r\nstrict-transport-security: max-age=9\r\n'
    said = answering(OK + more + b"content-length: 2\r\n\r\n{}")
    async with peer(said) as far, live(tmp_path, upstream={"base_url": f"http://127.0.0.1:{far.port}"}) as at:
        async with at.call(await at.agent()) as response:
            names = {name.lower() for name in response.headers}
        assert not {"set-cookie", "access-control-allow-origin", "access-control-allow-credentials"} & names
        assert not {"server", "via", "alt-svc", "strict-transport-security"} & names
        assert response.headers["x-content-type-options"] == "nosniff"
    async with live(tmp_path / "second") as at, at.http.get(f"{at.url}/healthz") as response:
        assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.spec("GATE-62")
async def test_the_agents_token_goes_up_neither_in_the_query_nor_inside_a_longer_header(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        odd = {"x-meta": f'{{"key":"{token}","more":1}}', "x-tail": f"{token};v=1", "x-kept": "yes"}
        encoded = "".join(f"%{ord(sign):02X}" for sign in token)
        for query in (f"key={token}", f"a=1&k={encoded}&b=2", f"{token}"):
            async with at.call(token, f"/v1/chat/completions?{query}", headers=odd) as response:
                assert response.status == 200
            seen = at.upstream.requests[-1]
            assert token not in str(seen.headers)
            assert seen.header("x-kept") == "yes"
            assert token not in seen.path
            assert encoded not in seen.path
        async with at.call(token, "/v1/chat/completions?a=1&b=2") as response:
            assert response.status == 200


@pytest.mark.spec("GATE-63")
async def test_a_repeat_waits_for_the_milliseconds_that_the_provider_says(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"retry_max_seconds": 1}) as at:
        token = await at.agent()
        at.upstream.next(status=429, headers={"retry-after": "60", "retry-after-ms": "20"})
        async with at.call(token) as response:
            assert response.status == 200
        assert len(at.upstream.requests) == 2


@pytest.mark.spec("GATE-50", "GATE-51")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_caller_of_http_1_0_gets_no_chunks(tmp_path: Path, streamed: bool) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        reader, writer = await connect(at)
        writer.write(raw(at, token, {**CHAT, "stream": streamed}).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        await at.held(1)
        beat = await reader.readuntil(b"\r\n\r\n")  # its first sign of life has opened the answer
        await at.sleeping(False)
        head, rest = beat.lower(), await reader.read()
        assert b"transfer-encoding" not in head
        assert b"connection: close" in head
        answer = rest.decode().strip()
        if streamed:
            lines = [line for line in answer.splitlines() if line]
            assert all(line.startswith(("data: ", ":")) for line in lines)
            assert lines[-1] == "data: [DONE]"
        else:
            assert json.loads(answer)["object"] == "chat.completion"
        writer.close()


@pytest.mark.spec("GATE-63")
@pytest.mark.parametrize("connection", ["upgrade, close", "close, upgrade", "upgrade"])
async def test_a_request_that_wants_to_upgrade_and_to_close_is_answered(tmp_path: Path, connection: str) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        reader, writer = await connect(at)
        writer.write(raw(at, token, connection=connection, upgrade="h2c"))
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writer.close()


async def test_a_proxied_mcp_servers_odd_status_is_an_error_of_its_call(tmp_path: Path) -> None:
    said = answering(b"HTTP/1.1 700 Odd\r\ncontent-length: 2\r\n\r\n{}")
    async with peer(said) as far:
        servers = {"tools": {"url": f"http://127.0.0.1:{far.port}/mcp"}}
        async with live(tmp_path, mcp_servers=servers) as at:
            token = await at.agent(mcp_servers=["tools"])
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            async with at.tool(token, message, server="/tools") as response:
                assert "sent the status 700" in (await response.json())["error"]["message"]


@pytest.mark.spec("GATE-99")
async def test_a_websocket_is_a_426_and_a_wrong_method_names_the_right_ones(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        wanted = {
            "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
        async with at.call(token, "/v1/responses", None, method="GET", headers=wanted) as response:
            assert (response.status, response.headers["upgrade"]) == (426, "HTTP/1.1")
            assert (await response.json())["error"]["code"] == "websocket_refused"
        async with at.call(token, "/v1/responses", None, method="GET") as response:
            assert (response.status, response.headers["allow"]) == (405, "POST")
        async with at.call(token, "/v1/responses/resp_1", None, method="PUT") as response:
            assert (response.status, response.headers["allow"]) == (405, "DELETE, GET")
        given = {"authorization": f"Bearer {token}"}
        async with at.http.get(f"{at.url}/mcp", headers=given) as response:
            assert (response.status, response.headers["allow"]) == (405, "POST, DELETE")
        async with at.http.put(f"{at.url}/mcp", headers=given) as response:
            assert (response.status, response.headers["allow"]) == (405, "POST, GET, DELETE")


@pytest.mark.spec("GATE-99", "GATE-62")
async def test_a_made_up_key_of_a_local_server_is_no_secret_and_changes_no_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = answering(OK + b"x-cache: none\r\ncontent-length: 25\r\n\r\n" + b'{"text":"none but tests"}')
    async with (
        peer(said) as far,
        live(tmp_path, upstream={"base_url": f"http://127.0.0.1:{far.port}"}, environment={"KEY": "none"}) as at,
    ):
        async with at.call(await at.agent()) as response:
            assert (await response.text(), response.headers["x-cache"]) == ('{"text":"none but tests"}', "none")
    assert "the key of upstream 'openai' has fewer than 16 characters: it is not masked in answers" in caplog.text
