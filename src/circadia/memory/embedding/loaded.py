"""What embedders share whose model runs in this process: it is loaded with the first text, and runs in threads."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from circadia.errors import UpstreamFailed
from circadia.memory.columns import Array
from circadia.memory.embedding.base import MAX_CHARACTERS, normalize_vectors

M = TypeVar("M")
T = TypeVar("T")


class InProcessEmbedder(ABC, Generic[M]):
    """Loads a model once, for all who wait, and again where that failed."""

    def __init__(self, title: str) -> None:
        """`title` is the model and its version, as the name of its vectors begins."""
        self._title = title
        self._loading = asyncio.Lock()
        self._model: M | None = None
        self._dimensions: int | None = None

    @property
    def name(self) -> str:
        """Return the title and the dimensions. Raises UpstreamFailed: they are not known before the first text."""
        if self._dimensions is None:
            raise UpstreamFailed(f"{self._title!r} is not loaded yet")
        return f"{self._title}/{self._dimensions}"

    def embed_nowait(self, question: str) -> Array | None:
        """Return none: a text takes some milliseconds."""
        return None

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Array:
        """Return unit vectors. Raises UpstreamFailed: the model cannot be loaded or run."""
        if not texts:
            return np.zeros((0, self._dimensions or 0), np.float32)
        async with self._loading:
            if self._model is None:
                self._model = await self._run_in_thread(self._load)
        model, cut = self._model, [text[:MAX_CHARACTERS] for text in texts]
        vectors = await self._run_in_thread(lambda: self._vectors(model, cut, question=question))
        found = normalize_vectors(vectors, len(texts), self._dimensions or vectors.shape[-1])
        self._dimensions = found.shape[1]
        return found

    @abstractmethod
    def _load(self) -> M:
        """Load the model, in a thread."""

    @abstractmethod
    def _vectors(self, model: M, texts: list[str], *, question: bool) -> Array:
        """Return a row for each text, in a thread."""

    @abstractmethod
    def _failure_text(self, error: Exception) -> str:
        """Return what is told of an error: whatever the libraries raise for a download, a file, a model."""

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except Exception as error:
            raise UpstreamFailed(self._failure_text(error)) from error
