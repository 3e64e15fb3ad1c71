"""Whether a question compares with what it does not say: `which is the cheapest?`, `is there a faster way?`."""

from collections.abc import Sequence
from typing import Final

from circadia.memory.answers import word_classes as classes


def compares_with_nothing(words: Sequence[str]) -> bool:
    """Return whether what is compared, or what it is compared with, stands outside of the question."""
    compared = [
        at for at, word in enumerate(words) if word in COMPARATIVES or (word[-2:] == "st" and _superlative(word))
    ]
    if not compared or not _CHOICE.isdisjoint(words) or any(superlative_of(words, at) for at in compared):
        return False
    first, second, at = words[0], words[1] if len(words) > 1 else "", compared[-1]
    others = [
        place for place, word in enumerate(words)
        if classes.tells(word) and place not in compared and word not in _SAYING_NOTHING
    ]  # fmt: skip
    more = words[at] in COMPARATIVES
    if not others:
        anyhow = first == "how" and second not in classes.MEASURED
        return (not anyhow or words[at - 1] == "the") and (more or at == len(words) - 1)
    if more and first in classes.AUXILIARIES and others == [at + 1] and words[at - 1] in _ANY:
        return True
    if more and first in _BE and at == len(words) - 1:
        return True
    return more and first == "which" and (second in _BE or list(words[1:3]) == ["one", "is"])


def superlative_of(words: Sequence[str], at: int) -> bool:
    """Return whether a superlative stands here before what it is said of: `the largest city`."""
    after = words[at + 1] if at + 1 < len(words) else ""
    return (_superlative(words[at]) or words[at] in ("most", "least")) and classes.tells(after)


def _superlative(word: str) -> bool:
    return word in ("best", "worst") or (len(word) > 5 and word.endswith("est") and word not in _NO_SUPERLATIVES)


_BE: Final = classes.word_set("is are was were")
_ANY: Final = classes.word_set("a an any no some anything something")
_CHOICE: Final = classes.word_set("or than between among of and vs versus to for that in with from by")
"""With one of these it says what is compared."""
_SAYING_NOTHING: Final = classes.word_set("available possible left there")
_NO_SUPERLATIVES: Final = classes.word_set(
    "forest interest harvest protest suggest contest invest honest arrest digest request modest manifest latest"
)
COMPARATIVES: Final = classes.word_set("""
better worse cheaper faster bigger smaller larger safer newer older easier next greater higher lower longer shorter
taller stronger weaker heavier lighter quicker slower simpler harder smarter younger closer nearer warmer colder wider
""")
"""Of which one thing is more than another."""
