"""Rethink: brings the blocks up to date for the next call (SLEEP-27).

It sees the new notes, and for each line of a block the notes nearest to it, whatever their trust. Blocks are part of
the system prompt: the text of an edit rests on notes of persons and agents alone. What only a tool's or an outside note
contradicts waits for a person, and so does what replaces a person's own words, unless a note states what was before.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Final, cast

from pydantic import BaseModel, Field

from circadia.ids import EpisodeId, NoteId
from circadia.memory.context import estimate_tokens
from circadia.memory.relative_dates import add_dates_from_sources
from circadia.memory.search.terms import question_terms
from circadia.records.bank import Trust
from circadia.records.block import Block
from circadia.records.change import Change, ChangeKind
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.change_rules import FinalRefusal
from circadia.sleeptime.grounding.figures import find_calendar_dates
from circadia.sleeptime.grounding.source_check import find_context
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.block_edits import EDIT, apply_edit, edit_key, new_block, propose_edit
from circadia.sleeptime.proposals.changes import block_of
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, RefusedText, Step
from circadia.sleeptime.proposals.prompts import NumberedLines, ReferencedRows, build_prompt
from circadia.sleeptime.proposals.similarity import RelatedIndex

MAX_RETHINKS: Final = 10
"""SLEEP-27: maximum edits of a pass."""
LABEL: Final = "learned"
"""The block to create if there is none."""
MAX_NOTES: Final = 30
"""Newest notes to show; beliefs before all others."""
NEAREST: Final = 2
"""Notes to show for each line of a block."""
NEARLY_FULL: Final = 0.2
"""Share of a block's limit below which room is scarce (SLEEP-85)."""
MIN_KEPT: Final = 0.5
"""Share of a block's limit that stays when lines move out."""
TALK: Final = frozenset({Trust.PERSON, Trust.AGENT})
"""Trust of the notes that may get into blocks."""


class BlockEdit(BaseModel):
    label: str = Field(max_length=100)
    old_text: str | None = Field(default=None, max_length=2_000)
    new_text: str = Field(max_length=1_000)
    ids: list[str] = Field(max_length=10)
    also: list[str] = Field(default_factory=list[str], max_length=10)
    """Other lines of the block that the new text says, too."""
    moved: bool = False
    """Whether the old text leaves a block that is nearly full, though it holds: its notes say it on."""


class RethinkAnswer(BaseModel):
    edits: list[BlockEdit] = Field(max_length=MAX_RETHINKS)


class Rethink:
    name = "rethink"
    asks = True

    def __init__(self, *, max_rethinks: int = MAX_RETHINKS, label: str = LABEL) -> None:
        self._max_rethinks = max_rethinks
        self._label = label

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return one step if there are notes that the blocks do not reflect, or lines of a day that is over."""
        blocks = self._writable(view)
        if not blocks or not self._max_rethinks:
            return []
        new = _select_new_notes(view, blocks)
        lines = [line for block in blocks for line in block.value.split("\n") if line.strip()]
        over = [line for line in lines if _is_over(line, view.now.date())]
        if not new and not over and not view.edited:
            return []
        undecided = _select_notes_of(view, _list_flags(view))
        notes = list({note.id: note for note in (*new, *undecided, *_select_near_notes(view, lines))}.values())
        size = (
            sum(estimate_tokens(note.text) + 6 for note in notes)
            + sum(estimate_tokens(block.value) + 20 for block in blocks)
            + 500
        )
        about = f"{len(view.edited)} edited blocks" if view.edited else f"{len(new)} new notes"
        data: dict[str, object] = {"new": frozenset(note.id for note in new)}
        return [Step(name=about, notes=sorted(notes, key=lambda note: (note.at, note.id)), tokens=size, data=data)]

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return a change for each edit of the model's."""
        blocks = {block.label: block for block in self._writable(view)}
        refused = cast("Sequence[RefusedText]", step.data.get("refused", ()))
        undecided = [str((change.after or {}).get("text", "")) for change in _list_flags(view)]
        lines = _build_lines(view, list(blocks.values()), step, undecided, refused)
        full = any(_is_nearly_full(block) for block in blocks.values())
        subjects = {"edited": view.edited, "refused": refused, "full": full, "undecided": undecided}
        about = [name for name, holds in subjects.items() if holds]
        question = build_prompt(self.name, view, lines.text, about=about, edits=self._max_rethinks)
        answer = await ask(question, RethinkAnswer, most_tokens=200 + 120 * self._max_rethinks)
        changes: list[Change] = []
        for edit in answer.edits[: self._max_rethinks]:
            change = await self._build_change(view, lines, blocks, edit)
            if change is None:
                continue
            changes.append(change)
            after = change.after or {}
            if edit.label in blocks and not after.get("refused") and not after.get("waits"):
                made = cast("Mapping[str, Any]", after[EDIT])
                edited = apply_edit(blocks[edit.label], made["old"], made["new"], made["ids"], made["also"])
                blocks[edit.label] = edited or blocks[edit.label]  # what it frees is room for the edits that follow
        return changes

    async def _build_change(
        self, view: PageContext, sheet: NumberedLines, blocks: dict[str, Block], edit: BlockEdit
    ) -> Change | None:
        """Return the change that an edit makes, or that has it on record; None if nothing would change."""
        named = sheet.resolve_ids(edit.ids)
        block = blocks.get(edit.label) or block_of(view, edit.label) or new_block(view, edit.label[:100])
        dated_notes = [(note.text, note.at) for note in named.notes]
        new = "\n".join(
            add_dates_from_sources(line, dated_notes) for part in edit.new_text.split("\n") if (line := one_line(part))
        )
        old = _find_shown(block.value, edit.old_text or "")
        if old == new:  # a small model repeats the new text as the old one
            old = ""
        if not old and new in block.value:
            return None
        if old and new and new in block.value.replace(old, "").split("\n"):
            read = block_of(view, edit.label)
            if read is None or new not in read.value.split("\n"):  # another edit writes it, which may be refused
                return None
            new = ""  # it stands on a line of its own already
        if (block.label, old, new) in map(edit_key, view.proposed):  # of an earlier page, or of the first try
            return None
        by_talk = [note for note in named.notes if note.trust in TALK]
        ids = {key for note in by_talk or named.notes for key in note.evidence}
        also = [line for line in dict.fromkeys(edit.also) if line and line != old] if new else []
        moved = edit.moved and bool(old) and not new
        if also or moved or (not new and not named.notes):  # lines that are joined or taken out rest on themselves
            ids |= {key for line in (old, *also) if line for key in _evidence_of(block, line)}
        rows = list((await view.look.fetch_episodes(ids)).values())
        others = [row for row in sheet.list_rows() if row not in by_talk]
        from_outside, context = find_context(new, rows, others)
        if by_talk:  # what waits for a person rests on what it says of tools and outside texts, too
            ids |= {key for row in from_outside for key in (row.evidence if isinstance(row, Note) else (row.id,))}
        may_replace = all(_may_replace(view, block, line, new, named.notes) for line in (old, *also) if line)
        return propose_edit(
            view, self.name, block, old, new, sorted(ids), also=also, moved=moved, context=context,
            waits=bool(from_outside) or (bool(named.notes) and not (by_talk and may_replace)),
            why=f"as {', '.join(sorted(view.edited))} says now" if view.edited else "what new notes say",
            refused=("an edit rests on notes, not on lines of a conversation" if named.episodes else "")
            or (_moving_reason(view, block, old) if moved else "")
            or _refusal_reason(view, blocks, edit.label, old, new, named, on_itself=bool(also) or moved)
            or ("" if may_replace or named.notes else "only a note replaces what a person wrote"),
        )  # fmt: skip

    def _writable(self, view: PageContext) -> Sequence[Block]:
        """Return the blocks that a pass may write, or a new one if there is none."""
        writable = [block for block in view.blocks if not block.read_only]
        if writable or any(block.label == self._label for block in view.blocks):
            return writable
        return [new_block(view, self._label)]


def _refusal_reason(
    view: PageContext, blocks: dict[str, Block], label: str, old: str, new: str, named: ReferencedRows, *,
    on_itself: bool,
) -> str:  # fmt: skip
    if label not in blocks:
        return f"there is no block {label[:40]!r} to edit"
    if named.unknown_ids:
        return f"{', '.join(named.unknown_ids)[:60]} is no note that was shown"
    if not named.notes and not on_itself and (new or not _is_over(old, view.now.date())):
        return "it names no note that it rests on"
    return ""


def _find_shown(value: str, shown: str) -> str:
    """Return the part of a block that a model was shown so, each white space as one blank; empty if there is none."""
    words = shown.split()
    found = re.search(r"\s+".join(map(re.escape, words)), value) if words and shown not in value else None
    return found[0] if found else shown if shown in value else ""


def _is_nearly_full(block: Block) -> bool:
    return block.limit - len(block.value) < NEARLY_FULL * block.limit


def _moving_reason(view: PageContext, block: Block, line: str) -> str:
    """Return why a line may not leave a block for its notes; empty if it may."""
    before = next((each for each in view.blocks if each.label == block.label), block)
    if not _is_nearly_full(before) or len(block.value) - len(line) < MIN_KEPT * block.limit:
        return FinalRefusal("the block has room: a line that holds stays")
    evidence = _evidence_of(block, line)
    if not any(evidence.intersection(note.evidence) for note in projected_notes.project_notes(view)):
        return FinalRefusal("no note says it, so it would be lost")
    return ""


def _select_new_notes(view: PageContext, blocks: Sequence[Block]) -> Sequence[Note]:
    """Return the newest notes that the blocks do not reflect: those since a pass wrote one, if some are of now."""
    written = max((block.at for block in blocks if block.by.startswith("pass")), default=None)
    new = {note.id for note in projected_notes.project_new_notes(view)}
    known = [
        note
        for note in projected_notes.project_notes(view)
        if note.kind is not NoteKind.SUMMARY and (note.id in new or written is None or note.created_at > written)
    ]
    if new.isdisjoint(note.id for note in known):
        return ()
    return sorted(known, key=lambda note: (note.kind is NoteKind.BELIEF, note.at, note.id))[-MAX_NOTES:]


def _select_near_notes(view: PageContext, lines: Sequence[str]) -> Sequence[Note]:
    """Return for each line the notes nearest to it, whatever their trust: one of them may end it."""
    notes = [note for note in projected_notes.project_notes(view) if note.kind is not NoteKind.SUMMARY]
    if not notes or not lines:
        return ()
    asked = [
        replace(notes[0], id=NoteId(f"line {number}"), text=line, terms=projected_notes.note_terms(line))
        for number, line in enumerate(lines)
    ]
    found = RelatedIndex(notes, vector_of=view.vector_of).find_nearest_each(asked, NEAREST)
    return list({note.id: note for some in found for note in some}.values())


def _list_flags(view: PageContext) -> Sequence[Change]:
    return [change for change in view.proposed if change.kind is ChangeKind.FLAG]


def _select_notes_of(view: PageContext, flags: Sequence[Change]) -> Sequence[Note]:
    """Return the notes that undecided contradictions are about, without those that are refused already."""
    ids = {key for change in flags for key in cast("Sequence[str]", (change.after or {}).get("evidence", ()))}
    ids -= projected_notes.list_refused_drafts(view)
    return [note for note in projected_notes.project_notes(view) if note.id in ids] if ids else ()


def _build_lines(
    view: PageContext, blocks: Sequence[Block], step: Step, undecided: Sequence[str], refused: Sequence[RefusedText]
) -> NumberedLines:
    lines = NumberedLines()
    labels = {block.label for block in blocks}
    others = [block for block in view.blocks if block.label in set(view.edited) - labels]
    about_same = [block for block in others if any(_has_common_word(block.value, note.text) for note in step.notes)]
    for block in (*blocks, *about_same):
        about = f" ({block.description})" if block.description else ""
        room = f"room for {block.limit - len(block.value)} characters" if block.label in labels else "not yours to edit"
        new = ", just written by somebody else" if block.label in view.edited else ""
        lines.add_block(f"Block {block.label}{about}, {room}{new}", block.value)
    fresh = cast("frozenset[str]", step.data["new"])
    older = [note for note in step.notes if note.id not in fresh]
    if older:
        lines.add_heading("Earlier notes near the lines of the blocks")
        lines.add_notes(older)
    if fresh:
        lines.add_heading("New notes")
        lines.add_notes([note for note in step.notes if note.id in fresh])
    if undecided:
        lines.add_heading("Undecided")
    for text in undecided:
        lines.add_line(f"| {text}")
    lines.add_refusals(refused)
    return lines


def _may_replace(view: PageContext, block: Block, old: str, new: str, notes: Sequence[Note]) -> bool:
    """Return whether a part may be replaced: a pass wrote it, the new text has it, or a note says that it is over."""
    start = block.value.find(old)
    places = (at for at in range(start, start + len(old)) if not block.value[at].isspace())
    own = all(any(span.start <= at < span.end for span in block.spans) for at in places)
    ending = {change.target for change in view.proposed if _ends_something(change)}
    return own or old in new or any(note.id in ending for note in notes)


def _ends_something(change: Change) -> bool:
    """Return whether it adds a note that says that something is over."""
    return change.kind is ChangeKind.ADD_NOTE and bool((change.after or {}).get("ended"))


def _has_common_word(text: str, other: str) -> bool:
    return not set(question_terms(text)).isdisjoint(question_terms(other))


def _evidence_of(block: Block, text: str) -> set[EpisodeId]:
    start = block.value.find(text)
    return {key for span in block.spans if span.start < start + len(text) and start < span.end for key in span.episodes}


def _is_over(line: str, today: date) -> bool:
    """Return whether all days that a line names in digits are over."""
    days = [day for found in find_calendar_dates(line) for day in found.readings[:1]]
    return bool(days) and all(day is not None and date(year, month, day) < today for year, month, day in days)
