"""Providers that refuse, hang, break off or are busy, as the callers of the model door see it."""

from pathlib import Path

import aiohttp
import pytest

from tests.interaction.live import CHAT, live

STREAM = {**CHAT, "stream": True}
MESSAGE = {"model": "claude-3-5-haiku-latest", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.setting("upstreams.answer_timeout_seconds")
@pytest.mark.spec("GATE-63")
async def test_upstream_failures_come_in_the_providers_shape(tmp_path: Path) -> None:
    dead = {"base_url": "http://127.0.0.1:9", "retries": 0}
    async with live(tmp_path, upstream={"retries": 0}) as at:
        token = await at.agent()
        at.upstream.next(reset=True)
        async with at.call(token) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (502, "upstream_failed")
        at.upstream.next(garbage=True)
        async with at.call(token) as response:
            assert (response.status, await response.read()) == (200, b"<html>not json \xff"), "it passes as it came"
        (line,) = await at.usage()
        assert (line["calls"], line["failed"], line["unknown"]) == (2, 2, 2)
        assert await at.events("upstream_error")
    async with live(tmp_path / "slow", upstream={"retries": 0, "answer_timeout_seconds": 0.3}) as at:
        token = await at.agent()
        at.upstream.next(hang=True)
        async with at.call(token) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (504, "upstream_timed_out")
        assert await at.events("upstream_error")
    async with live(tmp_path / "dead", upstream=dead) as at:
        token = await at.agent()
        async with at.call(token) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (502, "upstream_failed")
        async with at.call(token, "/v1/messages", MESSAGE, upstream="anthropic") as response:
            assert (response.status, (await response.json())["type"]) == (502, "error")


@pytest.mark.spec("GATE-63")
async def test_a_stream_that_breaks_off_ends_with_an_error_event(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        token = await at.agent()
        for body, path, upstream in (
            (STREAM, "/v1/chat/completions", "openai"),
            ({**MESSAGE, "stream": True}, "/v1/messages", "anthropic"),
        ):
            at.upstream.next(die_after_chunks=2, text="one two three four five six")
            async with at.call(token, path, body, upstream=upstream) as response:
                text = await response.text()
            assert "upstream_failed" in text or "api_error" in text
        failed = {group["key"]: group["failed"] for group in await at.usage()}
        assert failed == {"ann": 2}


@pytest.mark.spec("GATE-63")
async def test_busy_answers_are_tried_again_inside_and_the_last_one_is_handed_on(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"retries": 2}) as at:
        token = await at.agent()
        at.upstream.next(times=2, status=500, body={"error": {"message": "busy"}})
        async with at.call(token) as response:
            assert response.status == 200
        assert len(at.upstream.requests) == 3
        at.upstream.next(times=3, status=429, body={"error": {"message": "slow down"}}, headers={"retry-after": "0"})
        async with at.call(token) as response:
            assert response.status == 429
        at.upstream.next(status=429, body={"error": {"message": "slow down"}}, headers={"retry-after": "3600"})
        async with at.call(token) as response:
            assert (response.status, response.headers["retry-after"]) == (429, "3600")
        assert len(at.upstream.requests) == 7


@pytest.mark.spec("GATE-48", "GATE-50")
async def test_after_an_opened_stream_an_upstream_error_is_an_event_in_it(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"retries": 0}) as at:
        token = await at.agent()
        await at.sleeping(True)
        at.upstream.next(status=400, body={"error": {"message": "context too long"}})
        async with at.call(token, body=STREAM) as response:
            await response.content.readuntil(b"\n\n")
            await at.sleeping(False)
            text = await response.text()
        assert "context too long" in text
        assert "400" in text


@pytest.mark.spec("GATE-48", "GATE-51")
async def test_after_opened_spaces_a_final_failure_breaks_the_connection(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"retries": 1}) as at:
        token = await at.agent()
        await at.sleeping(True)
        at.upstream.next(times=2, status=500, body={"error": {"message": "broken"}})
        async with at.call(token) as response:
            await response.content.readexactly(1)
            await at.sleeping(False)
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()
        assert len(at.upstream.requests) == 2


JSON = {"content-type": "application/json"}
UNKNOWN = '{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"not permitted"}]}'


@pytest.mark.spec("GATE-99")
async def test_a_provider_that_refuses_to_be_asked_for_usage_is_asked_without_and_then_never_again(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, upstream={"retries": 0}) as at:
        token = await at.agent()
        at.upstream.next(status=422, body=UNKNOWN, headers=JSON)
        async with at.call(token, body=STREAM) as response:
            assert (response.status, "hello" in await response.text()) == (200, True)
        async with at.call(token, body=STREAM) as response:
            assert response.status == 200
        asked = ["stream_options" in seen.json() for seen in at.upstream.requests]
        assert asked == [True, False, False]
        (line,) = await at.usage()
        assert (line["calls"], line["failed"]) == (2, 0)


@pytest.mark.spec("GATE-99")
async def test_a_refusal_for_another_reason_does_not_end_the_requests_for_usage(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"retries": 0}) as at:
        token = await at.agent()
        at.upstream.next(times=2, status=400, body=UNKNOWN, headers=JSON)
        async with at.call(token, body=STREAM) as response:
            assert (response.status, await response.text()) == (400, UNKNOWN)
        async with at.call(token, body=STREAM) as response:
            assert response.status == 200
        assert ["stream_options" in seen.json() for seen in at.upstream.requests] == [True, False, True]
