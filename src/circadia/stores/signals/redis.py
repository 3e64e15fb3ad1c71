"""Signals by Redis pub/sub, for many servers, or where Redis runs anyway."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any

from circadia.errors import StorageUnavailable
from circadia.stores.redis_connection import open_redis, read_messages, wrap_redis_errors
from circadia.stores.signals.remote import build_channel


class RedisCarrier:
    """Sends each payload with the id of its sender before it, since Redis returns a sender's own messages too."""

    def __init__(self, url: str, process: str) -> None:
        """`process` is this one's name, to which others may send; without spaces."""
        self._url = url
        self._channels = build_channel(process), build_channel()
        self._sender = process.encode()
        self._client: Any = None
        self._listening: asyncio.Task[None] | None = None

    async def connect(self, receive: Callable[[bytes], None]) -> None:
        await self.close()
        with wrap_redis_errors():
            self._client = open_redis(self._url, "circadia signals")
            subscription = self._client.pubsub()
            await subscription.subscribe(*self._channels)
        messages = read_messages(subscription)
        for _ in self._channels:
            await anext(messages)  # from the last one on nothing is missed
        self._listening = asyncio.create_task(self._listen(messages, receive))

    async def send(self, payloads: Sequence[tuple[str, bytes]]) -> None:
        with wrap_redis_errors():
            pipeline = self._client.pipeline(transaction=False)
            for channel, payload in payloads:
                pipeline.publish(channel, b"%s %s" % (self._sender, payload))
            await pipeline.execute()

    async def wait_closed(self) -> None:
        if self._listening is not None:
            await asyncio.wait([self._listening])

    async def close(self) -> None:
        listening, self._listening = self._listening, None
        client, self._client = self._client, None
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        if client is not None:
            with suppress(StorageUnavailable), wrap_redis_errors():
                await client.aclose()

    async def _listen(self, messages: AsyncGenerator[dict[str, Any]], receive: Callable[[bytes], None]) -> None:
        """Pass payloads of others on until the connection is lost."""
        with suppress(StorageUnavailable):
            async for message in messages:
                if message["type"] == "message":
                    sender, _, payload = message["data"].partition(b" ")
                    if sender != self._sender:
                        receive(payload)
