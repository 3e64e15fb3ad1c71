"""Batch interfaces of OpenAI and Anthropic through their own SDKs; the provider follows their published schemas."""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from circadia.clock import SystemClock
from circadia.llm.batches import BatchRefused, BatchUncertain
from circadia.llm.chat_model import ModelAnswerError
from circadia.llm.models import ModelSpec, open_batches, open_model
from circadia.llm.provider_batches import ProviderBatches
from circadia.llm.providers import Api
from circadia.testing.upstream import MockUpstream
from tests.llm.batch_provider import BatchProvider, Json, batch_provider
from tests.llm.provider_stand import GOOD, MAX_TOKENS, NAMES, PROMPT, Word, counts

pytestmark = pytest.mark.spec("SLEEP-44")


@dataclass(frozen=True, kw_only=True)
class BatchStand:
    provider: BatchProvider
    client: ProviderBatches
    api: Api

    async def submit(self, *ids: str, key: str = "bat_1") -> str:
        requests = [await self.client.build_request(each, PROMPT, Word, most_tokens=MAX_TOKENS) for each in ids]
        return await self.client.submit(key, requests)

    async def find(self, *ids: str, key: str = "bat_1", known: tuple[str, ...] = ()) -> str | None:
        return await self.client.find(key, ids, datetime.now(UTC), known)


def reply(_: Json) -> str:
    return GOOD


def spec(api: Api, url: str) -> ModelSpec:
    return ModelSpec(upstream="mock", base_url=url, api=api, key="key-that-nobody-may-see", model=NAMES[api])


@pytest.fixture(params=["openai", "anthropic"])
async def stand(request: pytest.FixtureRequest) -> AsyncGenerator[BatchStand]:
    async with (
        batch_provider(reply) as provider,
        open_batches(spec(request.param, provider.url), SystemClock()) as client,
    ):
        yield BatchStand(provider=provider, client=client, api=request.param)


async def test_a_batch_has_the_questions_as_the_usual_interface_gets_them_and_brings_their_answers(
    stand: BatchStand,
) -> None:
    batch_id = await stand.submit("one", "two")
    (sent,) = stand.provider.batches
    assert set(sent.requests) == {"one", "two"}
    async with MockUpstream(key="key-that-nobody-may-see", reply=GOOD) as usual:
        async with open_model(spec(stand.api, usual.base_url), SystemClock()) as model:
            await model.ask(PROMPT, Word, most_tokens=MAX_TOKENS)
        assert sent.requests["one"] == {
            key: value for key, value in usual.requests[0].json().items() if not key.startswith("stream")
        }
    assert not (await stand.client.fetch(batch_id)).is_over
    stand.provider.end()
    progress = await stand.client.fetch(batch_id)
    assert progress.is_over
    for each in ("one", "two"):
        body = progress.answers[each].body
        assert body is not None
        answer, used = await stand.client.read_answer(body, PROMPT, Word, most_tokens=MAX_TOKENS)
        assert answer == Word(word="one", more=["two"])
        assert counts(used) == {"input_tokens": 50, "output_tokens": 20}
    assert stand.provider.asked_at_once == []


@pytest.mark.parametrize("status", ["errored", "expired"])
async def test_a_question_without_an_answer_says_so_and_quotes_nothing(stand: BatchStand, status: str) -> None:
    batch_id = await stand.submit("one")
    stand.provider.end(status)
    progress = await stand.client.fetch(batch_id)
    assert progress.is_over
    found = progress.answers.get("one")
    assert found is None or (found.body is None and "quoted" not in found.error)
    assert found is None or found.error


async def test_an_answer_of_another_shape_is_none(stand: BatchStand) -> None:
    with pytest.raises(ModelAnswerError):
        await stand.client.read_answer(b'{"id": "x"}', PROMPT, Word, most_tokens=MAX_TOKENS)


async def test_a_submission_whose_answer_was_lost_is_found_and_another_batch_is_not_taken_for_it(
    stand: BatchStand,
) -> None:
    await stand.submit("foreign", "more", key="bat_0")
    stand.provider.lose_answers = True
    with pytest.raises(BatchUncertain):
        await stand.submit("one", "two")
    assert len(stand.provider.batches) == 2
    if stand.api == "anthropic":  # a batch shows its questions once it has ended
        with pytest.raises(BatchUncertain):
            await stand.find("one", "two")
    stand.provider.end()
    assert await stand.find("one", "two") == "batch_2"
    assert await stand.find("three", "four", key="bat_3") is None
    assert await stand.find("one", "two", key="bat_4", known=("batch_2",)) is None or stand.api == "openai"


async def test_an_old_batch_is_not_looked_through(stand: BatchStand) -> None:
    stand.provider.now = lambda: datetime.now(UTC) - timedelta(hours=2)
    await stand.submit("one", key="bat_9")
    assert await stand.find("one") is None


async def test_a_provider_without_batches_refuses_and_one_that_fails_leaves_it_open(stand: BatchStand) -> None:
    stand.provider.refuse_with = 404
    with pytest.raises(BatchRefused):
        await stand.submit("one")
    stand.provider.refuse_with = 500
    with pytest.raises(BatchUncertain):
        await stand.submit("one")
    with pytest.raises(BatchRefused):
        await stand.client.fetch("batch_unknown")


async def test_a_batch_that_fails_in_part_has_the_answers_of_the_rest(stand: BatchStand) -> None:
    stand.provider.failing = {"two"}
    batch_id = await stand.submit("one", "two", "three")
    stand.provider.end()
    answers = (await stand.client.fetch(batch_id)).answers
    assert {key: answer.body is not None for key, answer in answers.items()} == {
        "one": True,
        "two": False,
        "three": True,
    }
    assert "quoted" not in answers["two"].error


async def test_a_question_that_is_answered_twice_keeps_the_answer_that_is_one(stand: BatchStand) -> None:
    def repeat(lines: list[bytes]) -> list[bytes]:
        good = next((line for line in lines if b'"one"' in line), None)
        if good is None:
            return lines
        worse = json.dumps({"custom_id": "one", "result": {"type": "expired"}})
        if stand.api == "openai":
            worse = json.dumps({"custom_id": "one", "response": None, "error": {"code": "batch_expired"}})
        return [worse.encode(), *lines, good, worse.encode()]

    stand.provider.spoil = repeat
    batch_id = await stand.submit("one", "two")
    stand.provider.end()
    answers = (await stand.client.fetch(batch_id)).answers
    assert {key: answer.body is not None for key, answer in answers.items()} == {"one": True, "two": True}


async def test_a_line_that_is_cut_or_foreign_takes_no_answer_from_the_others(stand: BatchStand) -> None:
    stand.provider.spoil = lambda lines: [b'{"custom_id": "x"', b"[]", b"null", *lines, b'{"more": 1}']
    batch_id = await stand.submit("one", "two")
    stand.provider.end()
    if stand.api == "anthropic":  # its SDK reads the lines, and fails with the first
        with pytest.raises(BatchUncertain):
            await stand.client.fetch(batch_id)
        return
    assert set((await stand.client.fetch(batch_id)).answers) == {"one", "two"}
    stand.provider.spoil = lambda _: [b"<html>", b"</html>"]
    with pytest.raises(BatchUncertain):
        await stand.client.fetch(batch_id)
