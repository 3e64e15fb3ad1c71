"""What an index keeps of an episode or a note."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

TEXT: Final = 1_201
"""Characters of a text that are kept: a context shows one less, and whether there are more."""


class Layer(StrEnum):
    """What a search goes through."""

    EPISODES = "episodes"
    """What happened, as it was said."""
    NOTES = "notes"
    """What was derived from it."""


class IndexEntry(NamedTuple):
    """One row; a tuple, since a bank is read by the hundred thousand."""

    number: int
    """Order of acceptance in its table, ascending."""
    at: float
    """When it happened: seconds since 1970."""
    session: str | None
    """The conversation that it belongs to."""
    speaker: str
    """Who said it; empty for notes."""
    kind: str
    """Of which kind it is."""
    trust: str
    """Where it came from."""
    importance: float | None
    """0 to 1; none if nobody has judged it."""
    weight: float
    """1, less after demotions."""
    terms: bytes
    """Its words, see `memory/search/terms.py`."""
    vector: bytes | None
    """Its embedding as 16-bit floats."""
    embedder: str | None
    """What made the embedding."""
    text: str
    """Its beginning, `TEXT` characters at most. It is never rewritten, as all that is not judged of a row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexDelta:
    """What a bank has that an index of it lacks."""

    entries: Mapping[Layer, Sequence[IndexEntry]]
    """Rows, in order; of the layers that have some."""
    vectors: Mapping[Layer, Mapping[int, tuple[bytes, str]]]
    """Vector and embedder by number, of rows that had none."""
    writes: int
    """How many versions its blocks have, all together: tells whether one was written."""
    embedded: int
    """How many vectors were ever written to its rows: tells whether one was."""
