"""Collect: removes notes without support from searches; they can be restored (SLEEP-25).

Evidence and use decide, never age alone: a note that agents are given stays as long as its episodes do. A note of
single facts that no agent was given for long is removed if others were given since it was made, so that the bank was
in use (SLEEP-20). That does not apply to beliefs, summaries and restored notes. Episodes are never collected.

A note whose episodes a pass has demoted stays: an episode may say two things, and a demotion does not tell which is
over. The model ends notes, one by one (`contradictions`, `reflect`). What others than passes demote is over as a whole.

Each page checks the notes whose evidence others have demoted since the last pass, and another part of all the others.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from circadia.memory.search.terms import words
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Demotion, Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.source_check import has_enough_sources
from circadia.sleeptime.operations.dedupe import is_repeat_demotion
from circadia.sleeptime.proposals.changes import retire_note
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step
from circadia.sleeptime.publish.effects import BY

AT_ONCE: Final = 25
"""Notes to check on a page besides those that it has touched."""
MAX_EPISODES: Final = 300
"""Episodes to read for a step; another page checks the rest."""
MIN_WORDS: Final = 2
MIN_FOUND_NOTES: Final = 20
"""Other notes that must have been found while one was not, before that counts against it."""


class Collect:
    name = "collect"
    asks = False

    def __init__(self, *, unused_days: int) -> None:
        """`unused_days` is the age at which a note that was never found is removed; 0 is never."""
        self._unused_days = unused_days

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return a step for the notes to check; a full pass has more steps for all the others."""
        first = list(_select_notes(view))
        known = {note.id for note in first}
        parts = [first, *(_split_notes([note for note in view.notes if note.id not in known]) if view.full else ())]
        return [Step(name=f"{len(notes)} notes", notes=notes) for notes in parts if notes]

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        retired_ids = {change.target for change in view.proposed if change.kind is ChangeKind.RETIRE_NOTE}
        notes = [note for note in step.notes if note.id not in retired_ids]
        rows = await view.look.fetch_episodes(sorted({key for note in notes for key in note.evidence}))
        old = [note for note in notes if self._is_old_enough(note, view.now)]
        uses: Mapping[int, datetime] = await view.look.fetch_note_uses(view.notes[0].number) if old else {}
        finds = sorted(uses.values())
        unfound = {note.id for note in old if note.number not in uses}
        changes: list[Change] = []
        for note in notes:
            why = _removal_reason(note, [rows[key] for key in dict.fromkeys(note.evidence) if key in rows])
            why = why or (_unused_reason(note, finds, view.now) if note.id in unfound else "")
            if why:
                changes.append(retire_note(view, self.name, note, why=why))
        return changes

    def _is_old_enough(self, note: Note, now: datetime) -> bool:
        if not self._unused_days or note.returned or note.kind is not NoteKind.CONSOLIDATION:
            return False
        return now - note.created_at > timedelta(days=self._unused_days)


def _unused_reason(note: Note, finds: Sequence[datetime], now: datetime) -> str:
    """Return that a note was never found, empty if that says nothing; `finds` are the times of other notes."""
    others = len(finds) - bisect_left(finds, note.created_at)
    if others < MIN_FOUND_NOTES:
        return ""
    return f"in {(now - note.created_at).days} days it was never found, while {others} other notes were"


def _split_notes(notes: Iterable[Note]) -> Iterator[Sequence[Note]]:
    part: list[Note] = []
    read = 0
    for note in notes:
        read += len(note.evidence)
        if part and read > MAX_EPISODES:
            yield part
            part, read = [], len(note.evidence)
        part.append(note)
    yield part


def _select_notes(view: PageContext) -> Iterator[Note]:
    """Yield the notes whose evidence others have demoted since the last pass, then a part of all others."""
    stale = frozenset(view.stale)
    notes = sorted(view.notes, key=lambda note: note.number)
    parts = -(-len(notes) // AT_ONCE)
    part = view.page[-1].number % parts if view.page and parts else 0
    touched = [note for note in notes if not stale.isdisjoint(note.evidence)]
    read = 0
    for note in {note.id: note for note in (*touched, *notes[part * AT_ONCE : (part + 1) * AT_ONCE])}.values():
        read += len(note.evidence)
        if read <= MAX_EPISODES or read == len(note.evidence):
            yield note


def _removal_reason(note: Note, evidence: Sequence[Episode]) -> str:
    if not has_enough_sources(evidence):
        return f"{len(evidence)} of the {len(note.evidence)} episodes that it rests on are left"
    if sum(1 for _ in words(note.text)) < MIN_WORDS:
        return "it says nothing"
    if all(any(map(_is_over, episode.stale)) for episode in evidence):
        return "nothing that it rests on holds any more"
    return ""


def _is_over(stale: Demotion) -> bool:
    """Return whether a demotion says that all of an episode is over: not one by a pass, nor a repetition."""
    return not is_repeat_demotion(stale) and not stale.by.startswith(f"{BY} ")
