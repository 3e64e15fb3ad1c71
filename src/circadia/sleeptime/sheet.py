"""What a model is shown of a step: lines below their days, each under a short id that means something here only."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

from circadia.ids import EpisodeId
from circadia.memory.context import tokens
from circadia.memory.episodes import shown_name
from circadia.memory.redaction import redacted
from circadia.memory.terms import asked_terms
from circadia.records.bank import Trust
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.dates import dated, local
from circadia.sleeptime.wording import one_line
from circadia.visibility import visible_text

LONGEST: Final = 800
"""Characters of an episode that a model reads; what is longer is mostly pasted."""
LONGEST_NAME: Final = 60
REMEMBERED: Final = 2_000
"""Texts that are remembered as a sheet has them: several sheets of a page show the same rows."""
_NAMED: Final = re.compile(r"[a-z]\d{1,5}")
_MARKED: Final = (Trust.TOOL, Trust.EXTERNAL)
"""The trust that is told; a line without it is of somebody in the conversation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """What the ids of an answer stand for."""

    episodes: Sequence[Episode]
    """Episodes, each once."""
    notes: Sequence[Note]
    """Notes, each once."""
    strangers: Sequence[str]
    """Ids that stand for nothing on the sheet."""


class Sheet:
    """Lines with ids. Whatever a text holds, it stays in its line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._day = ""
        self._rows: dict[str, Episode | Note] = {}
        self._ids: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    @property
    def text(self) -> str:
        """Return all lines."""
        return "\n".join(self._lines)

    def head(self, text: str) -> None:
        """Begin a part."""
        self._lines.append(f"## {_shown(text)}")
        self._day = ""

    def line(self, text: str) -> None:
        """Add a line that is no row."""
        self._lines.append(_shown(text))

    def block(self, head: str, value: str, longest: int | None = None) -> None:
        """Begin a part with the lines of a block."""
        self.head(head)
        for line in (
            redacted(visible_text(value))[:longest].split("\n") if value else ()
        ):  # a secret may have several lines
            self.line(f"| {line}")

    def episodes(self, rows: Iterable[Episode], *, longest: int = LONGEST) -> None:
        """Add lines of what was said, but of what is there already."""
        for row in rows:
            if row.id not in self._ids:
                self._under(local(row).date().isoformat())
                self._lines.append(f"{self._id('e', row)} {who(row)}: {said(row, longest)}")

    def notes(self, rows: Iterable[Note], *, evidence: Collection[EpisodeId] = ()) -> None:
        """Add lines of notes, but of those that are there already; with the ids of `evidence` that is on the sheet."""
        for row in rows:
            if row.id not in self._ids:
                self._under(row.at.date().isoformat())
                trust = f" ({row.trust})" if row.trust in _MARKED else ""
                rests = [self._ids[each] for each in row.evidence if each in evidence and each in self._ids]
                on = f" [{' '.join(rests)}]" if rests else ""
                key = self._id("b" if row.kind is NoteKind.BELIEF else "n", row)
                self._lines.append(f"{key}{trust}{on} {_noted(row.text)}")

    def id_of(self, row: Episode | Note) -> str:
        """Return the id of a row that is on the sheet."""
        return self._ids[row.id]

    def named(self, ids: Iterable[str]) -> Named:
        """Return what ids stand for."""
        rows: dict[str, Episode | Note] = {}
        strangers: list[str] = []
        for given in ids:
            key = given.strip("[]() .,;:").lower()
            row = self._rows.get(key) if _NAMED.fullmatch(key) else None
            if row is None:
                strangers.append(one_line(given)[:LONGEST_NAME])
            else:
                rows[row.id] = row
        return Named(
            episodes=[each for each in rows.values() if isinstance(each, Episode)],
            notes=[each for each in rows.values() if isinstance(each, Note)],
            strangers=list(dict.fromkeys(strangers)),
        )

    def behind(self, text: str, named: Named) -> Named:
        """Return what an answer's text rests on: what it names, and what nobody in the conversation said of its words.

        So a text that comes from a tool or from outside is trusted no more because it names somebody else.
        """
        sources = [*named.episodes, *named.notes]
        others = [row for row in self._rows.values() if row.trust in _MARKED and row not in sources]
        if not others:
            return named
        loose = set(asked_terms(text)).difference(*(asked_terms(f"{who(row)} {row.text}") for row in sources))
        more = [row for row in others if not loose.isdisjoint(asked_terms(row.text))]
        return Named(
            episodes=[*named.episodes, *(each for each in more if isinstance(each, Episode))],
            notes=[*named.notes, *(each for each in more if isinstance(each, Note))],
            strangers=named.strangers,
        )

    def _under(self, day: str) -> None:
        if day != self._day:
            self._lines.append(f"[{day}]")
            self._day = day

    def _id(self, letter: str, row: Episode | Note) -> str:
        self._counts[letter] = self._counts.get(letter, 0) + 1
        key = f"{letter}{self._counts[letter]}"
        self._rows[key], self._ids[row.id] = row, key
        return key


@lru_cache(maxsize=1_000)
def _shown(text: str) -> str:
    """Return a text in one line, without secrets; speakers and lines of blocks are shown again and again."""
    return redacted(one_line(text))


def who(row: Episode | Note) -> str:
    """Return who said it, in a form that cannot pass for anything else on a line; nobody in particular for a note."""
    if isinstance(row, Note):
        return ""
    shown = _shown(shown_name(row.speaker))
    name = " ".join("".join(each for each in shown if each not in ":()[]<>#").split())[:LONGEST_NAME]
    return f"{name or 'somebody'} ({row.trust})" if row.trust in _MARKED else name or "somebody"


def said(row: Episode, longest: int = LONGEST) -> str:
    """Return what was said in one line: without what nobody sees and without secrets, with days told as dates."""
    text = _said(row.text, local(row).replace(tzinfo=None))
    return text if len(text) <= longest else f"{text[:longest]} […]"


@lru_cache(maxsize=REMEMBERED)
def _said(text: str, at: datetime) -> str:
    return redacted(dated(one_line(text), at))


@lru_cache(maxsize=REMEMBERED)
def _noted(text: str) -> str:
    return one_line(redacted(text))


def size(rows: Iterable[Episode]) -> int:
    """Return about how many tokens the lines of these take; dates and secrets change little of that."""
    return sum(tokens(each.text[:LONGEST]) + 6 for each in rows)
