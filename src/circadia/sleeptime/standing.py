"""What stands once all that was proposed so far is done: what the next operation works with."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, cast

from circadia.ids import EpisodeId, NoteId
from circadia.memory.terms import asked_terms, stored_terms
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.dates import told
from circadia.sleeptime.operation import View
from circadia.sleeptime.wording import one_line

SHORT: Final = 8
"""Telling words of an episode up to which one of them shows what it is about; of a longer one it takes two."""
KEPT: Final = 0.4
"""Share of a note's words that what takes its place has; other words may stand for the rest."""
REMEMBERED: Final = 2_000
"""Texts of proposed notes whose terms are remembered until they are written."""


_ID: Final = attrgetter("id")
_TEXT: Final = attrgetter("text")


def notes(view: View) -> Sequence[Note]:
    """Return the notes that stand: those of the bank that nobody proposes to retire, then the proposed ones."""
    gone = {each.target for each in view.proposed if each.kind is ChangeKind.RETIRE_NOTE}
    made = {each.target: each for each in view.proposed if each.kind is ChangeKind.ADD_NOTE}
    known = made.keys() & map(_ID, view.notes)
    drafted = (_drafted(view, each) for key, each in made.items() if key not in known)
    there = [*view.notes, *drafted]
    return [each for each in there if each.id not in gone] if gone else there


def said(there: Iterable[Note], texts: Iterable[str]) -> set[str]:
    """Return which of these texts, in one line, notes have already."""
    return set(map(one_line, texts)).intersection(map(_TEXT, there))


def news(view: View) -> Sequence[Note]:
    """Return the notes that stand and rest on new episodes, in whichever run of the pass they were made."""
    page = {each.id for each in view.page}
    return [each for each in notes(view) if not page.isdisjoint(each.evidence)]


def demoted(view: View) -> Mapping[EpisodeId, str]:
    """Return the episodes that operations before propose to demote, with the id of what shows them to be stale."""
    found = [each for each in view.proposed if each.kind is ChangeKind.DEMOTE_EPISODE]
    return {EpisodeId(each.target): str((each.after or {}).get("evidence", "")) for each in found}


def ended(view: View, operation: str) -> Mapping[NoteId, Sequence[str]]:
    """Return by note, of those that this operation proposes, what each says does not hold any more."""
    made = [each for each in view.proposed if each.kind is ChangeKind.ADD_NOTE and each.operation == operation]
    found = {NoteId(each.target): cast("Sequence[str]", (each.after or {}).get("ended", ())) for each in made}
    return {key: ids for key, ids in found.items() if ids}


def outweighs(sources: Iterable[Episode | Note], others: Iterable[Episode | Note]) -> bool:
    """Return whether what some sources say may end what others say.

    What a tool or the outside brings in never ends what was said by those who talk to each other.
    """
    weight = max((_distance(each.trust) for each in sources), default=len(Trust))
    return all(weight <= _distance(each.trust) for each in others)


def tells(text: str, row: Episode | Note) -> bool:
    """Return whether a text speaks of what was said there, and not only of who said it: else it cannot end it."""
    if isinstance(row, Note):
        return shares(text, row.text, fewest=2)
    said = told(row)
    return shares(text, said, fewest=1 if len(asked_terms(said)) <= SHORT else 2, besides=row.speaker)


def shares(text: str, said: str, *, fewest: int, besides: str = "") -> bool:
    """Return whether a text has so many telling words of what was said, or all of them if there are fewer."""
    wanted = set(asked_terms(said)).difference(asked_terms(besides))
    return len(wanted.intersection(asked_terms(text))) >= min(fewest, len(wanted))


def keeps(text: str, old: Note) -> bool:
    """Return whether a text that is to take a note's place has enough of its words to say what it does."""
    said = set(asked_terms(old.text))
    return len(said.intersection(asked_terms(text))) >= KEPT * len(said)


def _distance(trust: Trust) -> int:
    return max(0, trust.rank - Trust.AGENT.rank)


def _drafted(view: View, proposed: Change) -> Note:
    found = view.drafts.get(proposed.target)
    if found is None:
        after = cast("Mapping[str, Any]", proposed.after or {})
        text = str(after["text"])
        found = view.drafts[proposed.target] = Note(
            id=NoteId(proposed.target), number=0, bank_id=view.bank.id, kind=NoteKind(after["kind"]), text=text,
            evidence=tuple(EpisodeId(each) for each in after["evidence"]), trust=Trust(after["trust"]),
            at=datetime.fromisoformat(after["at"]), importance=after.get("importance"), created_at=view.now,
            terms=terms(text),
        )  # fmt: skip
    return found


@lru_cache(maxsize=REMEMBERED)
def terms(text: str) -> bytes:
    """Return what a note is found by, as `stored_terms` does: the same when it is proposed and when it is written."""
    return stored_terms(text, text)
