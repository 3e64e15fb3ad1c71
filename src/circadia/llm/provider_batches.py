"""Questions of the sleep tier as requests of a provider's batch, and answers of a batch as a model's (SLEEP-44).

Both go through the model's own code: its HTTP client keeps the request instead of sending it, or gives it the response
that the batch has brought.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import httpx2
from pydantic import BaseModel

from circadia.llm.batches import BatchInterface, BatchProgress, BatchRequest, BatchUncertain
from circadia.llm.chat_model import ChatModel, ModelAnswerError, Prompt
from circadia.llm.usage import Usage

R = TypeVar("R")
T = TypeVar("T", bound=BaseModel)

_KEPT_HEADERS: Final = ("anthropic-beta",)
_OF_STREAMS: Final = frozenset({"stream", "stream_options"})


@dataclass(kw_only=True, slots=True)
class _Exchange(httpx2.AsyncBaseTransport):
    """Takes the place of the wire for one question."""

    response: bytes | None = None
    request: httpx2.Request | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        self.request = request
        if self.response is None:
            raise httpx2.ConnectError("this request is for a batch")
        headers = {"content-type": "application/json"}
        return httpx2.Response(200, headers=headers, content=self.response, request=request)


class ProviderBatches:
    """Questions of one model in batches of its provider."""

    def __init__(
        self,
        build_model: Callable[[httpx2.AsyncClient], ChatModel],
        interface: BatchInterface,
        *,
        timeout_seconds: float,
    ) -> None:
        """`build_model` builds the model on an HTTP client."""
        self._build_model = build_model
        self._interface = interface
        self._timeout_seconds = timeout_seconds

    async def submit(self, key: str, requests: Sequence[BatchRequest]) -> str:
        """See `BatchInterface`."""
        return await self._limit(self._interface.submit(key, requests))

    async def find(self, key: str, ids: Collection[str], since: datetime, known: Collection[str]) -> str | None:
        """See `BatchInterface`."""
        return await self._limit(self._interface.find(key, ids, since, known))

    async def fetch(self, batch_id: str) -> BatchProgress:
        """See `BatchInterface`."""
        return await self._limit(self._interface.fetch(batch_id))

    async def _limit(self, work: Coroutine[Any, Any, R]) -> R:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await work
        except TimeoutError:
            raise BatchUncertain(f"no answer within {self._timeout_seconds:g} s") from None

    async def build_request(
        self, request_id: str, prompt: Prompt, output: type[BaseModel], *, most_tokens: int
    ) -> BatchRequest:
        """Return the request that the model would send. Raises ModelAnswerError: it would send none."""
        exchange = _Exchange()
        async with httpx2.AsyncClient(transport=exchange) as http:
            try:
                await self._build_model(http).ask(prompt, output, most_tokens=most_tokens)
            except ModelAnswerError:
                if exchange.request is None:
                    raise
        assert exchange.request is not None
        body = json.loads(exchange.request.content)
        headers = {name: exchange.request.headers[name] for name in _KEPT_HEADERS if name in exchange.request.headers}
        return BatchRequest(
            id=request_id, body={key: value for key, value in body.items() if key not in _OF_STREAMS}, headers=headers
        )

    async def read_answer(
        self, response: bytes, prompt: Prompt, output: type[T], *, most_tokens: int
    ) -> tuple[T, Usage]:
        """Return the answer in a response of the provider, and its usage. Raises ModelAnswerError."""
        async with httpx2.AsyncClient(transport=_Exchange(response=response)) as http:
            return await self._build_model(http).ask(prompt, output, most_tokens=most_tokens)
