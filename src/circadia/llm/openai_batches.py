"""OpenAI's Batch API, through its SDK: a file of requests in, a file of responses out."""

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from openai import APIConnectionError, APIStatusError, AsyncOpenAI, OpenAIError

from circadia.llm.batches import (
    BatchAnswer,
    BatchProgress,
    BatchRefused,
    BatchRequest,
    BatchUncertain,
    build_lines,
    may_be_ours,
    read_lines,
)

ENDPOINT: Final = "/v1/chat/completions"
KEY: Final = "circadia"
"""The metadata's key under which a batch has ours."""
_OVER: Final = frozenset({"completed", "failed", "expired", "cancelled"})
_PAGE: Final = 100


class OpenAIBatches:
    """See `BatchInterface`."""

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client

    async def submit(self, key: str, requests: Sequence[BatchRequest]) -> str:
        with _wrap_errors():
            file = await self._client.files.create(
                file=(f"{key}.jsonl", build_lines(requests, ENDPOINT)), purpose="batch"
            )
            batch = await self._client.batches.create(
                input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h", metadata={KEY: key}
            )
        return batch.id

    async def find(self, key: str, ids: Collection[str], since: datetime, known: Collection[str]) -> str | None:
        with _wrap_errors():
            async for batch in self._client.batches.list(limit=_PAGE):
                created_at = datetime.fromtimestamp(batch.created_at, UTC)
                if (batch.metadata or {}).get(KEY) == key:
                    return batch.id
                if created_at < since and not may_be_ours(created_at, since):
                    return None
        return None

    async def fetch(self, batch_id: str) -> BatchProgress:
        with _wrap_errors():
            batch = await self._client.batches.retrieve(batch_id)
            if batch.status not in _OVER:
                return BatchProgress(is_over=False, answers={})
            answers: dict[str, BatchAnswer] = {}
            for file_id in (batch.error_file_id, batch.output_file_id):
                if file_id is not None:
                    content = await self._client.files.content(file_id)
                    answers |= read_lines(content.content)  # the output last: a response counts
        return BatchProgress(is_over=True, answers=answers)


@contextmanager
def _wrap_errors() -> Generator[None]:
    try:
        yield
    except APIStatusError as error:
        refused = 400 <= error.status_code < 500 and error.status_code not in (408, 409, 429)
        kind = BatchRefused if refused else BatchUncertain
        raise kind(f"the provider answered with status {error.status_code}") from None
    except (APIConnectionError, OpenAIError, ValueError):
        raise BatchUncertain("the provider does not answer, or not as its API says") from None
