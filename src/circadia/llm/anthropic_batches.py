"""Anthropic's Message Batches API, through its SDK."""

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from anthropic import AnthropicError, APIStatusError, AsyncAnthropic

from circadia.llm.batches import BatchAnswer, BatchProgress, BatchRefused, BatchRequest, BatchUncertain, may_be_ours

_PAGE: Final = 100
_BETAS: Final = "anthropic-beta"


class AnthropicBatches:
    """See `BatchInterface`."""

    def __init__(self, client: AsyncAnthropic) -> None:
        self._client = client

    async def submit(self, key: str, requests: Sequence[BatchRequest]) -> str:
        items: Any = [{"custom_id": each.id, "params": each.body} for each in requests]
        betas = {beta for each in requests for beta in each.headers.get(_BETAS, "").split(",") if beta}
        headers = {_BETAS: ",".join(sorted(betas))} if betas else None
        with _wrap_errors():
            batch = await self._client.messages.batches.create(requests=items, extra_headers=headers)
        return batch.id

    async def find(self, key: str, ids: Collection[str], since: datetime, known: Collection[str]) -> str | None:
        undecided = False
        with _wrap_errors():
            async for batch in self._client.messages.batches.list(limit=_PAGE):
                if not may_be_ours(batch.created_at, since):
                    if batch.created_at < since:
                        break
                    continue
                counts = batch.request_counts
                size = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
                if batch.id in known or size > len(ids):
                    continue
                if batch.processing_status != "ended":
                    undecided = True
                elif (found := set(await self._fetch_answers(batch.id))) and found <= set(ids):
                    return batch.id
        if undecided:
            raise BatchUncertain("a batch of that time has not ended yet, and only then shows its questions")
        return None

    async def fetch(self, batch_id: str) -> BatchProgress:
        with _wrap_errors():
            batch = await self._client.messages.batches.retrieve(batch_id)
            if batch.processing_status != "ended":
                return BatchProgress(is_over=False, answers={})
            return BatchProgress(is_over=True, answers=await self._fetch_answers(batch_id))

    async def _fetch_answers(self, batch_id: str) -> Mapping[str, BatchAnswer]:
        answers: dict[str, BatchAnswer] = {}
        async for entry in await self._client.messages.batches.results(batch_id):
            known = answers.get(entry.custom_id)
            if known is not None and known.body is not None:
                continue
            if entry.result.type == "succeeded":
                body = entry.result.message.model_dump_json(exclude_unset=True).encode()
                answers[entry.custom_id] = BatchAnswer(body=body)
            else:
                answers[entry.custom_id] = BatchAnswer(error=f"the batch has no answer ({entry.result.type})")
        return answers


@contextmanager
def _wrap_errors() -> Generator[None]:
    try:
        yield
    except APIStatusError as error:
        refused = 400 <= error.status_code < 500 and error.status_code not in (408, 409, 429)
        kind = BatchRefused if refused else BatchUncertain
        raise kind(f"the provider answered with status {error.status_code}") from None
    except (AnthropicError, ValueError):
        raise BatchUncertain("the provider does not answer, or not as its API says") from None
