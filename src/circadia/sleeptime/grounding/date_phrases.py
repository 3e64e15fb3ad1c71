"""Wordings that tell a date from the day of a message, such as `nächste Woche` or `来週`, in the languages of a text.

A short text may look like another language than its own, so wordings of several words are looked for in all: those of
one word, such as Finnish `eilen`, may be any word elsewhere.

They are those of Unicode's CLDR, in `date_phrases.json`; `tests/sleeptime/cldr_phrases.py` makes it.
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
"""Wordings of one language in a text that are looked at."""
UNSPACED: Final = ("ja", "ko", "zh")
"""Languages that their letters tell, and in which other words stand beside a wording without a space."""
_FOREIGN: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
"""Their letters."""
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Units that are days of the week."""
_NUMBER: Final = re.compile(r"\d+")


class Phrase(NamedTuple):
    """A wording in a text."""

    match: re.Match[str]
    unit: str
    """`day`, `week`, `month`, `year`, or one of `WEEKDAYS`."""
    number: int
    """How many of them it is from the day of the message."""


class _Language(NamedTuple):
    pattern: re.Pattern[str]
    meanings: Mapping[str, tuple[str, int]]
    needles: Sequence[str]
    """Parts of the wordings of several words, small: without one of them there is none."""


def find_phrases(text: str) -> Iterator[Phrase]:
    """Yield the wordings in a text that its languages have for dates."""
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
    wordings = sorted((row[2] for row in rows), key=len, reverse=True)  # the longest of those that begin alike
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
