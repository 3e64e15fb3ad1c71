"""What makes vectors of texts (MEM-08)."""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from circadia.errors import UpstreamFailed
from circadia.memory.search.columns import Array

MAX_CHARACTERS: Final = 8_000
"""Of a text that is embedded; models read no more than some hundred words."""
_LEAST: Final = 1e-30
"""Divides vectors of zeros, which stay what they are."""
_USUAL: Final = (1e-20, 1e20)
"""Between these a sum of squares is exact enough to divide by its root at once."""


class Embedder(Protocol):
    """Makes vectors. One that fails raises UpstreamFailed; texts are then found by their words."""

    @property
    def name(self) -> str:
        """Return name, version and dimensions, such as `wordllama@0.4.0/256`: vectors of two names never meet.

        Raises:
            UpstreamFailed: its dimensions are not known before it has embedded something.
        """
        ...

    def embed_nowait(self, question: str) -> Array | None:
        """Return the unit vector of a question if nobody has to wait for it; else none, and `embed` makes it."""
        ...

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Array:
        """Return unit vectors, an array of (texts, dimensions) 32-bit floats.

        Raises:
            UpstreamFailed: it does not answer, or not with sound vectors. With `retry_after_seconds` it is asked too
                much.
        """
        ...


def normalize_vectors(vectors: Array, texts: int, dimensions: int) -> Array:
    """Return the vectors as 32-bit floats of unit length; one of zeros stays so, and is near to nothing.

    Raises:
        UpstreamFailed: not as many as texts, of other dimensions, or with a value that is not a number.
    """
    if vectors.shape != (texts, dimensions):
        raise UpstreamFailed(f"the embedder gave an array of {vectors.shape} for ({texts}, {dimensions})")
    squares = np.einsum("ij,ij->i", vectors, vectors)
    if ((squares > _USUAL[0]) & (squares < _USUAL[1])).all():
        return (vectors / np.sqrt(squares)[:, None]).astype(np.float32, copy=False)
    if not np.isfinite(vectors).all():
        raise UpstreamFailed("the embedder gave values that are no numbers")
    scaled = vectors / np.maximum(np.abs(vectors).max(axis=1, keepdims=True, initial=0), _LEAST)
    return (scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), _LEAST)).astype(np.float32)
