"""The client for programs without an event loop."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Self, cast
from weakref import WeakSet

from circadia.client.calls import Client
from circadia.client.connection import MAX_RETRIES


class SyncClient:
    """The methods of `Client`, each of which returns its answer.

    Use it as `with SyncClient("http://127.0.0.1:4114", token) as client`, in one thread. A method whose asynchronous
    form yields, such as `events`, returns an iterator, which ends with the `with` block. Raises RuntimeError in a
    running event loop: use `Client` there.
    """

    def __init__(self, base_url: str, token: str, *, timeout: float = 30.0, max_retries: int = MAX_RETRIES) -> None:
        self._client = Client(base_url, token, timeout=timeout, max_retries=max_retries)
        self._runner = asyncio.Runner()
        self._iterators: WeakSet[Generator[Any]] = WeakSet()

    def __enter__(self) -> Self:
        self._runner.run(self._client.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for iterator in tuple(self._iterators):
                iterator.close()
            self._runner.run(self._client.__aexit__())
        finally:
            self._runner.close()

    def __dir__(self) -> list[str]:
        return dir(self._client)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = method(*args, **kwargs)
            if inspect.isasyncgen(answer):
                iterator = self._iterate(cast("AsyncGenerator[Any]", answer))
                self._iterators.add(iterator)
                return iterator
            return self._runner.run(answer)

        call.__name__, call.__doc__ = name, method.__doc__
        return call

    def _iterate(self, items: AsyncGenerator[Any]) -> Generator[Any]:
        async def fetch_next() -> Any:
            return await anext(items)

        try:
            while True:
                try:
                    yield self._runner.run(fetch_next())
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(items.aclose())
