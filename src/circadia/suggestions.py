"""What somebody may have meant who wrote a name that does not exist, at a bounded cost whatever is stored."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

NAMES: Final = 256
"""Names that one message is chosen from; lookups in the database return fewer."""
CHARACTERS: Final = 64
"""Length to which names are compared: names that differ later are told apart by nobody."""
LIKENESS: Final = 0.45
"""Least share of common letters and pairs of letters (the Sørensen-Dice coefficient)."""
_FEW: Final = 8


def closest(name: str, known: Iterable[str], *, count: int = 3, likeness: float = LIKENESS) -> list[str]:
    """Return up to `count` of the known names that are most like `name`, the most alike first.

    A comparison takes up to 13 µs; the caller bounds the number of names.
    """
    asked = _parts(name)
    scored: list[tuple[float, str]] = []
    for other in known:
        parts = _parts(other)
        found = 2 * len(asked & parts) / max(1, len(asked) + len(parts))
        if found >= likeness:
            scored.append((-found, other))
    return [other for _, other in sorted(scored)[:count]]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: the names that are like `name`, or all if there are few, or nothing."""
    names = sorted(set(islice(known, NAMES)))
    short = name[:CHARACTERS]
    close = closest(name, names) or [other for other in names if len(short) > 2 and short in other][:5]
    if close:
        return f"; did you mean {', '.join(map(repr, close))}?"
    return f"; there are {', '.join(map(repr, names))}" if 0 < len(names) <= _FEW else ""


def _parts(name: str) -> set[str]:
    """Return the letters and the pairs of neighbouring letters of a name."""
    short = name[:CHARACTERS].casefold()
    return {*short, *(short[at : at + 2] for at in range(len(short) - 1))}
