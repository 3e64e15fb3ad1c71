"""What stands once all that was proposed so far is done: what the next operation works with."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, cast

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.memory.terms import asked_terms, stored_terms
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.dates import told
from circadia.sleeptime.operation import View

SHORT: Final = 8
"""Telling words of an episode up to which one of them shows what it is about; of a longer one it takes two."""
KEPT: Final = 0.4
"""Share of a note's words that what takes its place has; other words may stand for the rest."""
REMEMBERED: Final = 2_000
"""Proposed notes that are remembered as they will stand: each step asks for all of them anew."""


def notes(view: View) -> Sequence[Note]:
    """Return the notes that stand: those of the bank that nobody proposes to retire, then the proposed ones."""
    gone = {each.target for each in view.proposed if each.kind is ChangeKind.RETIRE_NOTE}
    known = {each.id for each in view.notes}
    made = {
        each.target: _drafted(_Very(each), view.bank.id, view.now)
        for each in view.proposed
        if each.kind is ChangeKind.ADD_NOTE and each.target not in known
    }
    there = [*view.notes, *made.values()]
    return [each for each in there if each.id not in gone] if gone else there


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


class _Very:
    """A change as a key: itself, and none that is like it; to compare what they hold would take too long."""

    __slots__ = ("change",)

    def __init__(self, change: Change) -> None:
        self.change = change

    def __hash__(self) -> int:
        return id(self.change)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Very) and other.change is self.change


@lru_cache(maxsize=REMEMBERED)
def _drafted(proposed: _Very, bank_id: BankId, now: datetime) -> Note:
    after = cast("Mapping[str, Any]", proposed.change.after or {})
    text = str(after["text"])
    return Note(
        id=NoteId(proposed.change.target), number=0, bank_id=bank_id, kind=NoteKind(after["kind"]), text=text,
        evidence=tuple(EpisodeId(each) for each in after["evidence"]), trust=Trust(after["trust"]),
        at=datetime.fromisoformat(after["at"]), importance=after.get("importance"), created_at=now, terms=terms(text),
    )  # fmt: skip


@lru_cache(maxsize=REMEMBERED)
def terms(text: str) -> bytes:
    """Return what a note is found by, as `stored_terms` does: the same when it is proposed and when it is written."""
    return stored_terms(text)
