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

from circadia.memory.languages import languages

MAX_DATES: Final = 200
"""Phrases of one language to read in a text."""
UNSPACED: Final = ("ja", "ko", "zh")
"""Languages that are recognized by their script, and written without spaces between words."""
_FOREIGN: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
"""Characters of their scripts."""
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NUMBER: Final = re.compile(r"\d+")
_RUN: Final = re.compile(r"[^\W\d_]+")


class Phrase(NamedTuple):
    match: re.Match[str]
    unit: str
    """`day`, `week`, `month`, `year`, or one of `WEEKDAYS`."""
    number: int
    """Distance in units from the day of the message."""


class _Language(NamedTuple):
    code: str
    pattern: re.Pattern[str]
    meanings: Mapping[str, tuple[str, int]]
    runs: frozenset[str]
    """The longest run of letters of each phrase, in lower case: a text without any of them has no phrase."""


def find_phrases(text: str) -> Iterator[Phrase]:
    unspaced = _FOREIGN.search(text) is not None
    runs = frozenset(_RUN.findall(text.lower()))
    for language in _load_languages():
        if not unspaced if language.code in UNSPACED else language.runs.isdisjoint(runs):
            continue
        for match in islice(language.pattern.finditer(text), MAX_DATES):
            meaning = language.meanings.get(_key(_NUMBER.sub("{0}", match[0])))
            counted = _NUMBER.search(match[0])
            if meaning is not None and (
                " " in match[0] or language.code in (UNSPACED if unspaced else languages(text))
            ):
                yield Phrase(match, meaning[0], -int(counted[0]) if counted else meaning[1])


@cache
def _load_languages() -> Sequence[_Language]:
    return [_build_language(code, rows) for code, rows in _load_rows().items() if code != "source"]


def _build_language(code: str, rows: Sequence[tuple[str, int, str]]) -> _Language:
    wordings = sorted((row[2] for row in rows), key=len, reverse=True)  # longest first, since some begin alike
    space, edge = (r"\s?", "") if code in UNSPACED else (r"\s+", r"\b")
    parts = (re.escape(wording).replace(r"\ ", space).replace(r"\{0\}", r"(?<![\d–~-])\d{1,3}") for wording in wordings)
    return _Language(
        code,
        re.compile(f"{edge}(?:{'|'.join(parts)}){edge}", re.IGNORECASE),
        {_key(wording): (unit, number) for unit, number, wording in rows},
        frozenset(max(_RUN.findall(wording.lower()), key=len) for wording in wordings),
    )


@cache
def _load_rows() -> dict[str, Any]:
    return orjson.loads(resources.files("circadia.memory").joinpath("date_phrases.json").read_bytes())


def _key(wording: str) -> str:
    return "".join(wording.lower().split())
