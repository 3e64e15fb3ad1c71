"""Whether an answer is the key."""

import re
from typing import Final

MAX_EXTRA_WORDS: Final = 12
"""Words that an answer may have around a key that is no number; more would be a list to choose from."""
_NUMBER: Final = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_TIME: Final = re.compile(r"\b(\d{1,2}):(\d\d)\b")
_WORD: Final = re.compile(r"[^\W_]+")


def matches_key(answer: str, key: str) -> bool:
    """Return whether it is: the last number or time of day that it names, or the same words among few others."""
    if _TIME.fullmatch(key.strip()):
        return _last_time(answer) == _last_time(key)
    wanted = _last_number(key) if re.fullmatch(r"[\s$€£]*-?\d[\d,]*(?:\.\d+)?[\s%]*\.?", key) else None
    if wanted is not None:
        return _last_number(answer) == wanted
    said, meant = _WORD.findall(answer.casefold()), _WORD.findall(key.casefold())
    if not meant:
        return answer.strip() == key.strip()
    within = any(said[at : at + len(meant)] == meant for at in range(len(said)))
    return within and len(said) - len(meant) <= MAX_EXTRA_WORDS


def _last_number(text: str) -> float | None:
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def _last_time(text: str) -> tuple[int, int] | None:
    found = _TIME.findall(text)
    return (int(found[-1][0]), int(found[-1][1])) if found else None
