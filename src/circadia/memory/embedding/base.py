"""The protocol of embedders (MEM-08)."""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from circadia.errors import UpstreamFailed
from circadia.memory.search.columns import Array

MAX_CHARACTERS: Final = 8_000
"""Characters of a text that are embedded; models read only some hundred words."""
_MIN_DIVISOR: Final = 1e-30
"""Divisor for vectors of zeros, which stay zero."""
_USUAL: Final = (1e-20, 1e20)
"""Range in which a sum of squares is exact enough to divide by its root directly."""


class Embedder(Protocol):
    """Turns texts into vectors. If it raises UpstreamFailed, searches use words alone."""

    @property
    def name(self) -> str:
        """Return name, version and dimensions, such as `wordllama@0.4.0/256`; vectors of other names do not compare.

        Raises UpstreamFailed: the dimensions are not known before the first text.
        """
        ...

    def embed_nowait(self, question: str) -> Array | None:
        """Return the unit vector of a question if that takes no waiting; else None, and the caller uses `embed`."""
        ...

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Array:
        """Return unit vectors as an array of (texts, dimensions) 32-bit floats.

        Raises:
            UpstreamFailed: no answer or unsound vectors. `retry_after_seconds` is set if it gets too many requests.
        """
        ...


def normalize_vectors(vectors: Array, texts: int, dimensions: int) -> Array:
    """Return 32-bit vectors of unit length; zeros stay zeros. Raises UpstreamFailed: a wrong shape or value."""
    if vectors.shape != (texts, dimensions):
        raise UpstreamFailed(f"the embedder returned an array of {vectors.shape}, expected ({texts}, {dimensions})")
    squares = np.einsum("ij,ij->i", vectors, vectors)
    if ((squares > _USUAL[0]) & (squares < _USUAL[1])).all():
        return (vectors / np.sqrt(squares)[:, None]).astype(np.float32, copy=False)
    if not np.isfinite(vectors).all():
        raise UpstreamFailed("the embedder returned values that are not finite")
    scaled = vectors / np.maximum(np.abs(vectors).max(axis=1, keepdims=True, initial=0), _MIN_DIVISOR)
    return (scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), _MIN_DIVISOR)).astype(np.float32)
