"""The part of an episode or a note that a context shows."""

from datetime import datetime
from typing import NamedTuple

from circadia.records.index_entry import Layer


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
