"""Sentences with gaps, which can be filled with values and parsed back."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

NUMBERS: Final = frozenset(("count", "price", "amount", "minutes", "platform", "late", "age", "days", "answer_number"))
"""Gaps for whole numbers."""
TIMES: Final = frozenset(("time", "answer_time"))
"""Gaps for times of day."""
_GAP: Final = re.compile(r"\{(\w+)\}")
_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")


class SentenceTemplate:
    """One sentence with gaps, such as `The train to {town} leaves at {time}`."""

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.gaps: Final = tuple(_GAP.findall(text))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = _GAP.split(self.text.rstrip(".?"))
        return re.compile(
            "".join(_gap_pattern(part) if at % 2 else re.escape(part) for at, part in enumerate(parts)), re.I
        )

    def fill_gaps(self, values: Mapping[str, object]) -> str:
        return self.text.format_map(values)

    def parse_sentence(self, sentence: str) -> Mapping[str, str] | None:
        """Return the values in the gaps; None if the sentence does not match."""
        match = self._pattern.fullmatch(sentence.strip().rstrip(".?!"))
        return None if match is None else match.groupdict()


def _gap_pattern(gap: str) -> str:
    if gap in NUMBERS:
        return rf"(?P<{gap}>\d+)"
    return rf"(?P<{gap}>\d\d:\d\d)" if gap in TIMES else rf"(?P<{gap}>[a-z]+)"


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, without list marks."""
    return (sentence for part in _END.split(text) if (sentence := part.strip().lstrip("-*• ")))
