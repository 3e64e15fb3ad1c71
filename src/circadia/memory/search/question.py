"""What a search is asked, and what it returns."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from circadia.memory.search.columns import Array
from circadia.records.fast_record import fast_record
from circadia.records.index_entry import Layer
from circadia.records.value_filter import Condition

SUPERSEDED: Final = 0
"""`ScoredRow.times` of a row that no longer holds."""
UNEXPLAINED: Final[Mapping[str, float]] = {}
"""The parts of a score in a search that does not explain."""
DEPTH: Final = 100
"""Rows examined closely by words, and by meaning; more if more are asked for."""


@fast_record
class Question:
    terms: Sequence[int] = ()
    """Hashes of its words."""
    vectors: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Unit vectors by embedder."""
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
    where: Sequence[Condition] = ()
    """Conditions on the metadata of episodes; notes have none, so with some only episodes are found."""
    recency: float = 0.0
    """Score of a row from this moment; it halves every `half_life` seconds."""
    half_life: float = 30 * 86_400.0
    importance: float = 0.0
    """Score of the most important row."""
    now: float = 0.0
    """Seconds since 1970."""
    zone: str = "UTC"
    """IANA time zone of the agent that asks: in it are the days of what it reads."""
    days: tuple[float, float] | None = None
    """The time that the question is about, from and until, seconds since 1970; it weighs and does not filter."""
    as_of: float | None = None
    """Only what had happened then, seconds since 1970."""
    weights: Mapping[int, float] = field(default_factory=dict[int, float])
    """Other weights of episodes, by number: those that they had at `as_of`."""
    limit: int = 10
    explained: bool = True
    """Whether results include the parts of their scores."""
    exchange: Sequence[int] = ()
    """Hashes of its words and of those of the exchange before it, for what it leaves unsaid ("And her brother?")."""
    exchange_names: Collection[str] = ()
    """As `names`."""


class ScoredRow(NamedTuple):
    """A search result; a tuple, since a call examines thirty."""

    layer: Layer
    number: int
    score: float
    """Comparable within one search only."""
    parts: Mapping[str, float]
    """Score parts by name; `weight` multiplies the sum of the others. Empty unless the search explains."""
    passage: int = 0
    """Number of the passage in its episode, from 1; 0 if the text is not split."""
    times: int = 1
    """How often its speaker says this text, of which it is the newest; `SUPERSEDED` if it was demoted."""
