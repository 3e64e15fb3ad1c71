"""Cancellation of what waits for Redis."""

import asyncio

import pytest

from circadia.stores.redis_connection import open_redis, wrap_redis_errors
from tests.fixtures.redis import RedisServer

pytestmark = pytest.mark.spec("CLU-40")


@pytest.mark.parametrize("turns", range(12))
async def test_a_task_ends_at_whichever_turn_of_the_event_loop_it_is_cancelled(
    redis_server: RedisServer, turns: int
) -> None:
    client = open_redis(redis_server.url, "test")

    async def write_for_ever() -> None:
        while True:
            with wrap_redis_errors():
                await client.set("key", "value")

    writing = asyncio.create_task(write_for_ever())
    try:
        while await client.get("key") is None:
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait([writing], timeout=5)
        assert writing.cancelled()
    finally:
        writing.cancel()
        await client.aclose()
