"""Collect: notes that nothing holds up any more leave the searches; they can be brought back (SLEEP-25).

By what they rest on and by their use, never by age alone: a note of ten years that agents are given stays as long as
its episodes do. One of single facts that no agent was given for long leaves, if others were given to them since it was
made: then the bank was in use (SLEEP-20). Beliefs and summaries are not measured so, nor is what somebody has brought
back. Episodes are never collected.

Each page looks at the notes of whose evidence it says that it is over, and at another part of all the others.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from circadia.ids import EpisodeId
from circadia.memory.search.terms import words
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.source_check import collect_sources, describe_ungrounded_claims
from circadia.sleeptime.operations.dedupe import Dedupe, is_repeat_demotion
from circadia.sleeptime.proposals.changes import retire_note
from circadia.sleeptime.proposals.operation import ModelQueryFunction, PageContext, Step

AT_ONCE: Final = 25
"""Notes that a page looks at besides those that it has touched itself."""
MOST_EPISODES: Final = 300
"""Episodes that a page reads for it; what is beyond is looked at by another."""
FEWEST_SOURCES: Final = 2
"""Episodes without which a note is none."""
FEWEST_WORDS: Final = 2
"""Words without which a note says nothing."""
FEWEST_FOUND: Final = 20
"""Other notes that were found while one was not; before that, nobody can tell that it is of no use."""


class Collect:
    """Notes that are dead."""

    name = "collect"
    asks = False

    def __init__(self, *, unused_days: int) -> None:
        """`unused_days` is after how long a note is dead that was never found; 0 is never."""
        self._unused_days = unused_days

    def plan(self, view: PageContext) -> Sequence[Step]:
        """Return a step with the notes that are looked at, and of a full pass more steps with all the others."""
        first = list(_select_notes(view))
        known = {each.id for each in first}
        parts = [first, *(_split_notes([each for each in view.notes if each.id not in known]) if view.full else ())]
        return [Step(name=f"{len(notes)} notes", notes=notes) for notes in parts if notes]

    async def propose(self, step: Step, view: PageContext, ask: ModelQueryFunction) -> Sequence[Change]:
        """Return the notes that are dead, with why."""
        gone = {each.target for each in view.proposed if each.kind is ChangeKind.RETIRE_NOTE}
        notes = [each for each in step.notes if each.id not in gone]
        rows = await view.look.fetch_episodes(sorted({key for note in notes for key in note.evidence}))
        over = _ended_episodes(view) | {
            each.id for each in rows.values() if not all(map(is_repeat_demotion, each.stale))
        }
        old = [each for each in notes if self._is_old_enough(each, view.now)]
        uses: Mapping[int, datetime] = await view.look.fetch_note_uses(view.notes[0].number) if old else {}
        finds = sorted(uses.values())
        unfound = {each.id for each in old if each.number not in uses}
        found: list[Change] = []
        for note in notes:
            why = _removal_reason(note, [rows[key] for key in dict.fromkeys(note.evidence) if key in rows], over)
            why = why or (_unused_reason(note, finds, view.now) if note.id in unfound else "")
            if why:
                found.append(retire_note(view, self.name, note, why=why))
        return found

    def _is_old_enough(self, note: Note, now: datetime) -> bool:
        """Return whether a note has to be found by now."""
        if not self._unused_days or note.returned or note.kind is not NoteKind.CONSOLIDATION:
            return False
        return now - note.created_at > timedelta(days=self._unused_days)


def _unused_reason(note: Note, finds: Sequence[datetime], now: datetime) -> str:
    """Return that a note was never found, empty if nobody can tell what that means; `finds` are those of the others."""
    others = len(finds) - bisect_left(finds, note.created_at)
    if others < FEWEST_FOUND:
        return ""
    return f"in {(now - note.created_at).days} days it was never found, while {others} other notes were"


def _split_notes(notes: Iterable[Note]) -> Iterator[Sequence[Note]]:
    """Return notes in parts that read no more episodes than a step may."""
    part: list[Note] = []
    read = 0
    for note in notes:
        read += len(note.evidence)
        if part and read > MOST_EPISODES:
            yield part
            part, read = [], len(note.evidence)
        part.append(note)
    yield part


def _select_notes(view: PageContext) -> Iterator[Note]:
    """Return the bank's notes that rest on what is over since the last pass, then a part of all others."""
    stale = _ended_episodes(view).union(view.stale)
    notes = sorted(view.notes, key=lambda note: note.number)
    parts = -(-len(notes) // AT_ONCE)
    part = view.page[-1].number % parts if view.page and parts else 0
    touched = [note for note in notes if not stale.isdisjoint(note.evidence)]
    read = 0
    for note in {each.id: each for each in (*touched, *notes[part * AT_ONCE : (part + 1) * AT_ONCE])}.values():
        read += len(note.evidence)
        if read <= MOST_EPISODES or read == len(note.evidence):
            yield note


def _ended_episodes(view: PageContext) -> set[EpisodeId]:
    """Return the episodes of which this page says that they do not hold any more; what is said again still does."""
    return {
        EpisodeId(each.target)
        for each in view.proposed
        if each.kind is ChangeKind.DEMOTE_EPISODE and each.operation != Dedupe.name
    }


def _removal_reason(note: Note, evidence: Sequence[Episode], over: set[EpisodeId]) -> str:
    """Return why nothing holds a note up any more, empty if something does."""
    if len(evidence) < FEWEST_SOURCES:
        return f"{len(evidence)} of the {len(note.evidence)} episodes that it rests on are left"
    if sum(1 for _ in words(note.text)) < FEWEST_WORDS:
        return "it says nothing"
    if all(each.id in over for each in evidence):
        return "nothing that it rests on holds any more"
    strange = describe_ungrounded_claims(note.text, collect_sources(evidence))
    return f"ungrounded: {strange}" if strange else ""
