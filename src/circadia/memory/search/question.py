"""A search of a bank, and its results."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from circadia.memory.search.columns import Array
from circadia.records.index_entry import Layer
from circadia.records.per_call import per_call

UNEXPLAINED: Final[Mapping[str, float]] = {}
"""The parts of a score in a search that does not explain."""


@per_call
class Question:
    terms: Sequence[int] = ()
    """Hashes of its words."""
    vectors: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Unit vectors by embedder."""
    stems: Sequence[Collection[int]] = ()
    """Hashes by word, for `later_rows`: a row has a word if it has one of its hashes."""
    sense: float = 1.0
    """How informative its vectors are beyond the letters of the text, 0 to 1."""
    names: Collection[str] = ()
    """Its words in lower case, among which speakers are looked for."""
    layers: Collection[Layer] = (Layer.EPISODES, Layer.NOTES)
    since: float | None = None
    """Inclusive, seconds since 1970."""
    until: float | None = None
    """Exclusive, seconds since 1970."""
    conversation: str | None = None
    speaker: str | None = None
    kinds: Collection[str] = ()
    """All if empty."""
    trusts: Collection[str] = ()
    """All if empty."""
    recency: float = 0.0
    """Score of a row from this moment; it halves every `half_life` seconds."""
    half_life: float = 30 * 86_400.0
    importance: float = 0.0
    """Score of the most important row."""
    now: float = 0.0
    """Seconds since 1970."""
    limit: int = 10
    explained: bool = True
    """Whether results include the parts of their scores."""


class ScoredRow(NamedTuple):
    """A search result; a tuple, since a call examines thirty."""

    layer: Layer
    number: int
    score: float
    """Comparable within one search only."""
    parts: Mapping[str, float]
    """Score parts by name; `weight` multiplies the sum of the others. Empty unless the search explains."""
