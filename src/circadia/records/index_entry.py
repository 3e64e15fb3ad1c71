"""The parts of an episode or a note that an index keeps and that a context shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

TEXT: Final = 1_201
"""Indexed characters of a text without passages: a context shows one less, and whether there are more."""


class Layer(StrEnum):
    """The kind of rows a search covers."""

    EPISODES = "episodes"
    """Raw events."""
    NOTES = "notes"
    """Derived texts."""


class IndexEntry(NamedTuple):
    """One row; a tuple, since a bank has hundreds of thousands."""

    number: int
    """Order of acceptance in its table, ascending."""
    at: float
    """Time of the event in seconds since 1970."""
    conversation: str | None
    speaker: str
    """Empty for notes."""
    kind: str
    trust: str
    importance: float | None
    """0 to 1; none if not rated."""
    weight: float
    """1, less after demotions."""
    terms: bytes
    """See `memory/search/terms.py`."""
    vector: bytes | None
    """Embedding as 16-bit floats."""
    embedder: str | None
    """Name of the embedding model."""
    text: str
    """The first `TEXT` characters, or all if it has passages. Texts are never rewritten."""
    passages: bytes | None = None
    """See `records/episode.py`."""
    start: int = -1
    """Place of the text in that of its episode, for a row that is one passage."""
    expires: float | None = None
    """Seconds since 1970; none if it stays."""


class BankHeads(NamedTuple):
    """Greatest row numbers of a bank, 0 if empty."""

    episodes: int
    notes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexDelta:
    """Rows and vectors that an index of a bank lacks."""

    entries: Mapping[Layer, Sequence[IndexEntry]]
    """New rows in order, for each layer that has some."""
    vectors: Mapping[Layer, Mapping[int, tuple[bytes, str]]]
    """Vector and embedder by number, of rows that had none."""
    writes: int
    """Total number of block versions; a change means that a block was written."""
    embedded: int
    """Total number of vectors ever written; a change means that one was added."""
    heads: Mapping[Layer, int]
    """Greatest number of each layer; its row may be retired, and in no index."""


class Excerpt(NamedTuple):
    """One excerpt; a tuple, since each call reads about thirty."""

    layer: Layer
    number: int
    at: datetime
    text: str
    trust: str
    speaker: str | None
    """None for notes."""
    kind: str
    passage: int = 0
    """Number of the passage in its episode, from 1; 0 if the text is not split."""
    passages: int = 0
    """How many the episode has."""
    start: int = 0
    """Place of the first character in the episode's text."""
