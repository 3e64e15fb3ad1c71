"""What of a model call goes up and comes back: other names of tokens and models, and pieces that are no events."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from circadia.testing.upstream import MockUpstream
from tests.gateway.wire.peer import Caller, answering, peer
from tests.interaction.live import CHAT, KEY, live

STREAM = {**CHAT, "stream": True}


@pytest.mark.spec("GATE-62")
@pytest.mark.parametrize("name", ["api-key", "x-goog-api-key", "ocp-apim-subscription-key", "x-portkey-api-key"])
async def test_the_agents_token_does_not_go_up_by_another_name(tmp_path: Path, name: str) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        for value in (token, f"Bearer {token}"):
            async with at.call(token, headers={name: value, "x-other": "kept"}) as response:
                assert response.status == 200
            seen = at.upstream.requests[-1]
            assert token not in str(seen.headers)
            assert seen.header("x-other") == "kept"


@pytest.mark.spec("GATE-60")
async def test_a_token_is_taken_as_clients_of_azure_send_it(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        for token, status in ((await at.agent(), 200), ("wrong", 401)):
            headers = {"api-key": token}
            async with at.http.post(f"{at.url}/llm/openai/v1/chat/completions", json=CHAT, headers=headers) as response:
                assert response.status == status


@pytest.mark.spec("GATE-66")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": CHAT["messages"]}),
        ("/v1/responses", {"input": "hello", "prompt": {"id": "pmpt_1"}}),
        ("/v1/chat/completions", {**CHAT, "models": [CHAT["model"], "dear"]}),
        ("/openai/deployments/dear/chat/completions", CHAT),
    ],
)
async def test_a_list_of_models_holds_wherever_a_call_names_one(
    tmp_path: Path, path: str, body: dict[str, object]
) -> None:
    opened = {"paths": ["POST /openai/deployments/{id}/chat/completions"]}
    async with live(tmp_path, upstream=opened) as at:
        token = await at.agent(models=[CHAT["model"]])
        async with at.call(token, path, body) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (403, "forbidden")
        async with at.call(token, path.replace("dear", str(CHAT["model"])), CHAT) as response:
            assert response.status in (200, 404)  # the mock provider has no deployments
        async with at.call(token, "/v1/models", None, method="GET") as response:
            assert response.status == 200
        assert len(at.upstream.requests) == 2


@pytest.mark.spec("GATE-61")
@pytest.mark.parametrize(("kind", "piece"), [("application/x-ndjson", b'{"a": 1}\n'), ("audio/mpeg", b"ID3 sound")])
async def test_an_answer_in_pieces_that_are_no_events_passes_piece_by_piece_and_breaks_where_it_broke(
    tmp_path: Path, kind: str, piece: bytes
) -> None:
    go_on = asyncio.Event()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % kind.encode()
    chunk = b"%x\r\n%b\r\n" % (len(piece), piece)

    async def script(caller: Caller) -> None:
        await caller.request()
        await caller.say(head + chunk)
        await go_on.wait()
        await caller.say(chunk + b"0\r\n\r\n")
        await caller.request()
        await caller.say(head + chunk)
        caller.writer.close()

    async with peer(script) as far, live(tmp_path, upstream={"base_url": f"http://127.0.0.1:{far.port}"}) as at:
        token = await at.agent()
        async with asyncio.timeout(60), at.call(token, body=STREAM) as response:
            assert await response.content.readany() == piece
            go_on.set()
            assert await response.read() == piece
        async with asyncio.timeout(60), at.call(token, body=STREAM) as response:
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()


@pytest.mark.spec("GATE-61", "GATE-48")
@pytest.mark.parametrize("piece", [b'{"a": 1}\n', b"sound"])
async def test_an_answer_in_pieces_to_a_caller_who_was_kept_alive_is_json_or_an_error(
    tmp_path: Path, piece: bytes
) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    said = answering(head + b"%x\r\n%b\r\n" % (len(piece), piece) * 2 + b"0\r\n\r\n")
    async with peer(said) as far, live(tmp_path, upstream={"base_url": f"http://127.0.0.1:{far.port}"}) as at:
        token = await at.agent()
        await at.sleeping(True)
        async with asyncio.timeout(60), at.call(token) as response:
            assert (await response.content.readany()).strip() == b""
            await at.sleeping(False)
            if piece == b"sound":
                with pytest.raises(aiohttp.ClientPayloadError):
                    await response.read()
            else:
                assert (await response.read()).lstrip() == piece * 2


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
async def test_a_base_url_works_with_and_without_v1_for_both_kinds_of_api(tmp_path: Path, ending: str) -> None:
    async with MockUpstream(key=KEY) as provider:
        base = {"base_url": provider.base_url + ending}
        async with live(tmp_path, upstream=base, provider=provider) as at:
            token = await at.agent()
            async with at.call(token) as response:
                assert response.status == 200
            message = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
            async with at.call(token, "/v1/messages", message, upstream="anthropic") as response:
                assert response.status == 200
        assert [each.path for each in provider.requests] == ["/v1/chat/completions", "/v1/messages"]
