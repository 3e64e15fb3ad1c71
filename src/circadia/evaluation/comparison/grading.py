"""Check an answer against the key."""

import re
from typing import Final

MAX_EXTRA_WORDS: Final = 12
"""Words around a key that is not a number; more would be a list to choose from."""
_NUMBER: Final = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_TIME: Final = re.compile(r"\b(\d{1,2}):(\d\d)\b")
_WORD: Final = re.compile(r"[^\W_]+")


def matches_key(answer: str, key: str) -> bool:
    """Compare the last number or time in the answer with the key, or look for the key's words among few others."""
    if _TIME.fullmatch(key.strip()):
        return _last_time(answer) == _last_time(key)
    key_number = _last_number(key) if re.fullmatch(r"[\s$€£]*-?\d[\d,]*(?:\.\d+)?[\s%]*\.?", key) else None
    if key_number is not None:
        return _last_number(answer) == key_number
    answered, wanted_words = _WORD.findall(answer.casefold()), _WORD.findall(key.casefold())
    if not wanted_words:
        return answer.strip() == key.strip()
    within = any(answered[at : at + len(wanted_words)] == wanted_words for at in range(len(answered)))
    return within and len(answered) - len(wanted_words) <= MAX_EXTRA_WORDS


def _last_number(text: str) -> float | None:
    matches = _NUMBER.findall(text)
    return float(matches[-1].replace(",", "")) if matches else None


def _last_time(text: str) -> tuple[int, int] | None:
    matches = _TIME.findall(text)
    return (int(matches[-1][0]), int(matches[-1][1])) if matches else None
