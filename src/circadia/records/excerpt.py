"""What a context shows of an episode or a note."""

from datetime import datetime
from typing import NamedTuple

from circadia.records.index_entry import Layer


class Excerpt(NamedTuple):
    """One of them; a tuple, since a call looks at thirty."""

    layer: Layer
    """Where it is."""
    number: int
    """Its number there."""
    at: datetime
    """When it happened."""
    text: str
    """What was said or derived."""
    trust: str
    """Where it came from."""
    speaker: str | None
    """Who said it; none for notes."""
    kind: str
    """Of which kind it is."""
