"""The default embedder, WordLlama: its package includes the weights (MIT), so it needs no download and no key."""

import asyncio
import importlib
import importlib.metadata
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol, cast

import numpy as np

from circadia.errors import UpstreamFailed
from circadia.memory.embedding.base import MAX_CHARACTERS, normalize_vectors
from circadia.memory.search.columns import Array

DIMENSIONS: Final = 256
TEXTS_FOR_THREAD: Final = 8
"""Number of texts from which embedding uses a thread: one takes 0.1 to 0.5 ms (`python -m benchmarks recall`)."""

WORDS: Final = 20_000
"""Cached word vectors, 1 KB each."""


class _Encoding(Protocol):
    ids: list[int]


class _Tokenizer(Protocol):
    def encode(self, text: str, *, add_special_tokens: bool) -> _Encoding: ...


class _Model(Protocol):
    """The parts of WordLlama in use; its own `embed` is built for many texts and slower for one."""

    embedding: Array
    tokenizer: _Tokenizer


class BundledEmbedder:
    """Means of word vectors, well under 1 ms a text on one core."""

    def __init__(self) -> None:
        # The weights are 50 MB and slow to load, so they wait for the first text.
        self._loading: asyncio.Future[_Model] | None = None
        self.name: Final = f"wordllama@{importlib.metadata.version('wordllama')}/{DIMENSIONS}"

    def embed_nowait(self, question: str) -> Array | None:
        loading = self._loading
        if loading is None or not loading.done() or loading.cancelled() or loading.exception() is not None:
            return None
        vector: Array = _embed_texts(loading.result(), [question])[0]
        return vector

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Array:
        """Return unit vectors. Raises UpstreamFailed: the weights are missing."""
        model = await self._load_once()
        if len(texts) >= TEXTS_FOR_THREAD:
            return await asyncio.to_thread(_embed_texts, model, texts)
        return _embed_texts(model, texts)

    async def word_vectors(self) -> "WordTable":
        """Return the vectors of single words. Raises UpstreamFailed: the weights are missing."""
        return WordTable(await self._load_once())

    async def _load_once(self) -> _Model:
        """Load the model once for all callers; a cancelled caller does not cancel the load."""
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.ensure_future(asyncio.to_thread(_load))
        return await asyncio.shield(self._loading)


class WordTable:
    """Vectors of single words; a text's vector is the mean of its words'."""

    def __init__(self, model: _Model) -> None:
        self._model = model
        self._vector = lru_cache(maxsize=WORDS)(self._compute_vector)

    def __call__(self, word: str) -> tuple[Array, float]:
        """Return a word's unit vector and its original length, which is larger for rarer words."""
        return self._vector(word)

    def _compute_vector(self, word: str) -> tuple[Array, float]:
        ids = self._model.tokenizer.encode(word[:MAX_CHARACTERS], add_special_tokens=False).ids
        total = np.add.reduce(self._model.embedding.take(ids, axis=0, mode="clip")).astype(np.float32)
        length = float(np.linalg.norm(total))
        return (total / length if length else total), length


def _embed_texts(model: _Model, texts: Sequence[str]) -> Array:
    vectors = np.zeros((len(texts), model.embedding.shape[1]), np.float32)
    for at, text in enumerate(texts):
        ids = model.tokenizer.encode(text[:MAX_CHARACTERS], add_special_tokens=False).ids
        if ids:
            vectors[at] = np.add.reduce(model.embedding.take(ids, axis=0, mode="clip")) / len(ids)
    return normalize_vectors(vectors, len(texts), DIMENSIONS)


def _load() -> _Model:
    try:
        with _keep_root_handler():  # here: it takes longer than all other imports of a command
            package = importlib.import_module("wordllama")
        folder = Path(str(package.__file__)).parent
        loaded = package.WordLlama.load(cache_dir=folder, disable_download=True)
        # Else the tokenizer caches 10,000 texts, up to 200 MB, and is no faster for it.
        loaded.tokenizer.model._resize_cache(0)
        return cast("_Model", loaded)
    except (ImportError, OSError, ValueError) as error:
        raise UpstreamFailed(f"the bundled embedder cannot be loaded ({error}); reinstall wordllama") from error


@contextmanager
def _keep_root_handler() -> Generator[None]:
    """Keep `wordllama` from configuring logging on import: its `basicConfig` does nothing if there is a handler.

    Meanwhile a program without handlers logs as before.
    """
    root, last = logging.getLogger(), logging.lastResort
    if root.handlers or last is None:
        yield
        return
    root.addHandler(last)
    try:
        yield
    finally:
        root.removeHandler(last)
