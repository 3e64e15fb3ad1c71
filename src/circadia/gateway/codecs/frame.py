"""The frame digest: everything an answer depends on except the conversation and volatile spans of the prompt."""

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, cast

import orjson

from circadia.gateway.payload import hash_chain
from circadia.settings.answers import compile_pattern

_MARK: Final = "\0"
_KEPT: Final = 64
"""Number of system prompts cached without volatile spans; each has about 10 KB."""
_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")


def digest(*parts: object) -> str:
    """Return a digest that ignores the order of keys. Raises orjson.JSONEncodeError if nested too deeply."""
    return blake2b(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def without_cache_marks(value: object) -> object:
    """Return an item or tool without its cache marks, which move as a conversation grows."""
    if not isinstance(value, dict):
        return value
    return {key: field for key, field in cast("dict[str, object]", value).items() if key not in _MARKS}


class VolatileSpans:
    """Removes spans of a system prompt that may change without a new frame (`AnswersSettings.volatile`).

    The built-in patterns take a bounded number of steps per character, so a prompt takes linear time.
    """

    def __init__(self, spans: Sequence[str] = ()) -> None:
        # Operator patterns come first: they are written for the original text, and a date may contain a time or an id.
        self._declared = [compile_pattern(span) for span in spans if span not in _KINDS]
        self._kinds = [pattern for kind, pattern in _KINDS.items() if kind in spans]
        self._kept = lru_cache(maxsize=_KEPT)(self._remove_spans)

    def content(self, content: object) -> object:
        """Return the normal form of an operator's content, without volatile spans."""
        normal = hash_chain.normalize_content(content)
        if not (self._declared or self._kinds):
            return normal
        if isinstance(normal, str):
            return self._kept(normal)
        if isinstance(normal, list):
            parts = cast("list[object]", normal)
            return [self._kept(part) if isinstance(part, str) else part for part in parts]
        return normal

    def _remove_spans(self, text: str) -> str:
        for pattern in self._declared:
            text = pattern.sub(_MARK, text)
        pieces: list[str] = []
        at = 0
        for near in _NUMBERS.finditer(text) if self._kinds else ():
            start, end = max(near.start() - _AROUND, 0), near.end() + _AROUND
            span = text[start:end]
            for pattern in self._kinds:
                span = pattern.sub(_MARK, span)
            pieces += (text[at:start], span)
            at = end
        return "".join((*pieces, text[at:]))


_AROUND: Final = 40
"""Characters around a digit that are searched: every built-in kind contains digits."""
_NUMBERS: Final = re.compile(rf"[0-9](?:[^0-9]{{0,{2 * _AROUND}}}+[0-9])*+")
"""Runs of digits whose surroundings overlap."""
_IDS = r"""
    (?<![0-9A-Za-z])
    (?: [0-9a-fA-F]{8} - (?:[0-9a-fA-F]{4}-){3} [0-9a-fA-F]{12} | (?:0x)? [0-9a-fA-F]{16,}+ )
    (?![0-9A-Za-z])
"""
_HALF = r"[ ]? (?: [ap]m | [ap]\.m\.? | [AP]M | [AP]\.M\.? ) (?![A-Za-z])"
_TIMES = rf"""
    (?: (?<=\d)T | (?<![0-9A-Za-z:.]) )
    (?: (?:2[0-4]|[01]?\d) : [0-5]\d (?: :[0-6]\d (?:[.,]\d{{1,9}})? )? (?:{_HALF})?
      | (?:1[0-2]|0?[1-9]) (?:{_HALF} | [ ]?o['’]clock)
      | (?<=\dT) \d{{4}} (?:\d\d)? (?:[.,]\d{{1,9}})? )
    (?: [ ]? (?: Z | UTC | GMT | [ECMP][SD]?T | CES?T | BST | IST | JST ) (?![A-Za-z]) )?
    (?: [ ]? [+-]\d\d:?\d\d )?
    (?![0-9A-Za-z:])
"""
_MONTH = (
    "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_WEEKDAY = "(?:Mon|Tue(?:s)?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_DAY = "(?:[12][0-9]|3[01]|0?[1-9])(?:st|nd|rd|th)?(?![0-9])"
_YEAR = "(?:19|20)[0-9]{2}"
_DATES = rf"""
    (?<![0-9A-Za-z./-])
    (?: {_WEEKDAY} [.,]? [ ] (?:the[ ])? )?
    (?: {_YEAR} (?: (?P<sign>[-/.])\d{{1,2}}(?P=sign)\d{{1,2}} | -W\d\d(?:-[1-7])? )
      | {_YEAR} \d{{4}} (?= T\d | {_MARK} )
      | \d{{1,2}} (?P<mark>[-/.]) \d{{1,2}} (?P=mark) {_YEAR}
      | \d{{1,2}} / \d{{1,2}} / \d\d
      | {_DAY} (?:[ ]of)? [ -] {_MONTH} (?: ,?[ -] {_YEAR} )?
      | {_MONTH} [ ]{{1,2}} {_DAY} (?: (?:,|[ ]{_MARK})? [ ]? {_YEAR} )?
      | {_MONTH} ,?[ ] {_YEAR} )
    (?: (?=T\d) | (?![0-9A-Za-z]|[-/.]\d) )
    (?: [ ,(]{{1,2}} {_WEEKDAY} \b \)? )?
"""
_KINDS: Final = {
    "ids": re.compile(_IDS, re.VERBOSE),
    "times": re.compile(_TIMES, re.VERBOSE),
    "dates": re.compile(_DATES, re.VERBOSE),
}
"""In the order of removal."""
