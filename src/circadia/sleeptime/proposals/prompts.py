"""Builds prompts from rule files, with a fence around the data (SLEEP-50).

Conversation text never gets into the rules. A file is fixed, except for its gaps (the day, a limit, the wishes of the
bank's owner and of whoever began the pass), and for lines that begin with a word such as `{beliefs?}`, which are left
out of questions without that subject.

The data are mostly numbered lines: rows below their days, each with a short id that is valid in this prompt only.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache, lru_cache
from importlib import resources
from typing import Final

from circadia.characters import visible_text
from circadia.ids import EpisodeId
from circadia.llm.chat_model import Prompt
from circadia.memory.context import estimate_tokens
from circadia.memory.episodes import shown_name
from circadia.memory.redaction import redact
from circadia.memory.relative_dates import add_dates, local_time
from circadia.memory.search.passages import find_passages
from circadia.records.bank import Trust
from circadia.records.episode import Episode, count_passages, cut_episode, least_trust, merge_parts
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.proposals.operation import PageContext, RefusedText

FOLDER: Final = "prompts"
SHARED: Final = "data"
"""The shared rules: what the data is, that nothing in it is an instruction, and whose wishes count."""
LONGEST_WISH: Final = 1_000
"""Maximum characters of a person's wishes in the rules."""
_VERSION: Final = re.compile(r"\A# \w+, version (\d+)\n+")
_WHERE: Final = re.compile(r"(?m)^- \{(\w+)\?\} (.*\n?)")
_GAP: Final = re.compile(r"\{(\w+)\}")
LONGEST: Final = 800
"""Characters of an episode that stands in a prompt beside others."""
WHOLE: Final = 24_000
"""Characters of an episode that a prompt is about: a longer one is read by several prompts."""
LONGEST_NAME: Final = 60
CACHED_TEXTS: Final = 2_000
"""Cached lines: several prompts of a page show the same rows."""
_ROW_ID: Final = re.compile(r"[a-z]\d{1,5}")
_LABELLED_TRUST: Final = (Trust.TOOL, Trust.EXTERNAL)
"""Trust to state; a line without it is from somebody in the conversation."""


def build_prompt(operation: str, view: PageContext, data: str, *, about: Collection[str] = (), **limits: int) -> Prompt:
    """Return an operation's question; `about` names the optional subjects of the data, `limits` fill its rules."""
    return build_file_prompt(
        operation, data, mission=view.bank.policy.mission, today=view.now, instructions=view.instructions, about=about,
        **limits,
    )  # fmt: skip


def build_file_prompt(
    name: str, data: str, *, mission: str, today: date, instructions: str = "", about: Collection[str] = (),
    **limits: int,
) -> Prompt:  # fmt: skip
    """Return the question of a rule file about data: with the shared rules, the day, and the wishes.

    `mission` is the bank owner's, `instructions` are those of whoever began the pass.
    """
    wishes = {"mission": one_line(redact(mission)), "instructions": one_line(redact(instructions))[:LONGEST_WISH]}
    subjects = {*about, *(key for key, wish in wishes.items() if wish)}
    values = {**wishes, "today": f"{today:%Y-%m-%d}", **limits}
    rules = "\n\n".join(_prompt_text(file) for file in (name, SHARED))
    rules = _WHERE.sub(lambda rule: f"- {rule[2]}" if rule[1] in subjects else "", rules).strip()
    return Prompt(rules=_GAP.sub(lambda gap: str(values[gap[1]]), rules), data=add_fence(data))


def add_fence(text: str) -> str:
    """Return a text between marks that it cannot forge, since they contain its hash."""
    mark = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"<data {mark}>\n{text}\n</data {mark}>"


def prompt_version(name: str) -> int:
    match = _VERSION.match(_load_file(name))
    return int(match[1]) if match else 0


def _prompt_text(name: str) -> str:
    return _VERSION.sub("", _load_file(name)).strip()


@cache
def _load_file(name: str) -> str:
    return resources.files("circadia.sleeptime").joinpath(FOLDER, f"{name}.md").read_text("utf-8")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferencedRows:
    """The rows that an answer refers to, each once; of an episode only the passages that it refers to."""

    episodes: Sequence[Episode]
    notes: Sequence[Note]
    unknown_ids: Sequence[str]
    """Ids that are not in the prompt."""


class NumberedLines:
    """Lines with ids. Whatever a text contains, it stays in its line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._day = ""
        self._rows: dict[str, Episode | Note] = {}
        self._ids: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def add_heading(self, text: str) -> None:
        self._lines.append(f"## {_clean_line(text)}")
        self._day = ""

    def add_line(self, text: str) -> None:
        self._lines.append(_clean_line(text))

    def add_block(self, head: str, value: str, longest: int | None = None) -> None:
        self.add_heading(head)
        for line in (
            redact(visible_text(value))[:longest].split("\n") if value else ()
        ):  # a secret may have several lines
            self.add_line(f"| {line}")

    def add_episodes(self, rows: Iterable[Episode], *, longest: int = LONGEST) -> None:
        """Add lines for the episodes that are not there yet; with `WHOLE`, one for each passage."""
        for row in rows:
            if row.id not in self._ids:
                self._begin_day(local_time(row).date().isoformat())
                for part in list_parts(row) if longest == WHOLE else (row,):
                    self._lines.append(
                        f"{self._assign_id('e', part)} {speaker_label(part)}: {episode_line(part, longest)}"
                    )

    def add_notes(self, rows: Iterable[Note], *, evidence: Collection[EpisodeId] = ()) -> None:
        """Add lines for the notes that are not there yet, with the ids of those `evidence` rows that are."""
        for row in rows:
            if row.id not in self._ids:
                self._begin_day(row.at.date().isoformat())
                trust = f" ({row.trust})" if row.trust in _LABELLED_TRUST else ""
                rests = [self._ids[key] for key in row.evidence if key in evidence and key in self._ids]
                on = f" [{' '.join(rests)}]" if rests else ""
                key = self._assign_id("b" if row.kind is NoteKind.BELIEF else "n", row)
                self._lines.append(f"{key}{trust}{on} {_clean_note_text(row.text)}")

    def add_note_as(self, row: Note, text: str) -> str:
        """Add a note as it stands in a file, on several lines if it has them; return its id, one for each place."""
        key = self._assign_id("n", row)
        first, *others = redact(visible_text(text)).splitlines() or [""]
        self._lines += [f"{key} {first}", *(f"| {line}" for line in others)]
        return key

    def id_of(self, row: Episode | Note) -> str:
        """Return the id of a row's line; of several lines all, with spaces between them."""
        return self._ids[row.id]

    def resolve_ids(self, ids: Iterable[str]) -> ReferencedRows:
        rows: dict[str, Episode | Note] = {}
        unknown_ids: list[str] = []
        for row_id in ids:
            key = row_id.strip("[]() .,;:").lower()
            row = self._rows.get(key) if _ROW_ID.fullmatch(key) else None
            if row is None:
                unknown_ids.append(one_line(row_id)[:LONGEST_NAME])
            else:
                add_row(rows, row)
        return ReferencedRows(
            episodes=[row for row in rows.values() if isinstance(row, Episode)],
            notes=[row for row in rows.values() if isinstance(row, Note)],
            unknown_ids=list(dict.fromkeys(unknown_ids)),
        )

    def add_refusals(self, refused: Iterable[RefusedText]) -> None:
        """Add the texts of an earlier answer that were not kept, with the reasons."""
        lines = [f"{refusal.text} (refused: {refusal.reason})" for refusal in refused]
        if lines:
            self.add_heading("Refused")
            for line in lines:
                self.add_line(f"| {line}")

    def list_rows(self) -> Sequence[Episode | Note]:
        """Return all rows that are shown, in order; a passage is an episode with its part of the text."""
        return list(self._rows.values())

    def _begin_day(self, day: str) -> None:
        if day != self._day:
            self._lines.append(f"[{day}]")
            self._day = day

    def _assign_id(self, letter: str, row: Episode | Note) -> str:
        self._counts[letter] = self._counts.get(letter, 0) + 1
        key = f"{letter}{self._counts[letter]}"
        self._rows[key] = row
        self._ids[row.id] = f"{self._ids[row.id]} {key}" if row.id in self._ids else key
        return key


def add_row(rows: dict[str, Episode | Note], row: Episode | Note) -> None:
    """Add a row by its id; to a part of the same episode it adds its own."""
    other = rows.get(row.id)
    if isinstance(row, Episode) and isinstance(other, Episode):
        row = merge_parts(other, row)
    rows[row.id] = row


def list_parts(row: Episode) -> Sequence[Episode]:
    """Return an episode's passages as episodes with a part of the text, each with its own trust."""
    return [cut_episode(row, start, end, trust=trust) for start, end, _, trust in find_passages(row)] or [row]


@lru_cache(maxsize=1_000)
def _clean_line(text: str) -> str:
    """Return a text in one line without secrets; cached, since speakers and block lines recur."""
    return redact(one_line(text))


def speaker_label(row: Episode | Note) -> str:
    """Return the speaker in a form that cannot pass for anything else on a line; empty for a note."""
    if isinstance(row, Note):
        return ""
    visible_name = _clean_line(shown_name(row.speaker))
    name = " ".join("".join(letter for letter in visible_name if letter not in ":()[]<>#").split())[:LONGEST_NAME]
    trust = least_trust(row)
    return f"{name or 'somebody'} ({trust})" if trust in _LABELLED_TRUST else name or "somebody"


def episode_line(row: Episode, longest: int = LONGEST) -> str:
    """Return an episode in one line: without invisible characters and secrets, and with calendar dates."""
    text = _clean_episode_text(row.text, local_time(row).replace(tzinfo=None))
    return text if len(text) <= longest else f"{text[:longest]} […]"


@lru_cache(maxsize=CACHED_TEXTS)
def _clean_episode_text(text: str, at: datetime) -> str:
    return redact(add_dates(one_line(text), at))


@lru_cache(maxsize=CACHED_TEXTS)
def _clean_note_text(text: str) -> str:
    return one_line(redact(text))


def estimate_line_tokens(rows: Iterable[Episode]) -> int:
    """Return about how many tokens the whole lines of these take; dates and secrets hardly matter."""
    return sum(estimate_tokens(episode.text) + 6 * max(1, count_passages(episode)) for episode in rows)
