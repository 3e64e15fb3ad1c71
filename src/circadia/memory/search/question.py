"""What a bank is searched for, and what a search tells."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from circadia.memory.search.columns import Array
from circadia.records.index_entry import Layer
from circadia.records.per_call import per_call

UNEXPLAINED: Final[Mapping[str, float]] = {}
"""Parts of a score that nobody asked for."""


@per_call
class Question:
    """What is looked for."""

    text: str = ""
    """The question itself, if a ready view may answer it."""
    counted: bool = True
    """Whether it may be counted among what is often asked, which is written down."""
    waits: bool = False
    """Whether its vectors are on their way, so that only a ready view can answer it yet."""
    terms: Sequence[int] = ()
    """Hashes of its words."""
    vectors: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Its embedding by embedder, unit length."""
    stems: Sequence[Collection[int]] = ()
    """Hashes by word, to see what later rows change its answer: a row has a word if it has one of its hashes."""
    sense: float = 1.0
    """How much its vectors say beyond the letters of the text, 0 to 1."""
    names: Collection[str] = ()
    """Its words, lower case, to see whom it names."""
    layers: Collection[Layer] = (Layer.EPISODES, Layer.NOTES)
    """What is searched."""
    since: float | None = None
    """From this time on, seconds since 1970."""
    until: float | None = None
    """Before this time."""
    session: str | None = None
    """In this conversation only."""
    speaker: str | None = None
    """Said by them only."""
    kinds: Collection[str] = ()
    """Of these kinds only; all if empty."""
    trusts: Collection[str] = ()
    """From these sources only; all if empty."""
    recency: float = 0.0
    """What something that happens now gets, half of it after `half_life` seconds, and so on."""
    half_life: float = 30 * 86_400.0
    """Seconds."""
    importance: float = 0.0
    """What the most important gets."""
    now: float = 0.0
    """The present, seconds since 1970."""
    limit: int = 10
    """How many are returned."""
    explained: bool = True
    """Whether each is returned with the parts of its score."""


class ScoredRow(NamedTuple):
    """What was found, with why; a tuple, since a call looks at thirty."""

    layer: Layer
    """Where it is."""
    number: int
    """Its number there."""
    score: float
    """The greater, the better; comparable within one search."""
    parts: Mapping[str, float]
    """The score's parts by name; `weight` multiplies the sum of the others. Empty if they were not asked for."""
