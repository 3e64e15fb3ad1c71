"""The frame of a call: all that an answer depends on beside what was said, as a digest."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_MARK: Final = "\0"
_KEPT: Final = 64
"""System prompts whose form without volatile spans is remembered; they are some 10 KB each."""


class Volatile:
    """Takes what may change without a new frame out of a system prompt (`AnswersSettings.volatile`)."""

    def __init__(self, spans: Sequence[str] = ()) -> None:
        self._patterns = [_KINDS[span] if span in _KINDS else re.compile(span[1:-1]) for span in spans]
        self.without = lru_cache(maxsize=_KEPT)(self._without) if spans else str
        """Returns a text without such spans."""

    def _without(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(_MARK, text)
        return text


_KINDS: Final[dict[str, re.Pattern[str]]] = {}
