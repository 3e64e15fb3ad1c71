"""Labelled pairs of questions, as `--data PATH` gives them: JSON Lines with `a`, `b` and `same`."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FIT_OF_FIVE: Final = 4
"""So many of five pairs are for fitting; the others only show what came of it."""
TINY: Final = tuple(
    (first, second, same)
    for first, second, same in (
        ("How do I reset my password?", "What is the best way to reset my password?", True),
        ("How can I lose weight fast?", "How do I lose weight quickly?", True),
        ("When does the office open?", "When does the office close?", False),
        ("How far is it from Rome to Milan?", "How far is it from Milan to Rome?", False),
        ("Who wrote the report?", "Why was the report late?", False),
        ("What is the price of the large plan?", "How much does the large plan cost?", True),
    )
    for first, second in ((first, second), (second, first))
)
"""Shows only that it runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two questions, and whether a person held them for the same."""

    a: str
    b: str
    same: bool

    @property
    def fits(self) -> bool:
        """Return whether it is for fitting: by a hash of its text, so that each run splits alike."""
        return zlib.crc32("\n".join(sorted((self.a, self.b))).encode()) % 5 < FIT_OF_FIVE


def pairs(data: Path | None) -> Sequence[Pair]:
    """Return the pairs of a file; without one, a few made-up ones."""
    if data is None:
        return [Pair(a=a, b=b, same=same) for a, b, same in TINY]
    return [Pair(**json.loads(line)) for line in data.read_text("utf-8").splitlines() if line.strip()]
