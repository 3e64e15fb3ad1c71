"""The model door as its callers see it: checks, holds, signs of life, changes, failures, usage, limits."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from tests.interaction.live import CHAT, KEY, Live, live

STREAM = {**CHAT, "stream": True}
MESSAGE = {"model": "claude-3-5-haiku-latest", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.spec("GATE-40", "GATE-31", "GATE-01")
async def test_calls_of_a_sleeping_agent_wait_and_are_answered_once_when_it_wakes(tmp_path: Path) -> None:
    paths = {
        "/v1/chat/completions": CHAT,
        "/v1/responses": {"model": "gpt-4o-mini", "input": "hello"},
        "/v1/completions": {"model": "gpt-4o-mini", "prompt": "hello"},
        "/v1/embeddings": {"model": "text-embedding-3-small", "input": "hello"},
    }
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)

        async def status(path: str, body: object, upstream: str = "openai") -> int:
            async with at.call(token, path, body, upstream=upstream) as response:
                json.loads(await response.read())
                return response.status

        calls = [asyncio.create_task(status(path, body)) for path, body in paths.items()]
        calls.append(asyncio.create_task(status("/v1/messages", MESSAGE, "anthropic")))
        holds = await at.held(5)
        assert {hold["agent"] for hold in holds} == {"ann"}
        assert at.upstream.requests == []
        await at.sleeping(False)
        assert await asyncio.gather(*calls) == [200] * 5
        assert len(at.upstream.requests) == 5
        assert await at.held(0) == []


@pytest.mark.spec("GATE-41")
async def test_models_token_counts_and_polls_pass_while_the_agent_sleeps(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        async with at.call(token, "/v1/responses", {"model": "gpt-4o-mini", "input": "hello"}) as response:
            made = json.loads(await response.read())["id"]
        await at.sleeping(True)
        for method, path, body, upstream in (
            ("GET", "/v1/models", None, "openai"),
            ("POST", "/v1/messages/count_tokens", MESSAGE, "anthropic"),
            ("GET", f"/v1/responses/{made}", None, "openai"),
            ("DELETE", f"/v1/responses/{made}", None, "openai"),
        ):
            async with at.call(token, path, body, upstream=upstream, method=method) as response:
                assert response.status == 200, (path, await response.text())
        assert await at.held(0) == []


@pytest.mark.spec("GATE-50")
async def test_a_held_stream_opens_after_the_grace_and_gets_comments_until_its_events(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(on_wake="forward")
        await at.sleeping(True)
        async with at.call(token, body=STREAM) as response:
            assert response.status == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            first = await response.content.readuntil(b"\n\n")
            assert first == b": keep-alive\n\n"
            assert at.upstream.requests == []
            await at.sleeping(False)
            rest = await response.read()
        assert b"hello" in rest
        assert rest.endswith(b"data: [DONE]\n\n")


@pytest.mark.spec("GATE-51")
async def test_a_held_buffered_call_is_silent_and_then_gets_spaces_before_its_json(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent(on_wake="forward")
        await at.sleeping(True)
        async with at.call(token) as response:
            assert response.headers["transfer-encoding"] == "chunked"
            assert await response.content.readexactly(2) == b"  "
            await at.sleeping(False)
            answer = json.loads(await response.read())
        assert answer["choices"][0]["message"]["content"] == "hello"


@pytest.mark.spec("GATE-51", "GATE-63")
async def test_a_call_that_wakes_within_the_silent_phase_gets_the_real_status(tmp_path: Path) -> None:
    async with live(tmp_path, defaults={"hold_silent_seconds": 60}, upstream={"retries": 0}) as at:
        token = await at.agent()
        await at.sleeping(True)
        at.upstream.next(status=418, body={"error": {"message": "teapot"}}, headers={"x-ray": "yes"})

        async def call() -> tuple[int, str | None]:
            async with at.call(token) as response:
                return response.status, response.headers.get("x-ray")

        pending = asyncio.create_task(call())
        await at.held(1)
        await at.sleeping(False)
        assert await pending == (418, "yes")


@pytest.mark.spec("GATE-51")
async def test_an_impatient_client_gets_signs_of_life_before_its_own_time_is_up(tmp_path: Path) -> None:
    async with live(tmp_path, defaults={"hold_silent_seconds": 600, "keep_alive_seconds": 600}) as at:
        token = await at.agent()
        await at.sleeping(True)
        async with asyncio.timeout(10), at.call(token, headers={"x-stainless-timeout": "1"}) as response:
            assert await response.content.readexactly(2) == b"  "
            await at.sleeping(False)
            json.loads(await response.read())


@pytest.mark.spec("GATE-60")
@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/v1/files", "GET", 403),
        ("/v1/batches", "POST", 403),
        ("/v1/chat/completions", "GET", 405),
        ("/v1/responses/resp_of_another", "GET", 404),
        ("/v1/%2e%2e/files", "GET", 400),
        ("/v1/chat/..%2f..%2ffiles", "GET", 400),
        ("/v1//models", "GET", 400),
        ("/v1/realtime", "GET", 403),
    ],
)
async def test_what_is_not_on_the_list_is_refused_before_any_hold(
    tmp_path: Path, path: str, method: str, status: int
) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        url = URL(f"{at.url}/llm/openai{path}", encoded=True)
        headers = {"authorization": f"Bearer {token}"}
        data = b"{}" if method == "POST" else None
        async with asyncio.timeout(10), at.http.request(method, url, headers=headers, data=data) as response:
            body = await response.json()
        assert response.status == status, body
        assert body["error"]["message"]
        assert at.upstream.requests == []


@pytest.mark.setting("defaults.upstreams", "defaults.models")
@pytest.mark.spec("GATE-60", "GATE-07")
async def test_wrong_tokens_grants_upstreams_and_bodies_fail_at_once_while_asleep(tmp_path: Path) -> None:
    async with live(tmp_path, limits={"max_model_body_bytes": 1_000_000}) as at:
        token = await at.agent(upstreams=["anthropic"], models=["claude-3-5-haiku-latest"])
        open_token = await at.agent("bob")
        await at.sleeping(True)
        await at.sleeping(True, "bob")
        cases = [
            (at.call("wrong"), 401),
            (at.call(""), 401),
            (at.call("operator-token-of-the-tests"), 403),
            (at.call(token), 403),
            (at.call(token, "/v1/messages", {**MESSAGE, "model": "claude-opus-4"}, upstream="anthropic"), 403),
            (at.call(open_token, upstream="opnai"), 404),
            (at.call(open_token, body=b"{"), 400),
            (at.call(open_token, body=b"[]"), 400),
            (at.call(open_token, body={"model": 5, "messages": "x"}), 400),
            (at.call(open_token, body=b"x" * 5_000_000), 413),
        ]
        for pending, status in cases:
            async with asyncio.timeout(10), pending as response:
                body = await response.json()
                assert (response.status, bool(body["error"]["message"])) == (status, True), body
        assert at.upstream.requests == []


@pytest.mark.spec("GATE-60")
async def test_a_response_of_one_agent_is_not_found_by_another(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        ann, bob = await at.agent("ann"), await at.agent("bob")
        body = {"model": "gpt-4o-mini", "input": "hello", "stream": True}
        async with at.call(ann, "/v1/responses", body) as response:
            events = [
                json.loads(line[6:]) for line in (await response.text()).split("\n") if line.startswith("data: {")
            ]
        made, item = events[0]["response"]["id"], events[-1]["response"]["output"][0]["id"]
        for token, status in ((ann, 200), (bob, 404)):
            async with at.call(token, f"/v1/responses/{made}", None, method="GET") as response:
                assert response.status == status
        referring = [{"type": "item_reference", "id": item}, {"role": "user", "content": "more"}]
        for more in ({"input": "more", "previous_response_id": made}, {"input": referring}):
            for token, status in ((ann, 200), (bob, 404)):
                async with at.call(token, "/v1/responses", {"model": "gpt-4o-mini", **more}) as response:
                    assert response.status == status


@pytest.mark.spec("GATE-61", "GATE-62")
async def test_the_body_goes_up_byte_for_byte_with_the_providers_key_and_without_the_agents(tmp_path: Path) -> None:
    odd = b'{ "model":"gpt-4o-mini" ,\n "messages":[ {"content":"h\\u00e9llo","role":"user"} ], "n":1, "top_p":1.00e-0}'
    async with live(tmp_path) as at:
        token = await at.agent()
        async with at.call(token, body=odd, headers={"x-custom": "kept", "openai-beta": "b"}) as response:
            assert response.status == 200
        seen = at.upstream.requests[0]
        assert seen.body == odd
        names = {name.lower(): value for name, value in seen.headers}
        assert names["authorization"] == f"Bearer {KEY}"
        assert names["x-custom"] == "kept"
        assert names["accept-encoding"] == "identity"
        assert token not in str(seen.headers)


@pytest.mark.setting("defaults.include_usage")
@pytest.mark.spec("GATE-61", "GATE-64")
async def test_usage_is_asked_for_in_a_stream_and_its_chunk_taken_out_unless_switched_off(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        for name, switched_on in (("ann", True), ("bob", False)):
            token = await at.agent(name, include_usage=switched_on)
            async with at.call(token, body=STREAM) as response:
                text = await response.text()
            assert '"choices":[]' not in text.replace(" ", "")
            sent = json.loads(at.upstream.requests[-1].body)
            assert ("stream_options" in sent) is switched_on
        groups = {group["key"]: group for group in await at.usage()}
        assert (groups["ann"]["unknown"], groups["ann"]["output_tokens"]) == (0, 1)
        assert (groups["bob"]["unknown"], groups["bob"]["output_tokens"]) == (1, 0)


@pytest.mark.setting("defaults.hold_max_seconds")
@pytest.mark.spec("GATE-48")
async def test_the_longest_hold_ends_with_a_retryable_answer_for_each_phase(tmp_path: Path) -> None:
    async with live(tmp_path, defaults={"hold_silent_seconds": 60, "hold_grace_seconds": 0.1}) as at:
        token = await at.agent(hold_max_seconds=0.4)
        await at.sleeping(True)
        async with at.call(token) as response:
            assert response.status == 503
            assert response.headers["x-should-retry"] == "true"
            assert response.headers["x-circadia-error"] == "still_asleep"
            assert int(response.headers["retry-after"]) <= 60
            assert (await response.json())["error"]["code"] == "still_asleep"
        async with at.call(token, body=STREAM) as response:
            assert response.status == 200
            assert "still_asleep" in await response.text()
    async with live(tmp_path / "spaces") as at:
        token = await at.agent(hold_max_seconds=0.5)
        await at.sleeping(True)
        async with at.call(token) as response:
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()


@pytest.mark.spec("GATE-47", "GATE-63")
async def test_a_caller_that_hangs_up_is_dropped_at_each_stage(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        for body in (CHAT, STREAM):
            gone = asyncio.create_task(at.called(token, body))
            await at.held(1)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            await at.held(0)
        await at.sleeping(False)
        assert at.upstream.requests == []
        at.upstream.gate.clear()
        for number, body in enumerate((CHAT, STREAM), start=1):
            gone = asyncio.create_task(at.called(token, body))
            await at.upstream.wait_for_requests(number)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            await at.upstream.wait_for_drops(number)
        dropped = await at.events("dropped")
        assert [event["data"]["reason"] for event in dropped] == ["caller gone"] * 2


@pytest.mark.spec("GATE-49")
@pytest.mark.parametrize("end", ["delete", "disable", "close"])
async def test_held_calls_end_at_once_when_their_agent_or_session_is_gone(tmp_path: Path, end: str) -> None:
    async with live(tmp_path, defaults={"hold_silent_seconds": 60}) as at:
        graph = {"name": "team", "agents": [{"name": "ann", "sleep_events": ["agent_started"]}]}
        _, made = await at.rest("POST", "/sessions", graph)
        token = made["agents"][0]["token"]
        pending = asyncio.create_task(_status(at, token))
        await at.held(1)
        if end == "delete":
            await at.rest("DELETE", "/sessions/team/agents/ann")
        elif end == "disable":
            await at.rest("PATCH", "/sessions/team/agents/ann", {"enabled": False})
        else:
            await at.rest("DELETE", "/sessions/team")
        status, code = await pending
        assert (status, code) == (503, "ended")
        async with at.call(token) as response:
            assert response.status in (401, 403)


async def _status(at: Live, token: str) -> tuple[int, str]:
    async with at.call(token) as response:
        return response.status, (await response.json())["error"]["code"]


@pytest.mark.spec("GATE-65")
async def test_a_woken_prompt_gets_one_line_goes_as_it_is_or_is_asked_for_again(tmp_path: Path) -> None:
    async with live(tmp_path, defaults={"hold_silent_seconds": 60}) as at:
        for name in ("notice", "forward", "refresh"):
            token = await at.agent(name, on_wake=name)
            await at.sleeping(True, name)
            pending = asyncio.create_task(at.answered(token))
            await at.held(1)
            await at.sleeping(False, name)
            status, body = await pending
            if name == "refresh":
                assert (status, body["error"]["code"]) == (503, "still_asleep")
                continue
            sent = json.loads(at.upstream.requests[-1].body)["messages"][-1]["content"]
            if name == "forward":
                assert at.upstream.requests[-1].body == json.dumps(CHAT).encode()
            else:
                assert sent.startswith("hello\n\n<circadia-notice>You slept ")
                assert "woken by operator; no unread messages.</circadia-notice>" in sent


@pytest.mark.setting("defaults.abort_streams")
@pytest.mark.spec("GATE-45")
async def test_work_in_flight_runs_on_when_sleep_is_set_unless_the_policy_cuts_streams(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        ann, bob = await at.agent("ann"), await at.agent("bob", abort_streams=True)
        for name, token in (("ann", ann), ("bob", bob)):
            resume = asyncio.Event()
            at.upstream.next(pause_after_chunks=2, resume=resume, text="one two three four")
            async with at.call(token, body=STREAM) as response:
                await response.content.readuntil(b"\n\n")
                await at.sleeping(True, name)
                if name == "ann":
                    resume.set()
                text = await response.text()
            assert ("[DONE]" in text) is (name == "ann")
            assert ("still_asleep" in text) is (name == "bob")
            resume.set()


@pytest.mark.spec("GATE-80")
async def test_the_waking_event_comes_before_any_admission(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        await at.sleeping(True)
        calls = [asyncio.create_task(at.called(token, CHAT)) for _ in range(3)]
        await at.held(3)
        assert len(await at.events("held")) == 3  # now they are written: the gate's own lines come in batches
        await at.sleeping(False)
        await asyncio.gather(*calls)
        kinds = [e["type"] for e in await at.events("sleep_start", "held", "sleep_stop", "admitted", "dropped")]
        assert kinds == ["sleep_start", *["held"] * 3, "sleep_stop", *["admitted"] * 3]


@pytest.mark.spec("GATE-35")
async def test_foreign_hosts_and_origins_are_refused_at_every_door(tmp_path: Path) -> None:
    async with live(tmp_path, server={"allowed_origins": ["https://good.example"]}) as at:
        token = await at.agent()
        for path in ("/llm/openai/v1/models", "/mcp", "/api/v1/sessions", "/metrics", "/healthz"):
            for headers, status in (
                ({"host": "evil.example"}, 421),
                ({"origin": "https://evil.example"}, 403),
                ({"origin": "null"}, 403),
            ):
                given = {"authorization": f"Bearer {token}", **headers}
                async with at.http.get(at.url + path, headers=given) as response:
                    assert response.status == status, (path, headers)
        asked = {"origin": "https://good.example", "access-control-request-method": "PUT"}
        async with at.http.options(f"{at.url}/api/v1/sessions", headers=asked) as response:
            assert response.headers["access-control-allow-origin"] == "https://good.example"
            assert "PUT" in response.headers["access-control-allow-methods"]
        async with at.http.get(f"{at.url}/metrics") as response:
            assert response.status == 401


@pytest.mark.spec("GATE-62")
async def test_no_key_and_no_token_is_in_an_error_or_an_event(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"retries": 0}) as at:
        token = await at.agent()
        at.upstream.next(status=401, body={"error": {"message": f"bad key {KEY}"}})
        async with at.call(token) as response:
            text = await response.text()
        assert response.status == 401
        assert KEY not in text
        assert KEY not in json.dumps(await at.events())
        assert token not in json.dumps(await at.events())
