"""What a later row says nothing new by: it only asks, or repeats a ready answer or its question word for word.

What was asked and answered becomes memory. If that voided the answer, each use would be its last.
"""

import re
import unicodedata
from typing import Final

from circadia.records.answer import Answer

QUESTION_MARKS: Final = ("?", "？", "؟")
_END: Final = re.compile(r"[.!?;؟]\s|[。！？；]|\n")


def states_nothing(text: str, answer: Answer) -> bool:
    """Return whether a text states nothing that the answer does not state."""
    return only_asks(text) or _plain(text) in {_plain(each) for each in (answer.text, *answer.phrasings)}


def only_asks(text: str) -> bool:
    """Return whether a text is one question, and nothing else."""
    return one_sentence(text) and text.rstrip().endswith(QUESTION_MARKS)


def one_sentence(text: str) -> bool:
    """Return whether a text is one sentence, with a mark at its end or without."""
    return not _END.search(text.strip()[:-1])


def _plain(text: str) -> str:
    """Return a text without case, white space beyond one blank, and a mark at its end."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip("?؟。.! ")
