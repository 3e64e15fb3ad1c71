"""How providers are reached, and how long and how often they are asked."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from circadia.clock import SystemClock
from tests.fixtures.ports import deaf
from tests.interaction.live import CHAT, KEY, Live, live


async def failed(at: Live, token: str) -> tuple[int, str]:
    """Return status and code of a call that fails."""
    async with at.call(token) as response:
        return response.status, (await response.json())["error"]["code"]


@pytest.mark.setting("upstreams.api", "upstreams.base_url", "upstreams.key_env", "upstreams.key_header")
@pytest.mark.parametrize(
    ("stated", "header", "value"),
    [
        ({}, "authorization", f"Bearer {KEY}"),
        ({"key_header": "api-key"}, "api-key", KEY),
        ({"api": "gemini"}, "x-goog-api-key", KEY),
        ({"key_env": None}, "authorization", None),
    ],
)
async def test_the_key_goes_to_the_address_in_the_header_that_the_file_says(
    tmp_path: Path, stated: dict[str, Any], header: str, value: str | None
) -> None:
    async with live(tmp_path, upstream=stated) as at:
        token = await at.agent()
        async with at.call(token) as response:
            await response.read()
        (seen,) = at.upstream.requests
    sent = {name.lower(): each for name, each in seen.headers}
    assert sent.get(header) == value
    assert token not in str(seen.headers)


@pytest.mark.setting("upstreams.retries")
@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_a_busy_provider_is_asked_so_often_again(tmp_path: Path, retries: int) -> None:
    async with live(tmp_path, upstream={"retries": retries}) as at:
        token = await at.agent()
        at.upstream.next(times=10, status=503, headers={"retry-after": "0"})
        async with at.call(token) as response:
            assert response.status == 503
        assert len(at.upstream.requests) == 1 + retries


@pytest.mark.setting("upstreams.retry_max_seconds")
@pytest.mark.parametrize(("longest", "status", "requests"), [(0.5, 429, 1), (2.0, 200, 2)])
async def test_a_provider_that_asks_for_more_patience_is_not_waited_for(
    tmp_path: Path, longest: float, status: int, requests: int
) -> None:
    async with live(tmp_path, upstream={"retry_max_seconds": longest}) as at:
        token = await at.agent()
        at.upstream.next(status=429, headers={"retry-after": "1"})
        async with at.call(token) as response:
            assert response.status == status
        assert len(at.upstream.requests) == requests


@pytest.mark.setting("upstreams.max_connections")
async def test_calls_beyond_the_connections_wait_for_one_another(tmp_path: Path) -> None:
    async with live(tmp_path, upstream={"max_connections": 2}) as at:
        token = await at.agent()
        at.upstream.gate.clear()
        calls = [asyncio.create_task(at.called(token, CHAT)) for _ in range(4)]
        await at.upstream.wait_for_requests(2)
        await asyncio.sleep(0.3)  # a third one would have come by now
        assert len(at.upstream.requests) == 2
        at.upstream.gate.set()
        await asyncio.gather(*calls)
        assert len(at.upstream.requests) == 4


@pytest.mark.setting("upstreams.connect_timeout_seconds")
async def test_a_connection_is_waited_for_as_long_as_the_file_says(tmp_path: Path) -> None:
    clock = SystemClock()
    with deaf("127.0.0.1") as port:
        stated = {"base_url": f"http://127.0.0.1:{port}", "retries": 0, "connect_timeout_seconds": 0.3}
        async with live(tmp_path, upstream=stated) as at:
            token, began = await at.agent(), clock.monotonic()
            assert (await failed(at, token))[0] in (502, 504)
            assert 0.3 <= clock.monotonic() - began < 8, "10 by default"


@pytest.mark.setting("limits.max_answer_bytes")
@pytest.mark.parametrize(("limit", "status"), [(2_000, 502), (20_000, 200)])
async def test_a_buffered_answer_has_a_largest_size(tmp_path: Path, limit: int, status: int) -> None:
    async with live(tmp_path, limits={"max_answer_bytes": limit}, upstream={"retries": 0}) as at:
        token = await at.agent()
        at.upstream.next(text="word " * 1_000)
        async with at.call(token) as response:
            assert response.status == status
