"""Vectors of questions: kept for a while, by each embedder that is still read, within a time limit (MEM-08)."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from circadia.bounded_dict import BoundedDict
from circadia.clock import Clock
from circadia.errors import UpstreamFailed, UpstreamTimedOut
from circadia.memory.embedding.base import Embedder
from circadia.memory.search.columns import Array

MAX_CACHED: Final = 4_096
"""Vectors that are remembered, 1 KB each."""
MAX_CHARACTERS: Final = 2_000
"""Of a question that are embedded; what is remembered of it."""
REST_SECONDS: Final = 30.0
"""An embedder that was too slow is tried so often, while nobody waits for it, until it is quick again."""

_logger = logging.getLogger(__name__)


class ActiveEmbedder:
    """An embedder with whose vectors is searched."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder: Final = embedder
        self.needed = True
        """Whether there are vectors of it; of a previous one, until all are made anew."""
        self.slow = False
        """Whether it was too slow the last time, so that nobody waits for it."""
        self._well = True
        self._rests_until = 0.0

    def should_rest(self, now: float) -> bool:
        """Return whether a slow one is left alone; if not, it is tried now. `now` is the monotonic clock's, seconds."""
        if not self.slow:
            return False
        if now < self._rests_until:
            return True
        self._rests_until = now + REST_SECONDS
        return False

    def note_result(self, error: UpstreamFailed | None, now: float) -> None:
        """Note how it did, and tell it once when that changes."""
        self.slow = isinstance(error, UpstreamTimedOut)
        self._rests_until = now + REST_SECONDS
        if error is not None and self._well:
            _logger.warning("searches go by words alone for now: %s", error)
        elif error is None and not self._well:
            _logger.info("embedder %s gives vectors of questions again", self.embedder.name)
        self._well = error is None


class QuestionVectors:
    """Embeds questions; an embedder that fails or is slow is done without, since words find too."""

    def __init__(self, clock: Clock, readings: Sequence[ActiveEmbedder], *, timeout_seconds: float) -> None:
        self._clock = clock
        self._readings = readings
        self._timeout = timeout_seconds
        self._kept: BoundedDict[tuple[int, str], Array] = BoundedDict(MAX_CACHED)
        self._asked: dict[tuple[int, str], asyncio.Task[Array | None]] = {}

    def vectors_nowait(self, question: str) -> Mapping[str, Array] | None:
        """Return the question's unit vector by embedder if nobody has to wait for any of them; else none."""
        question = _shorten(question)
        found: dict[str, Array] = {}
        for at, reading in enumerate(self._readings if question.strip() else ()):
            if reading.needed:
                vector = self._cached_vector((at, question))
                if vector is None:
                    vector = reading.embedder.embed_nowait(question)
                    if vector is None:
                        return None
                    self._kept[(at, question)] = vector
                found[reading.embedder.name] = vector
        return found

    async def vectors(self, question: str) -> Mapping[str, Array]:
        """Return the question's unit vector by embedder."""
        question = _shorten(question)
        if not question.strip():
            return {}
        asked = [at for at, each in enumerate(self._readings) if each.needed]
        if len(asked) == 1:  # as it nearly always is; a task for it would cost as much as the vector's lookup
            found = [await self._get_vector(asked[0], question)]
        else:
            found = await asyncio.gather(*(self._get_vector(at, question) for at in asked))
        pairs = zip(asked, found, strict=True)
        return {self._readings[at].embedder.name: vector for at, vector in pairs if vector is not None}

    def embedders(self) -> Collection[str] | None:
        """Return the embedders whose vectors are still read; none if the name of one is not known yet."""
        try:
            return [each.embedder.name for each in self._readings if each.needed]
        except UpstreamFailed:
            return None

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
        if task is None:  # else somebody asks the same just now
            task = self._asked[key] = asyncio.create_task(self._embed(key))
            task.add_done_callback(lambda _: self._asked.pop(key))
        # Whoever goes away does not take the answer from the others.
        return await asyncio.shield(task) if waits else None

    async def _embed(self, key: tuple[int, str]) -> Array | None:
        at, question = key
        reading = self._readings[at]
        try:
            async with asyncio.timeout(self._timeout):
                vector: Array = (await reading.embedder.embed([question], question=True))[0]
        except TimeoutError:
            told = UpstreamTimedOut(f"the embedder gave no vector of a question within {self._timeout:g} s")
            reading.note_result(told, self._clock.monotonic())
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
    """Return what is embedded of a question; a caller may send half a character."""
    return question[:MAX_CHARACTERS].encode(errors="replace").decode()
