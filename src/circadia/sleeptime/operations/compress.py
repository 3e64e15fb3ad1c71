"""Compress: adds a summary to a long span of memory, and never replaces what it covers (SLEEP-23).

A span is a run of notes without a summary, older than those of the current page. The model reads the notes and not the
conversations.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import BaseModel, Field

from circadia.records.change import Change
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.changes import add_note
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step
from circadia.sleeptime.proposals.prompts import NumberedLines, build_prompt

LONG: Final = 40
"""Episodes above which a span is long."""
MAX_NOTES: Final = 40
"""Maximum notes of a span, however little supports each."""


class SummaryDraft(BaseModel):
    text: str = Field(max_length=2_500)
    ids: list[str] = Field(max_length=MAX_NOTES)


class Compress:
    name = "compress"
    asks = True

    def __init__(self, *, long: int = LONG) -> None:
        self._long = long

    def plan(self, view: PageContext) -> Sequence[Step]:
        projected = projected_notes.project_notes(view)
        covered = {key for note in projected if note.kind is NoteKind.SUMMARY for key in note.evidence}
        open_ends = _open_note_ids(view)
        notes = [
            note
            for note in sorted(projected, key=lambda note: (note.at, note.id))
            if note.kind is NoteKind.CONSOLIDATION
            and note.id not in open_ends
            and not covered.issuperset(note.evidence)
        ]
        return [
            Step(name=_span_name(span), notes=span, tokens=sum(len(note.text) // 4 + 12 for note in span) + 250)
            for span in self._find_spans(notes)
        ]

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the summary of one span, resting on all evidence of its notes."""
        lines = NumberedLines()
        lines.add_heading("Notes")
        lines.add_notes(step.notes)
        answer = await ask(build_prompt(self.name, view, lines.text), SummaryDraft, most_tokens=900)
        text = one_line(answer.text)
        named = lines.resolve_ids(answer.ids)
        if not text or not (named.notes or named.unknown_ids):
            return ()
        ids = sorted({key for note in named.notes for key in note.evidence})
        sources = list((await view.look.fetch_episodes(ids)).values())
        if len(sources) < 2 and not named.unknown_ids:
            return ()
        why = f"the short of {_span_name(step.notes)}"
        return [add_note(view, self.name, NoteKind.SUMMARY, text, sources, why=why, unknown_ids=named.unknown_ids)]

    def _find_spans(self, notes: Sequence[Note]) -> Iterator[Sequence[Note]]:
        """Yield runs of notes with enough evidence together; the rest waits for more."""
        span: list[Note] = []
        rests: set[str] = set()
        for note in notes:
            span.append(note)
            rests.update(note.evidence)
            if len(rests) > self._long or len(span) == MAX_NOTES:
                yield span
                span, rests = [], set()


def _open_note_ids(view: PageContext) -> set[str]:
    """Return the notes of the page's last conversation, which may go on."""
    if not view.page:
        return set()
    last = view.page[-1]
    going_on = {episode.id for episode in view.page if episode.conversation == last.conversation}
    return {note.id for note in projected_notes.project_notes(view) if not going_on.isdisjoint(note.evidence)}


def _span_name(span: Sequence[Note]) -> str:
    first, last = span[0].at.date().isoformat(), span[-1].at.date().isoformat()
    return f"{len(span)} notes, {first}" + ("" if first == last else f" to {last}")
