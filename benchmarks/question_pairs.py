"""Labelled pairs of questions, as `--data PATH` gives them: JSON Lines with `a`, `b` and `same`."""

import json
import re
import zlib
from collections.abc import Mapping, Sequence
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
    family: int = 0
    """A hash of all questions that pairs join to these two: it is the same in each of their pairs."""

    @property
    def fits(self) -> bool:
        """Return whether it is for fitting: no question of such a pair is in one of the others."""
        return self.family % 5 < FIT_OF_FIVE


def pairs(data: Path | None) -> Sequence[Pair]:
    """Return the pairs of a file; without one, a few made-up ones. Each run splits alike."""
    if data is None:
        return [Pair(a=a, b=b, same=same) for a, b, same in TINY]
    given = [json.loads(line) for line in data.read_text("utf-8").splitlines() if line.strip()]
    families = _families([(_key(each["a"]), _key(each["b"])) for each in given])
    return [Pair(**each, family=families[_key(each["a"])]) for each in given]


def _key(question: str) -> str:
    """Return what is the same in two questions that only differ in case and signs; no part of what is measured."""
    return " ".join(re.findall(r"\w+", question.casefold())) or question


def _families(joined: Sequence[tuple[str, str]]) -> Mapping[str, int]:
    """Return the hash of the family of each question: those that a chain of pairs joins."""
    above: dict[str, str] = {}

    def first(question: str) -> str:
        root = question
        while above.setdefault(root, root) != root:
            root = above[root]
        while above[question] != root:
            above[question], question = root, above[question]
        return root

    for one, two in joined:
        roots = sorted((first(one), first(two)))
        above[roots[1]] = roots[0]  # the smallest names the family, in whichever order the pairs come
    return {question: zlib.crc32(first(question).encode()) for question in above}
