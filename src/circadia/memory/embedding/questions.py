"""Vectors of questions by each embedder still in use, cached and within a time limit (MEM-08)."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from circadia.caches import BoundedDict
from circadia.clock import Clock
from circadia.errors import UpstreamFailed, UpstreamTimedOut
from circadia.memory.embedding.base import Embedder
from circadia.memory.search.columns import Array

MAX_CACHED: Final = 4_096
"""Cached vectors, 1 KB each."""
MAX_CHARACTERS: Final = 2_000
"""Characters of a question that are embedded and cached."""
REST_SECONDS: Final = 30.0
"""Interval at which an embedder that was too slow is tried, without a caller waiting, until it is fast again."""

_logger = logging.getLogger(__name__)


class ActiveEmbedder:
    def __init__(self, embedder: Embedder) -> None:
        self.embedder: Final = embedder
        self.needed = True
        """Whether there are vectors of it; a previous embedder has some until all are replaced."""
        self.slow = False
        """Whether it timed out the last time, so that no caller waits for it."""
        self._well = True
        self._rests_until = 0.0

    def should_rest(self, now: float) -> bool:
        """Return whether a slow embedder is skipped. `now` is in seconds of the monotonic clock."""
        if not self.slow:
            return False
        if now < self._rests_until:
            return True
        self._rests_until = now + REST_SECONDS
        return False

    def note_result(self, error: UpstreamFailed | None, now: float) -> None:
        self.slow = isinstance(error, UpstreamTimedOut)
        self._rests_until = now + REST_SECONDS
        if error is not None and self._well:
            _logger.warning("searches use words alone for now: %s", error)
        elif error is None and not self._well:
            _logger.info("embedder %s embeds questions again", self.embedder.name)
        self._well = error is None


class QuestionVectors:
    """Embeds questions; a search does without an embedder that fails or is slow."""

    def __init__(self, clock: Clock, readings: Sequence[ActiveEmbedder], *, timeout_seconds: float) -> None:
        self._clock = clock
        self._readings = readings
        self._timeout = timeout_seconds
        self._kept: BoundedDict[tuple[int, str], Array] = BoundedDict(MAX_CACHED)
        self._asked: dict[tuple[int, str], asyncio.Task[Array | None]] = {}

    def vectors_nowait(self, question: str) -> Mapping[str, Array] | None:
        question = _shorten(question)
        vectors: dict[str, Array] = {}
        for at, reading in enumerate(self._readings if question.strip() else ()):
            if reading.needed:
                vector = self._cached_vector((at, question))
                if vector is None:
                    vector = reading.embedder.embed_nowait(question)
                    if vector is None:
                        return None
                    self._kept[(at, question)] = vector
                vectors[reading.embedder.name] = vector
        return vectors

    async def vectors(self, question: str) -> Mapping[str, Array]:
        question = _shorten(question)
        if not question.strip():
            return {}
        places = [at for at, reading in enumerate(self._readings) if reading.needed]
        if len(places) == 1:  # the usual case, where a task would cost as much as the lookup
            answers = [await self._get_vector(places[0], question)]
        else:
            answers = await asyncio.gather(*(self._get_vector(at, question) for at in places))
        pairs = zip(places, answers, strict=True)
        return {self._readings[at].embedder.name: vector for at, vector in pairs if vector is not None}

    async def _get_vector(self, at: int, question: str) -> Array | None:
        key = (at, question)
        known = self._cached_vector(key)
        if known is not None:
            return known
        reading = self._readings[at]
        waits = not reading.slow
        if reading.should_rest(self._clock.monotonic()):
            return None
        task = self._asked.get(key)
        if task is None:  # else the same question is being embedded
            task = self._asked[key] = asyncio.create_task(self._embed(key))
            task.add_done_callback(lambda _: self._asked.pop(key))
        # A cancelled caller must not cancel the others' answer.
        return await asyncio.shield(task) if waits else None

    async def _embed(self, key: tuple[int, str]) -> Array | None:
        at, question = key
        reading = self._readings[at]
        try:
            async with asyncio.timeout(self._timeout):
                vector: Array = (await reading.embedder.embed([question], question=True))[0]
        except TimeoutError:
            timeout = UpstreamTimedOut(f"the embedder did not embed a question within {self._timeout:g} s")
            reading.note_result(timeout, self._clock.monotonic())
            return None
        except UpstreamFailed as error:
            reading.note_result(error, self._clock.monotonic())
            return None
        reading.note_result(None, self._clock.monotonic())
        self._kept[key] = vector
        return vector

    def _cached_vector(self, key: tuple[int, str]) -> Array | None:
        vector = self._kept.get(key)
        if vector is not None:
            self._kept.move_to_end(key)
        return vector


def _shorten(question: str) -> str:
    """Return the part that is embedded, without the halves of characters that a caller may send."""
    return question[:MAX_CHARACTERS].encode(errors="replace").decode()
