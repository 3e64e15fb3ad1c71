"""How near the words of two questions are: what the one has and the other has not, and what comes nearest to it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from circadia.memory.answers.meaning import Meaning
from circadia.memory.answers.reading import Word
from circadia.memory.columns import Array

MINIMAL: Final = 2
"""Most words of each question that a minimal change touches."""

SMALL: Final = 6
"""Most words of both together that differ, where a description that one of them adds still counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wording:
    """What two questions do not share."""

    near: Array
    """Cosines of the words of the first, a row each, with those of the second, a column each."""
    only_a: Sequence[Word]
    """Telling words of the first alone."""
    only_b: Sequence[Word]
    """Telling words of the second alone."""
    nearest: float
    """The cosine of the two words, where each has just one of its own; else 0."""
    more: Sequence[str]
    """Words that the first has more often, articles aside, whatever they tell."""
    less: Sequence[str]
    """Words that the second has more often."""
    minimal: bool
    """Whether so little differs that it was changed on purpose, or not at all."""
    small: bool
    """Whether not much more differs than what a question is put in, as `how can I` or `is it true that`."""


def compared(a: Meaning, b: Meaning) -> Wording:
    """Compare the words of two questions."""
    only_a = _own(a, b)
    only_b = _own(b, a)
    near = a.each @ b.each.T
    alone = len(only_a) == len(only_b) == 1
    more, less = _surplus(a.bag, b.bag), _surplus(b.bag, a.bag)
    return Wording(
        near=near, only_a=only_a, only_b=only_b, more=more, less=less,
        nearest=float(near[only_a[0].at, only_b[0].at]) if alone else 0.0,
        minimal=len(more) <= MINIMAL and len(less) <= MINIMAL, small=len(more) + len(less) <= SMALL,
    )  # fmt: skip


def _own(mine: Meaning, other: Meaning) -> Sequence[Word]:
    return [word for word in mine.reading.telling if word.stem not in other.stems]


def _surplus(mine: Counter[str], other: Counter[str]) -> Sequence[str]:
    return [word for word, count in mine.items() for _ in range(count - other.get(word, 0))]


def against(ours: Sequence[str], theirs: Sequence[str]) -> str:
    """Return what differs, in words."""
    return f"{', '.join(ours) or 'nothing'} against {', '.join(theirs) or 'nothing'}"
