"""The default embedder: WordLlama, whose weights come in its package (MIT), so it needs no download and no key."""

import asyncio
import importlib
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numpy as np

from circadia.errors import UpstreamFailed
from circadia.memory.columns import Array
from circadia.memory.embedding.base import MAX_CHARACTERS, sound

DIMENSIONS: Final = 256
APART: Final = 8
"""Texts from which on embedding leaves the event loop: one takes 0.1 ms."""


class _Model(Protocol):
    def embed(self, texts: list[str]) -> Any: ...


class BundledEmbedder:
    """Means of word vectors, 0.1 ms a text on one core."""

    def __init__(self) -> None:
        self._loading = asyncio.Lock()
        self._model: _Model | None = None  # the weights are 50 MB and take half a second, so they wait for a text
        self.name: Final = f"wordllama@{importlib.metadata.version('wordllama')}/{DIMENSIONS}"

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Array:
        """Return unit vectors. Raises UpstreamFailed: the weights are not there."""
        async with self._loading:
            if self._model is None:
                self._model = await asyncio.to_thread(_load)
        if len(texts) >= APART:
            return await asyncio.to_thread(_embedded, self._model, texts)
        return _embedded(self._model, texts)


def _embedded(model: _Model, texts: Sequence[str]) -> Array:
    if not texts:
        return np.zeros((0, DIMENSIONS), np.float32)
    vectors = np.asarray(model.embed([text[:MAX_CHARACTERS] for text in texts]))
    return sound(vectors, len(texts), DIMENSIONS)


def _load() -> _Model:
    try:
        package = importlib.import_module(
            "wordllama"
        )  # here, since it takes longer than all of a command's other imports
        folder = Path(str(package.__file__)).parent
        return cast("_Model", package.WordLlama.load(cache_dir=folder, disable_download=True))
    except (ImportError, OSError, ValueError) as error:
        raise UpstreamFailed(f"the bundled embedder cannot be loaded ({error}); reinstall wordllama") from error
