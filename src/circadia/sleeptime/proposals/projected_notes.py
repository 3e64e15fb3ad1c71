"""What stands once all that was proposed so far is done: what the next operation works with."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, cast

from circadia.ids import EpisodeId, NoteId
from circadia.memory.search.terms import question_terms, stored_terms
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.relative_dates import episode_text_with_dates
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.proposals.operation import PageContext

SHORT: Final = 8
"""Telling words of an episode up to which one of them shows what it is about; of a longer one it takes two."""
MIN_PRESERVED_SHARE: Final = 0.4
"""Share of a note's words that what takes its place has; other words may stand for the rest."""
CACHED_TEXTS: Final = 2_000
"""Texts of proposed notes whose terms are remembered until they are written."""


_ID: Final = attrgetter("id")
_TEXT: Final = attrgetter("text")


def project_notes(view: PageContext) -> Sequence[Note]:
    """Return the notes that stand: those of the bank that nobody proposes to retire, then the proposed ones."""
    gone = {each.target for each in view.proposed if each.kind is ChangeKind.RETIRE_NOTE}
    made = {each.target: each for each in view.proposed if each.kind is ChangeKind.ADD_NOTE}
    known = made.keys() & map(_ID, view.notes)
    drafted = (_build_draft_note(view, each) for key, each in made.items() if key not in known)
    there = [*view.notes, *drafted]
    return [each for each in there if each.id not in gone] if gone else there


def find_existing_texts(there: Iterable[Note], texts: Iterable[str]) -> set[str]:
    """Return which of these texts, in one line, notes have already."""
    return set(map(one_line, texts)).intersection(map(_TEXT, there))


def project_new_notes(view: PageContext) -> Sequence[Note]:
    """Return the notes that stand and rest on new episodes, in whichever run of the pass they were made."""
    page = {each.id for each in view.page}
    return [each for each in project_notes(view) if not page.isdisjoint(each.evidence)]


def list_demoted_episodes(view: PageContext) -> Mapping[EpisodeId, str]:
    """Return the episodes that operations before propose to demote, with the id of what shows them to be stale."""
    found = [each for each in view.proposed if each.kind is ChangeKind.DEMOTE_EPISODE]
    return {EpisodeId(each.target): str((each.after or {}).get("evidence", "")) for each in found}


def list_ended_by_notes(view: PageContext, operation: str) -> Mapping[NoteId, Sequence[str]]:
    """Return by note, of those that this operation proposes, what each says does not hold any more."""
    made = [each for each in view.proposed if each.kind is ChangeKind.ADD_NOTE and each.operation == operation]
    found = {NoteId(each.target): cast("Sequence[str]", (each.after or {}).get("ended", ())) for each in made}
    return {key: ids for key, ids in found.items() if ids}


def is_trusted_enough(sources: Iterable[Episode | Note], others: Iterable[Episode | Note]) -> bool:
    """Return whether what some sources say may end what others say.

    What a tool or the outside brings in never ends what was said by those who talk to each other.
    """
    weight = max((_trust_distance(each.trust) for each in sources), default=len(Trust))
    return all(weight <= _trust_distance(each.trust) for each in others)


def is_about(text: str, row: Episode | Note) -> bool:
    """Return whether a text speaks of what was said there, and not only of who said it: else it cannot end it."""
    if isinstance(row, Note):
        return has_common_terms(text, row.text, fewest=2)
    said = episode_text_with_dates(row)
    return has_common_terms(text, said, fewest=1 if len(question_terms(said)) <= SHORT else 2, besides=row.speaker)


def has_common_terms(text: str, said: str, *, fewest: int, besides: str = "") -> bool:
    """Return whether a text has so many telling words of what was said, or all of them if there are fewer."""
    wanted = set(question_terms(said)).difference(question_terms(besides))
    return len(wanted.intersection(question_terms(text))) >= min(fewest, len(wanted))


def preserves_terms(text: str, old: Note) -> bool:
    """Return whether a text that is to take a note's place has enough of its words to say what it does."""
    said = set(question_terms(old.text))
    return len(said.intersection(question_terms(text))) >= MIN_PRESERVED_SHARE * len(said)


def _trust_distance(trust: Trust) -> int:
    return max(0, trust.rank - Trust.AGENT.rank)


def _build_draft_note(view: PageContext, proposed: Change) -> Note:
    found = view.drafts.get(proposed.target)
    if found is None:
        after = cast("Mapping[str, Any]", proposed.after or {})
        text = str(after["text"])
        found = view.drafts[proposed.target] = Note(
            id=NoteId(proposed.target), number=0, bank_id=view.bank.id, kind=NoteKind(after["kind"]), text=text,
            evidence=tuple(EpisodeId(each) for each in after["evidence"]), trust=Trust(after["trust"]),
            at=datetime.fromisoformat(after["at"]), importance=after.get("importance"), created_at=view.now,
            terms=note_terms(text),
        )  # fmt: skip
    return found


@lru_cache(maxsize=CACHED_TEXTS)
def note_terms(text: str) -> bytes:
    """Return what a note is found by, as `stored_terms` does: the same when it is proposed and when it is written."""
    return stored_terms(text, text)
