"""Rethink: updates the blocks with the new notes for the next call (SLEEP-27).

Blocks are part of the system prompt, so nothing from tools or from outside gets into them. Only a note that also states
what was before replaces what a person wrote.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pydantic import BaseModel, Field

from circadia.ids import EpisodeId
from circadia.memory.blocks import DEFAULT_LIMIT, carry_spans
from circadia.memory.context import estimate_tokens
from circadia.memory.search.terms import question_terms
from circadia.records.bank import Trust
from circadia.records.block import Block, BlockSpan
from circadia.records.change import Change, ChangeKind
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.relative_dates import add_dates_from_sources, first_open_date
from circadia.sleeptime.grounding.wording import one_line, unfit_reason_for_block
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.changes import write_block
from circadia.sleeptime.proposals.numbered_lines import NumberedLines
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step
from circadia.sleeptime.proposals.prompts import build_prompt

MAX_RETHINKS: Final = 10
"""SLEEP-27: maximum edits of a pass."""
LABEL: Final = "learned"
"""The block to create if there is none."""
ENOUGH: Final = 3
"""New notes that justify a question; fewer wait for more, unless one of them ends something."""
MAX_NOTES: Final = 30
"""Newest notes to show; beliefs before all others."""
MIN_SUPPORTED_TERMS: Final = 2
"""Content words of an edit, if it has so many, that its notes or the replaced text must have: a name is not enough."""
TALK: Final = frozenset({Trust.PERSON, Trust.AGENT})
"""Trust of the notes that may get into blocks."""


class BlockEdit(BaseModel):
    label: str = Field(max_length=100)
    old_text: str | None = Field(default=None, max_length=2_000)
    new_text: str = Field(max_length=1_000)
    ids: list[str] = Field(max_length=10)


class RethinkAnswer(BaseModel):
    edits: list[BlockEdit] = Field(max_length=MAX_RETHINKS)
    finished: bool


class Rethink:
    name = "rethink"
    asks = True

    def __init__(self, *, max_rethinks: int = MAX_RETHINKS) -> None:
        self._most = max_rethinks

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return one step if there are notes that the blocks do not reflect, or that an edited block is about."""
        blocks = self._writable(view)
        notes = _join_notes(_select_new_notes(view, blocks), _select_edit_notes(view)) if blocks and self._most else ()
        if not notes:
            return []
        size = (
            sum(estimate_tokens(note.text) + 6 for note in notes)
            + sum(estimate_tokens(block.value) + 20 for block in blocks)
            + 300
        )
        about = f"{len(view.edited)} edited blocks" if view.edited else f"{len(notes)} new notes"
        return [Step(name=about, notes=notes, tokens=size)]

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the blocks after the model's edits, each written once."""
        read = {block.label: block for block in self._writable(view)}
        blocks = dict(read)
        left = self._most
        while left:
            lines = _build_lines(view, list(blocks.values()), step.notes)
            question = build_prompt(self.name, view, lines.text, about=("edited",) if view.edited else (), edits=left)
            answer = await ask(question, RethinkAnswer, most_tokens=200 + 120 * left)
            before = dict(blocks)
            for edit in answer.edits[:left]:
                left -= 1
                block = blocks.get(edit.label)
                edited = None if block is None else _apply_edit(view, lines, block, edit)
                if edited is not None:
                    blocks[edited.label] = edited
            if answer.finished or blocks == before:
                break
        return [
            write_block(
                view, self.name, label, block.value,
                [(span.start, span.end, span.episodes) for span in block.spans],
                why=f"as {', '.join(sorted(view.edited))} says now" if view.edited
                else f"what {len(step.notes)} new notes say",
            )
            for label, block in blocks.items()
            if block.value != read[label].value
        ]  # fmt: skip

    def _writable(self, view: PageContext) -> Sequence[Block]:
        """Return the blocks that a pass may write, or a new one if there is none."""
        writable = [block for block in view.blocks if not block.read_only]
        if writable or any(block.label == LABEL for block in view.blocks):
            return writable
        return [
            Block(
                bank_id=view.bank.id, label=LABEL, version=0, parent=None, value="", limit=DEFAULT_LIMIT,
                description="What was learned so far", by="", at=view.now,
            )
        ]  # fmt: skip


def _select_new_notes(view: PageContext, blocks: Sequence[Block]) -> Sequence[Note]:
    """Return the notes that the blocks do not reflect, if they justify a question.

    They do if something has ended, if no pass has written a block yet, or if `ENOUGH` have accumulated; then those
    since the last time that so many had.
    """
    written = max((block.at for block in blocks if block.by.startswith("pass")), default=None)
    new = {note.id for note in projected_notes.project_new_notes(view)}
    known = [
        note
        for note in projected_notes.project_notes(view)
        if note.trust in TALK and note.kind is not NoteKind.SUMMARY
        and (note.id in new or written is None or note.created_at > written)
    ]  # fmt: skip
    old = [note for note in known if note.id not in new]
    waiting = [*old[len(old) // ENOUGH * ENOUGH :], *(note for note in known if note.id in new)]
    over = any(change.operation == "contradictions" or _ends_something(change) for change in view.proposed)
    if new.isdisjoint(note.id for note in known) or not (over or written is None or len(waiting) >= ENOUGH):
        return ()
    best = sorted(waiting, key=lambda note: (note.kind is NoteKind.BELIEF, note.at, note.id))[-MAX_NOTES:]
    return sorted(best, key=lambda note: (note.at, note.id))


def _select_edit_notes(view: PageContext) -> Sequence[Note]:
    """Return the notes that share words with the edits of others, those with the most first."""
    edited_terms = {term for block in view.blocks if block.label in view.edited for term in question_terms(block.value)}
    if not edited_terms:
        return ()
    fit = [
        note for note in projected_notes.project_notes(view) if note.trust in TALK and note.kind is not NoteKind.SUMMARY
    ]
    shared = {note.id: len(edited_terms.intersection(memoryview(note.terms).cast("I"))) for note in fit}
    best = sorted(fit, key=lambda note: (-shared[note.id], note.at, note.id))
    return [note for note in best[:MAX_NOTES] if shared[note.id]]


def _join_notes(notes: Sequence[Note], others: Sequence[Note]) -> Sequence[Note]:
    joined = list({note.id: note for note in (*notes, *others)}.values())[:MAX_NOTES]
    return sorted(joined, key=lambda note: (note.at, note.id))


def _build_lines(view: PageContext, blocks: Sequence[Block], notes: Sequence[Note]) -> NumberedLines:
    lines = NumberedLines()
    labels = {block.label for block in blocks}
    others = [block for block in view.blocks if block.label in view.edited and block.label not in labels]
    about_same = [block for block in others if any(_has_common_word(block.value, note.text) for note in notes)]
    for block in (*blocks, *about_same):
        about = f" ({block.description})" if block.description else ""
        room = f"room for {block.limit - len(block.value)} characters" if block.label in labels else "not yours to edit"
        new = ", just written by somebody else" if block.label in view.edited else ""
        lines.add_block(f"Block {block.label}{about}, {room}{new}", block.value)
    lines.add_heading("Notes" if view.edited else "New notes")
    lines.add_notes(notes)
    return lines


def _apply_edit(view: PageContext, sheet: NumberedLines, block: Block, edit: BlockEdit) -> Block | None:
    """Return the edited block, or none if its room, its sources or the removed text forbid the edit."""
    named = sheet.resolve_ids(edit.ids)
    dated_notes = [(note.text, note.at) for note in named.notes]
    new = "\n".join(
        add_dates_from_sources(line, dated_notes) for part in edit.new_text.split("\n") if (line := one_line(part))
    )
    if named.unknown_ids or named.episodes or not named.notes or unfit_reason_for_block(new) or first_open_date(new):
        return None
    old = edit.old_text or ""
    if not projected_notes.has_common_terms(
        " ".join((old, *(note.text for note in named.notes))), new, min_terms=MIN_SUPPORTED_TERMS
    ):
        return None
    if old:
        if block.value.count(old) != 1 or new == old:
            return None
        start = block.value.index(old)
        if not _may_replace(view, block, start, start + len(old), new, named.notes):
            return None
        value = block.value[:start] + new + block.value[start + len(old) :]
    else:
        if not new or new in block.value:
            return None
        start = len(block.value) + 1 if block.value else 0
        value = f"{block.value}\n{new}" if block.value else new
    if len(value) > block.limit:
        return None
    spans = carry_spans(block, value)
    if new:
        ids = {key for note in named.notes for key in note.evidence}
        spans = _add_span(spans, BlockSpan(start=start, end=start + len(new), episodes=sorted(ids)))
    return replace(block, value=value, spans=spans)


def _may_replace(view: PageContext, block: Block, start: int, end: int, new: str, notes: Sequence[Note]) -> bool:
    """Return whether a part may be replaced: the new text contains it, or a note says that it is over.

    Any note may rephrase what a pass wrote. To drop it takes a note that ends it, or a block on the same subject that
    somebody has written since.
    """
    old = block.value[start:end]
    own = any(span.start < end and start < span.end for span in block.spans)
    if old in new or (own and new and _has_common_word(old, new)):
        return True
    others = [other for other in view.blocks if other.label in view.edited and other.label != block.label]
    if own and any(_has_common_word(old, other.value) for other in others):
        return True
    ending = {change.target for change in view.proposed if _ends_something(change)}
    return any(note.id in ending and projected_notes.has_common_terms(note.text, old, min_terms=2) for note in notes)


def _ends_something(change: Change) -> bool:
    """Return whether it adds a note that says that something is over."""
    return change.kind is ChangeKind.ADD_NOTE and bool((change.after or {}).get("ended"))


def _has_common_word(text: str, other: str) -> bool:
    return not set(question_terms(text)).isdisjoint(question_terms(other))


def _add_span(spans: Sequence[BlockSpan], new: BlockSpan) -> Sequence[BlockSpan]:
    """Return spans with one more, which absorbs those that it overlaps."""
    separate_spans = [span for span in spans if span.end <= new.start or span.start >= new.end]
    within = [span for span in spans if span not in separate_spans]
    ids = {key for span in (new, *within) for key in span.episodes}
    joined = BlockSpan(
        start=min(span.start for span in (new, *within)), end=max(span.end for span in (new, *within)),
        episodes=sorted(EpisodeId(key) for key in ids),
    )  # fmt: skip
    return sorted([*separate_spans, joined], key=lambda span: span.start)
