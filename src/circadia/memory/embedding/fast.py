"""Models that fastembed runs in this process: the optional extra `fastembed`."""

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterable
from typing import Any, Final, Protocol, cast

import numpy as np

from circadia.errors import ConfigError
from circadia.memory.columns import Array
from circadia.memory.embedding.loaded import InProcessEmbedder
from circadia.settings.memory import FastembedEmbedderSettings

INSTALL_HINT: Final = "the embedder `fastembed` needs the extra `fastembed`: run `pip install 'circadia[fastembed]'`"


class _Model(Protocol):
    """What is used of `fastembed.TextEmbedding`."""

    def embed(self, documents: list[str]) -> Iterable[Any]: ...

    def query_embed(self, query: list[str]) -> Iterable[Any]: ...


class FastEmbedder(InProcessEmbedder[_Model]):
    """A model of fastembed, which downloads it with the first text if it is not on this machine."""

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
