"""Suggest existing names for one that does not exist, at a bounded cost."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

MAX_NAMES: Final = 256
"""Maximum number of names to choose from; database lookups return fewer."""
MAX_CHARACTERS: Final = 64
"""Maximum length of a compared name."""
MIN_SIMILARITY: Final = 0.45
"""Minimum share of common letters and letter pairs (the Sørensen-Dice coefficient)."""
_MAX_LISTED: Final = 8


def closest(name: str, known: Iterable[str], *, count: int = 3, likeness: float = MIN_SIMILARITY) -> list[str]:
    """Return up to `count` of the known names that resemble `name`, the best match first.

    A comparison takes up to 13 µs; the caller bounds the number of names.
    """
    wanted_parts = _parts(name)
    scored: list[tuple[float, str]] = []
    for other in known:
        parts = _parts(other)
        score = 2 * len(wanted_parts & parts) / max(1, len(wanted_parts) + len(parts))
        if score >= likeness:
            scored.append((-score, other))
    return [other for _, other in sorted(scored)[:count]]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: similar names, or all names if there are few, or nothing."""
    names = sorted(set(islice(known, MAX_NAMES)))
    short = name[:MAX_CHARACTERS]
    close = closest(name, names) or [other for other in names if len(short) > 2 and short in other][:5]
    if close:
        return f"; did you mean {', '.join(map(repr, close))}?"
    return f"; there are {', '.join(map(repr, names))}" if 0 < len(names) <= _MAX_LISTED else ""


def _parts(name: str) -> set[str]:
    """Return the letters and adjacent letter pairs of a name."""
    short = name[:MAX_CHARACTERS].casefold()
    return {*short, *(short[at : at + 2] for at in range(len(short) - 1))}
