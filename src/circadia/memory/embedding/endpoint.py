"""Embedder for any endpoint with OpenAI's `/embeddings` API, remote or local."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import aiohttp
import numpy as np
import orjson
from yarl import URL

from circadia.errors import ConfigError, UpstreamFailed, UpstreamTimedOut
from circadia.memory.embedding.base import normalize_vectors
from circadia.memory.search.columns import Array
from circadia.network import explain_unreachable
from circadia.settings.memory import EndpointEmbedderSettings

MAX_ANSWER_BYTES: Final = 64 * 2**20
"""Largest response; 256 texts of 4,096 dimensions take 25 MB."""
BUSY: Final = frozenset({429, 503})
"""Statuses of an overloaded endpoint."""
BUSY_SECONDS: Final = 5.0
"""Pause for such an endpoint without `Retry-After`."""


class EndpointEmbedder:
    """Embeds in batches. Errors leave out the endpoint's own message, which may repeat the key."""

    def __init__(self, session: aiohttp.ClientSession, settings: EndpointEmbedderSettings, key: str | None) -> None:
        """Raises ConfigError: the key does not fit into a header."""
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if key:
            if not key.isascii() or not key.isprintable():
                raise ConfigError("the embedder's key is not printable ASCII; check it for a line break")
            headers["Authorization"] = f"Bearer {key}"
        self._session = session
        self._settings = settings
        self._headers = headers
        self._dimensions = settings.dimensions
        self._called: Final = f"embedder {settings.model!r} at {URL(settings.base_url).host}"

    @property
    def name(self) -> str:
        """Return model and dimensions. Raises UpstreamFailed: not configured, and the endpoint has not answered yet."""
        if self._dimensions is None:
            raise UpstreamFailed(f"{self._called} has not answered yet, so its dimensions are not known")
        return f"endpoint:{self._settings.model}/{self._dimensions}"

    def embed_nowait(self, question: str) -> Array | None:
        return None

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Array:
        prefix = self._settings.question_prefix if question else ""
        sent = [f"{prefix}{text[: self._settings.max_characters]}" for text in texts]
        size = self._settings.batch
        batches = [await self._embed_batch(sent[start : start + size]) for start in range(0, len(sent), size)]
        return np.concatenate(batches) if batches else np.zeros((0, self._dimensions or 0), np.float32)

    async def _embed_batch(self, texts: Sequence[str]) -> Array:
        request: dict[str, object] = {"model": self._settings.model, "input": texts}
        if self._settings.dimensions is not None:
            request["dimensions"] = self._settings.dimensions
        try:
            body = await self._post(orjson.dumps(request))
        except TimeoutError as error:
            message = f"{self._called} did not answer within {self._settings.timeout_seconds:g} s"
            raise UpstreamTimedOut(message) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UpstreamFailed(f"{self._called} cannot be reached: {explain_unreachable(error)}") from error
        try:
            vectors = await asyncio.to_thread(_parse_vectors, body)  # a batch takes some milliseconds
            normalized = normalize_vectors(vectors, len(texts), self._dimensions or vectors.shape[1])
        except UpstreamFailed as error:
            raise UpstreamFailed(f"{self._called}: {error}") from error
        self._dimensions = normalized.shape[1]
        return normalized

    async def _post(self, body: bytes) -> bytes:
        limit = aiohttp.ClientTimeout(total=self._settings.timeout_seconds)
        url = f"{self._settings.base_url}/embeddings"
        async with self._session.post(
            url, data=body, headers=self._headers, timeout=limit, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                pause = _retry_after_seconds(answer.headers.get("Retry-After")) if answer.status in BUSY else None
                raise UpstreamFailed(f"{self._called} answers with status {answer.status}", retry_after_seconds=pause)
            held = bytearray()
            async for part in answer.content.iter_any():
                held += part
                if len(held) > MAX_ANSWER_BYTES:
                    raise UpstreamFailed(f"{self._called} answers with more than {MAX_ANSWER_BYTES} bytes")
            return bytes(held)


def _parse_vectors(body: bytes) -> Array:
    """Return the vectors in the order of the texts. Raises UpstreamFailed: the body is not a list of embeddings."""
    try:
        answer: Mapping[str, Any] = orjson.loads(body)
        items = cast("list[Mapping[str, Any]]", answer["data"])
        ordered = sorted(
            items, key=lambda item: item.get("index", 0)
        )  # a stable sort keeps items without an index in order
        vectors = np.asarray([item["embedding"] for item in ordered], np.float64)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UpstreamFailed("the answer is not a list of embeddings in OpenAI's format") from error
    if vectors.ndim != 2 or not vectors.shape[1]:
        raise UpstreamFailed("the answer has no embeddings")
    return vectors


def _retry_after_seconds(header: str | None) -> float:
    try:
        seconds = float(header or BUSY_SECONDS)
    except ValueError:  # a date
        return BUSY_SECONDS
    return seconds if math.isfinite(seconds) and seconds > 0 else BUSY_SECONDS
