"""Vectors from an endpoint that speaks OpenAI's `/embeddings`, over real HTTP."""

import asyncio
import traceback
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import numpy as np
import orjson
import pytest

from circadia.errors import ConfigError, UpstreamFailed, UpstreamTimedOut
from circadia.memory.embedding import endpoint
from circadia.memory.embedding.endpoint import EndpointEmbedder
from circadia.settings.memory import EndpointEmbedderSettings
from circadia.testing.upstream import MockUpstream

pytestmark = pytest.mark.spec("MEM-08")

KEY = "sk-key-of-the-embedder"


@pytest.fixture
async def upstream() -> AsyncIterator[MockUpstream]:
    async with MockUpstream(key=KEY) as up:
        yield up


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=("Accept", "Content-Type")) as opened:
        yield opened


def settings(upstream: MockUpstream, **more: Any) -> EndpointEmbedderSettings:
    values = {"kind": "endpoint", "base_url": f"{upstream.base_url}/v1/", "model": "embed-1", **more}
    return EndpointEmbedderSettings.model_validate(values)


def answer(*vectors: object) -> bytes:
    return orjson.dumps({"data": [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]})


async def test_texts_are_sent_in_batches_and_their_vectors_come_in_order(
    upstream: MockUpstream, session: aiohttp.ClientSession
) -> None:
    embedder = EndpointEmbedder(session, settings(upstream, batch=2, max_characters=5), KEY)
    vectors = await embedder.embed(["one", "two", "three and more"])
    assert [each.json() for each in upstream.requests] == [
        {"model": "embed-1", "input": ["one", "two"]},
        {"model": "embed-1", "input": ["three"]},
    ]
    assert (vectors.shape[0], vectors.dtype) == (3, np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    for at, text in enumerate(["one", "two", "three"]):
        assert vectors[at] == pytest.approx((await embedder.embed([text]))[0])
    assert (await embedder.embed([])).shape == (0, vectors.shape[1])


async def test_vectors_in_another_order_are_put_right(upstream: MockUpstream, session: aiohttp.ClientSession) -> None:
    upstream.next(body={"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]})
    vectors = await EndpointEmbedder(session, settings(upstream), KEY).embed(["a", "b"])
    assert vectors.tolist() == [[1, 0], [0, 1]]


async def test_dimensions_are_found_out_once_and_hold_from_then_on(
    upstream: MockUpstream, session: aiohttp.ClientSession
) -> None:
    embedder = EndpointEmbedder(session, settings(upstream), KEY)
    with pytest.raises(UpstreamFailed, match="not known"):
        _ = embedder.name
    upstream.next(body=answer([1, 2, 3]))
    await embedder.embed(["a"])
    assert embedder.name == "endpoint:embed-1/3"
    upstream.next(body=answer([1, 2]))
    with pytest.raises(UpstreamFailed, match=r"\(1, 2\), expected \(1, 3\)"):
        await embedder.embed(["a"])


async def test_dimensions_of_the_settings_are_asked_for_and_checked(
    upstream: MockUpstream, session: aiohttp.ClientSession
) -> None:
    embedder = EndpointEmbedder(session, settings(upstream, dimensions=4), KEY)
    assert embedder.name == "endpoint:embed-1/4"
    assert (await embedder.embed(["a"])).shape == (1, 4)
    assert upstream.requests[0].json()["dimensions"] == 4
    upstream.next(body=answer([1, 2, 3]))
    with pytest.raises(UpstreamFailed):
        await embedder.embed(["a"])


async def test_the_prefix_stands_before_questions_only(upstream: MockUpstream, session: aiohttp.ClientSession) -> None:
    embedder = EndpointEmbedder(session, settings(upstream, question_prefix="query: "), KEY)
    await embedder.embed(["who"], question=True)
    await embedder.embed(["Ann"])
    assert [each.json()["input"] for each in upstream.requests] == [["query: who"], ["Ann"]]


async def test_values_of_any_size_become_unit_vectors(upstream: MockUpstream, session: aiohttp.ClientSession) -> None:
    embedder = EndpointEmbedder(session, settings(upstream), KEY)
    upstream.next(body=answer([1e300, 0], [0, 1e-20], [0, 0]))
    assert (await embedder.embed(["a", "b", "c"])).tolist() == [[1, 0], [0, 1], [0, 0]]


BAD: dict[str, dict[str, Any]] = {
    "error": {"status": 500},
    "refusal that repeats the key": {"status": 401, "body": f"Incorrect API key provided: {KEY}".encode()},
    "not JSON": {"garbage": True},
    "not an answer": {"body": b"[]"},
    "no vectors": {"body": b'{"data": []}'},
    "empty vectors": {"body": answer([], [])},
    "too few": {"body": answer([1, 2])},
    "too many": {"body": answer([1], [2], [3])},
    "of two lengths": {"body": answer([1, 2], [1])},
    "null": {"body": answer([1, None], [1, 2])},
    "text": {"body": answer("abc", "abc")},
    "NaN": {"body": b'{"data": [{"embedding": [NaN]}, {"embedding": [1]}]}'},
    "infinite": {"body": b'{"data": [{"embedding": [1e999]}, {"embedding": [1]}]}'},
    "indexes that are none": {"body": b'{"data": [{"index": "a", "embedding": [1]}, {"index": 0, "embedding": [1]}]}'},
    "elsewhere": {"status": 307, "headers": {"location": "http://127.0.0.1:1/"}, "body": b""},
    "reset": {"reset": True},
    "cut off": {"die_after_chunks": 1},
    "too long": {"body": b" " * 5000},
}


@pytest.mark.parametrize("kind", BAD)
async def test_an_answer_that_is_not_sound_is_an_error_without_the_key(
    upstream: MockUpstream, session: aiohttp.ClientSession, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "MAX_ANSWER_BYTES", 4000)
    embedder = EndpointEmbedder(session, settings(upstream), KEY)
    upstream.next(**BAD[kind])
    with pytest.raises(UpstreamFailed) as failed:
        await embedder.embed(["one", "two"])
    assert KEY not in "".join(traceback.format_exception(failed.value))
    assert failed.value.retry_after_seconds is None
    assert (await embedder.embed(["one", "two"])).shape[0] == 2, "the next time it is asked as if nothing had been"


async def test_an_endpoint_that_is_not_there_is_an_error(session: aiohttp.ClientSession) -> None:
    up = MockUpstream()
    async with up:
        pass
    with pytest.raises(UpstreamFailed, match=r"'embed-1' at 127\.0\.0\.1 cannot be reached"):
        await EndpointEmbedder(session, settings(up), KEY).embed(["one"])


async def test_an_endpoint_that_is_slow_is_given_up(upstream: MockUpstream, session: aiohttp.ClientSession) -> None:
    upstream.next(hang=True)
    with pytest.raises(UpstreamTimedOut, match=r"within 0\.05 s"):
        await EndpointEmbedder(session, settings(upstream, timeout_seconds=0.05), KEY).embed(["one"])


@pytest.mark.parametrize(("told", "seconds"), [("7", 7), (None, 5), ("soon", 5), ("-1", 5), ("inf", 5)])
async def test_an_endpoint_that_is_busy_says_for_how_long(
    upstream: MockUpstream, session: aiohttp.ClientSession, told: str | None, seconds: float
) -> None:
    upstream.next(status=429, headers={} if told is None else {"retry-after": told})
    with pytest.raises(UpstreamFailed) as failed:
        await EndpointEmbedder(session, settings(upstream), KEY).embed(["one"])
    assert failed.value.retry_after_seconds == seconds


async def test_a_key_that_no_header_can_hold_is_an_error_that_does_not_tell_it(
    upstream: MockUpstream, session: aiohttp.ClientSession
) -> None:
    with pytest.raises(ConfigError, match="line break") as failed:
        EndpointEmbedder(session, settings(upstream), f"{KEY}\n")
    assert KEY not in str(failed.value)


async def test_without_a_key_none_is_sent(session: aiohttp.ClientSession) -> None:
    async with MockUpstream() as up:
        await asyncio.gather(*(EndpointEmbedder(session, settings(up), None).embed(["one"]) for _ in range(3)))
        assert all(each.header("authorization") is None for each in up.requests)
