"""Knows who said a text first, so that a model's or a tool's words are no person's where a program passes them on.

Frameworks with several agents hand what one of them said to the next one in a user's turn: an answer, an argument of a
call, a tool's result. In memory of this process: after a restart such a turn is a person's, as any other.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from hashlib import blake2b
from typing import Final, cast

import orjson

from circadia.clock import Clock
from circadia.latest import Latest
from circadia.records.bank import Trust
from circadia.records.per_call import per_call

SHORTEST: Final = 32
"""Characters of a text that is told by its words; a shorter one, two may say."""
WITHIN: Final = timedelta(hours=1)
"""How long a text is the word of who said it first."""
REMEMBERED: Final = 20_000
"""Texts that are remembered, about 300 bytes each."""
Among = tuple[str, str | None]
"""The session and the end user for whom something is said: what is said for one tells nothing of another."""


@per_call
class Voice:
    """Who says something."""

    speaker: str
    """Whose word it is."""
    trust: Trust
    """Where it comes from."""
    kept: tuple[str, str | None] | None = None
    """The bank, or template, and the end user for whom it is kept already; none if it is not."""


class Echoes:
    """Remembers who said what, by this process's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first: Latest[bytes, tuple[Voice, float]] = Latest(REMEMBERED)

    def note(self, among: Among, texts: Iterable[str], voice: Voice) -> None:
        """Remember who said these, but what somebody else has said a short time ago."""
        for text in texts:
            if len(text.strip()) >= SHORTEST and self.first(among, text) is None:
                self._first[_digest(among, text)] = (voice, self._clock.monotonic())

    def first(self, among: Among, text: str) -> Voice | None:
        """Return who said this first, within the last hour; none if nobody did, or it is too short to tell."""
        found = self._first.get(_digest(among, text))
        if found is None or self._clock.monotonic() - found[1] > WITHIN.total_seconds():
            return None
        return found[0]


def handed_over(call: str) -> Iterator[str]:
    """Yield the texts among the arguments of a tool's call, which is written as `name(arguments)`."""
    try:
        arguments: object = orjson.loads(call.partition("(")[2][:-1])
    except orjson.JSONDecodeError:
        return
    if isinstance(arguments, dict):
        yield from (each for each in cast("dict[str, object]", arguments).values() if isinstance(each, str))


def _digest(among: Among, text: str) -> bytes:
    return blake2b(repr((among, text.strip())).encode("utf-8", "replace"), digest_size=16).digest()
