"""Whether a sentence tells of what was or of what is to come, by its words alone."""

import re
from enum import Enum
from typing import Final


class Tense(Enum):
    """When something is, seen from when it was said."""

    PAST = "past"
    """Before."""
    FUTURE = "future"
    """After."""


LONGEST: Final = 300
"""Characters of a sentence that are looked at, on either side of a place."""
_END: Final = re.compile(r"(?<![.!?;\n])[.!?;\n]++(?=\s|$)|\n")
_IRREGULAR: Final = (
    "was|were|had|did|didn['’]t|wasn['’]t|weren['’]t|went|saw|got|made|took|came|met|bought|found|told|said|gave|left|lost|"
    "won|felt|ate|ran|began|broke|brought|built|caught|chose|drank|drove|fell|flew|forgot|fought|grew|heard|held|hurt|"
    "kept|knew|led|lent|paid|rode|rang|sang|sold|sent|shot|slept|spent|spoke|stole|stood|swam|taught|thought|threw|woke|"
    "wore|wrote"
)
_NO_VERBS: Final = "bed embed exceed feed hundred indeed need proceed red seed speed succeed weed"
_NOT_PAST: Final = frozenset(_NO_VERBS.split())
_FORMS: Final = """
a an am are be been being get getting got had has have he's her his i'm i've is it's more my our really she's so that
that's the their they're they've this to too very was we're we've were you're you've your
"""
_AFTER_THESE: Final = frozenset(_FORMS.split())
"""After one of these a word in `-ed` is no verb that tells of the past by itself."""
_PAST: Final = re.compile(rf"\b(?:{_IRREGULAR})\b")
"""Like the next three it is looked for in small letters: a pattern that ignores case takes four times as long."""
_ED: Final = re.compile(r"(?:\b([\w'’]{1,40}) )?\b(\w{2,40}ed)\b")
_ENDS_IN_ED: Final = re.compile(r"ed\b")
_PERFECT: Final = re.compile(r"(?:\b(?:have|has|had)|['’](?:ve|s|d)) (?:\w+ly |just |already |never )?(\w+)\b")
_FUTURE: Final = re.compile(
    r"\b(?:will|won['’]t|shall|gonna|going to|see you|due|deadline|expires?|let['’]s)\b"
    r"|\b(?:(?:I|we|you|they) have|(?:he|she) has)\b"
    r"|['’]ll\b|['’]ve got\b"
    r"|\b(?:am|is|are)\b|['’](?:m|re)\b|\b(?:he|she|it|that)['’]s \w+ing\b",
    re.I,
)


_DOING: Final = re.compile(r"(?:\b(?:am|is|are)|['’](?:m|re|s)) (?:not |just |still )?\w+ing\b", re.I)


def tense(text: str, at: int) -> Tense | None:
    """Return the tense of the sentence around a place of a text; none if nothing or both is said."""
    start = max(at - LONGEST, 0)
    text, at = text[start : at + LONGEST], at - start
    first, last = 0, len(text)
    for end in _END.finditer(text):
        if end.end() <= at:
            first = end.end()
        elif end.start() > at:
            last = end.start()
            break
    sentence = text[first:last]
    past, future = _past(sentence), _FUTURE.search(sentence) is not None
    if past == future:
        return None
    return Tense.PAST if past else Tense.FUTURE


def _past(sentence: str) -> bool:
    small = sentence.lower()
    perfect = {match.start(1) for match in _PERFECT.finditer(small)}
    if any(match.start() not in perfect for match in _PAST.finditer(small)):
        return True
    return _ENDS_IN_ED.search(small) is not None and any(  # or there is no such word
        word[2] not in _NOT_PAST and (word[1] or "").replace("’", "'") not in _AFTER_THESE
        for word in _ED.finditer(small)
    )


def happened(text: str) -> bool:
    """Return whether any sentence of a text tells of what was, or of what somebody is doing."""
    return _past(text) or _DOING.search(text) is not None
