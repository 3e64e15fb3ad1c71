"""An anticipated answer: what an expected question is, in several phrasings, and how sure its answer is."""

from collections.abc import Sequence
from dataclasses import dataclass

from circadia.ids import AnswerId


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """The question of an answer that is ready, as the lookup needs it."""

    id: AnswerId
    """Of the answer."""
    phrasings: Sequence[str]
    """The question in several wordings, the likeliest first."""
    confidence: float
    """How sure the answer is, 0 to 1."""
    conversation: str | None = None
    """Digest of the conversation that the question belongs to; none if it came from no conversation."""
