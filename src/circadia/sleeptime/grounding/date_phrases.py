"""Phrases for a date relative to the day of a message, such as `nächste Woche` or `来週`, in the languages of a text.

The language of a short text may be misdetected, so phrases of several words are searched in all languages. A phrase of
one word, such as Finnish `eilen`, may be any word in another.

The phrases come from Unicode's CLDR, in `date_phrases.json`; `tests/sleeptime/cldr_phrases.py` writes it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson

from circadia.memory.search.languages import languages

MOST: Final = 200
"""Phrases of one language to read in a text."""
UNSPACED: Final = ("ja", "ko", "zh")
"""Languages that are recognized by their script, and written without spaces between words."""
_FOREIGN: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
"""Characters of their scripts."""
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NUMBER: Final = re.compile(r"\d+")


class Phrase(NamedTuple):
    match: re.Match[str]
    unit: str
    """`day`, `week`, `month`, `year`, or one of `WEEKDAYS`."""
    number: int
    """Distance in units from the day of the message."""


class _Language(NamedTuple):
    pattern: re.Pattern[str]
    meanings: Mapping[str, tuple[str, int]]
    needles: Sequence[str]
    """Lowercase parts of the phrases of several words: a text without any of them has no such phrase."""


def find_phrases(text: str) -> Iterator[Phrase]:
    likely = UNSPACED if _FOREIGN.search(text) else languages(text)
    small = text.lower()
    for code in _language_codes():
        language = _load_language(code)
        if code not in likely and not any(map(small.__contains__, language.needles)):
            continue
        for match in islice(language.pattern.finditer(text), MOST):
            meaning = language.meanings.get(_key(_NUMBER.sub("{0}", match[0])))
            counted = _NUMBER.search(match[0])
            if meaning is not None and (code in likely or " " in match[0]):
                yield Phrase(match, meaning[0], -int(counted[0]) if counted else meaning[1])


@cache
def _language_codes() -> Sequence[str]:
    return [code for code in _load_rows() if code != "source"]


@cache
def _load_language(code: str) -> _Language:
    rows = _load_rows()[code]
    wordings = sorted((row[2] for row in rows), key=len, reverse=True)  # longest first, since some begin alike
    space, edge = (r"\s?", "") if code in UNSPACED else (r"\s+", r"\b")
    parts = (re.escape(each).replace(r"\ ", space).replace(r"\{0\}", r"(?<![\d–~-])\d{1,3}") for each in wordings)
    return _Language(
        re.compile(f"{edge}(?:{'|'.join(parts)}){edge}", re.IGNORECASE),
        {_key(wording): (unit, number) for unit, number, wording in rows},
        [max(each.lower().split("{0}"), key=len) for each in wordings if " " in each and code not in UNSPACED],
    )


@cache
def _load_rows() -> dict[str, Any]:
    return orjson.loads(resources.files("circadia.sleeptime").joinpath("date_phrases.json").read_bytes())


def _key(wording: str) -> str:
    return "".join(wording.lower().split())
