"""Encoders that numpy runs in this process, whose weights `circadia model fetch` has fetched."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from circadia.errors import ConfigError, UpstreamFailed
from circadia.llm import local_weights
from circadia.llm.local_encoder import LocalEncoder
from circadia.memory.columns import Array
from circadia.memory.embedding.base import MAX_CHARACTERS, sound
from circadia.settings.memory import LocalEmbedderSettings


class LocalEmbedder:
    """A text's vector is the mean of what the encoder's last layer tells of its tokens, as these were trained."""

    def __init__(self, settings: LocalEmbedderSettings, folder: Path) -> None:
        """Take the weights of that model in `folder`, which are loaded with the first text.

        Raises:
            ConfigError: they are not there.
        """
        weights = local_weights.known(settings.model)
        archive = local_weights.present(weights, folder)
        if archive is None:
            raise ConfigError(
                f"the embedder 'local' needs the weights of {weights.name!r}, which are not in {str(folder)!r}: run "
                f"`circadia model fetch {weights.name}` as the server's user"
            )
        self._archive: Final = archive
        self._weights: Final = weights
        self._loading = asyncio.Lock()
        self._encoder: LocalEncoder | None = None
        self._dimensions: int | None = None

    @property
    def name(self) -> str:
        """Return model, digest and dimensions. Raises UpstreamFailed: they are not known before the first text."""
        if self._dimensions is None:
            raise UpstreamFailed(f"the encoder {self._weights.name!r} is not loaded yet")
        return f"{self._weights.title}@{self._weights.sha256[:8]}/{self._dimensions}"

    def at_once(self, question: str) -> Array | None:
        """Return none: a text takes some milliseconds."""
        return None

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Array:
        """Return unit vectors. Raises UpstreamFailed: the weights cannot be read."""
        if not texts:
            return np.zeros((0, self._dimensions or 0), np.float32)
        async with self._loading:
            if self._encoder is None:
                self._encoder = await asyncio.to_thread(self._load)
        encoder = self._encoder
        vectors = await asyncio.to_thread(lambda: np.array([_mean(encoder, text) for text in texts]))
        found = sound(vectors, len(texts), vectors.shape[-1])
        self._dimensions = found.shape[1]
        return found

    def _load(self) -> LocalEncoder:
        try:
            return LocalEncoder(self._archive)
        except Exception as error:  # whatever its libraries raise: for a file, an archive, a tokenizer
            name = self._weights.name
            raise UpstreamFailed(
                f"the weights of {name!r} cannot be read ({error}); remove {str(self._archive)!r} and run `circadia "
                f"model fetch {name}`"
            ) from error


def _mean(encoder: LocalEncoder, text: str) -> Array:
    _, states = encoder.states(text[:MAX_CHARACTERS])
    return states[-1].mean(axis=0)
