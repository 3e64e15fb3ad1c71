"""Models that fastembed runs in this process: the optional extra `fastembed`."""

import asyncio
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar, cast

import numpy as np

from circadia.errors import ConfigError, UpstreamFailed
from circadia.memory.columns import Array
from circadia.memory.embedding.base import MAX_CHARACTERS, sound
from circadia.settings.memory import FastembedEmbedderSettings

INSTALL_HINT: Final = "the embedder `fastembed` needs the extra `fastembed`: run `pip install 'circadia[fastembed]'`"

_T = TypeVar("_T")


class _Model(Protocol):
    """What is used of `fastembed.TextEmbedding`."""

    def embed(self, documents: list[str]) -> Iterable[Any]: ...

    def query_embed(self, query: list[str]) -> Iterable[Any]: ...


class FastEmbedder:
    """Loads its model with the first text; fastembed downloads it then if it is not on this machine."""

    def __init__(self, settings: FastembedEmbedderSettings) -> None:
        """Raises ConfigError: the package is not installed."""
        if importlib.util.find_spec("fastembed") is None:
            raise ConfigError(INSTALL_HINT)
        self._settings = settings
        self._loading = asyncio.Lock()
        self._model: _Model | None = None
        self._dimensions: int | None = None
        self._version: Final = importlib.metadata.version("fastembed")

    @property
    def name(self) -> str:
        """Return model, version and dimensions. Raises UpstreamFailed: they are not known before the first text."""
        if self._dimensions is None:
            raise UpstreamFailed(f"fastembed's {self._settings.model!r} is not loaded yet")
        return f"fastembed:{self._settings.model}@{self._version}/{self._dimensions}"

    def at_once(self, question: str) -> Array | None:
        """Return none: its models take many milliseconds."""
        return None

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Array:
        """Return unit vectors. Raises UpstreamFailed: there is no such model, or it cannot be downloaded or run."""
        if not texts:
            return np.zeros((0, self._dimensions or 0), np.float32)
        async with self._loading:
            if self._model is None:
                self._model = await self._guarded(self._load)
        run = self._model.query_embed if question else self._model.embed
        vectors = await self._guarded(lambda: np.asarray(list(run([text[:MAX_CHARACTERS] for text in texts]))))
        found = sound(vectors, len(texts), self._dimensions or vectors.shape[-1])
        self._dimensions = found.shape[1]
        return found

    def _load(self) -> _Model:
        package = importlib.import_module("fastembed")  # here, since it is an extra, and takes a second
        folder = self._settings.cache_folder
        return cast(
            "_Model", package.TextEmbedding(self._settings.model, cache_dir=folder, threads=self._settings.threads)
        )

    async def _guarded(self, work: Callable[[], _T]) -> _T:
        try:
            return await asyncio.to_thread(work)
        except Exception as error:  # whatever its libraries raise: for a download, a file, a model
            raise UpstreamFailed(f"fastembed's {self._settings.model!r} fails: {error}") from error
