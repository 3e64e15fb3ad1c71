"""Vectors of questions: kept for a while, by each embedder that is still read, within a time limit (MEM-08)."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from circadia.errors import UpstreamFailed
from circadia.memory.columns import Array
from circadia.memory.embedding.base import Embedder

KEPT: Final = 4_096
"""Vectors that are remembered, 1 KB each."""

_logger = logging.getLogger(__name__)


class QuestionVectors:
    """Embeds questions; an embedder that fails or is slow is done without, since words find too."""

    def __init__(self, embedders: Sequence[Embedder], *, timeout_seconds: float) -> None:
        """The first is the present one, the others those whose vectors are still read."""
        self._embedders = embedders
        self._timeout = timeout_seconds
        self._kept: OrderedDict[tuple[str, str], Array] = OrderedDict()

    async def vectors(self, question: str) -> Mapping[str, Array]:
        """Return the question's unit vector by embedder."""
        if not question.strip():
            return {}
        found = await asyncio.gather(*(self._vector(embedder, question) for embedder in self._embedders))
        return {
            embedder.name: vector
            for embedder, vector in zip(self._embedders, found, strict=True)
            if vector is not None
        }  # fmt: skip

    async def _vector(self, embedder: Embedder, question: str) -> Array | None:
        key = (embedder.name, question)
        known = self._kept.get(key)
        if known is None:
            try:
                async with asyncio.timeout(self._timeout):
                    known = (await embedder.embed([question], question=True))[0]
            except (UpstreamFailed, TimeoutError) as error:
                _logger.warning("embedder %s gave no vector for a question: %s", embedder.name, error or "too slow")
                return None
            self._kept[key] = known
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return known
