"""The notes as they will be once all proposed changes are applied: the input of the next operation."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, cast

from circadia.ids import BankId, EpisodeId, NoteId
from circadia.memory.relative_dates import episode_text_with_dates
from circadia.memory.search.terms import question_terms, stored_terms
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode, least_trust
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.grounding.change_rules import UNKNOWN, source_ids_of
from circadia.sleeptime.grounding.wording import one_line
from circadia.sleeptime.proposals.operation import PageContext

SHORT: Final = 8
"""Content words up to which an episode is short: one shared word shows its subject, in a longer one two."""
MIN_PRESERVED_SHARE: Final = 0.4
"""Share of a note's words that its replacement must have; synonyms may replace the rest."""
CACHED_TEXTS: Final = 2_000
"""Proposed notes whose terms are cached until they are written."""


_ID: Final = attrgetter("id")
_TEXT: Final = attrgetter("text")


def project_notes(view: PageContext) -> Sequence[Note]:
    """Return the active notes: the bank's without those that are to be retired, then the proposed ones."""
    retired_ids = {change.target for change in view.proposed if change.kind is ChangeKind.RETIRE_NOTE}
    added = {change.target: change for change in view.proposed if change.kind is ChangeKind.ADD_NOTE}
    known = added.keys() & map(_ID, view.notes)
    drafted = (_build_draft_note(view, change) for key, change in added.items() if key not in known)
    notes = [*view.notes, *drafted]
    return [note for note in notes if note.id not in retired_ids] if retired_ids else notes


def list_refused_drafts(view: PageContext) -> set[str]:
    """Return the ids of the notes that operations have proposed only to have them on record as refused."""
    added = [change for change in view.proposed if change.kind is ChangeKind.ADD_NOTE]
    return {
        change.target
        for change in added
        if (change.after or {}).get("refused") or any(key.startswith(UNKNOWN) for key in source_ids_of(change))
    }


def find_existing_texts(notes: Iterable[Note], texts: Iterable[str]) -> set[str]:
    return set(map(one_line, texts)).intersection(map(_TEXT, notes))


def project_new_notes(view: PageContext) -> Sequence[Note]:
    """Return the active notes that rest on new episodes, whichever run of the pass made them."""
    page = {episode.id for episode in view.page}
    return [note for note in project_notes(view) if not page.isdisjoint(note.evidence)]


def list_demoted_episodes(view: PageContext) -> Mapping[EpisodeId, str]:
    """Return the episodes that earlier operations propose to demote, with the id that shows them to be stale."""
    demotions = [change for change in view.proposed if change.kind is ChangeKind.DEMOTE_EPISODE]
    return {EpisodeId(demotion.target): str((demotion.after or {}).get("evidence", "")) for demotion in demotions}


def list_replacements(view: PageContext) -> Mapping[str, str]:
    """Return the id of the note in place of each that is to be retired for one."""
    retired = (change for change in view.proposed if change.kind is ChangeKind.RETIRE_NOTE)
    return {change.target: str(instead) for change in retired if (instead := (change.after or {}).get("instead"))}


def list_ended_by_notes(view: PageContext) -> Mapping[NoteId, Sequence[str]]:
    """Return the ids that each proposed note of `consolidate` declares ended, by note."""
    added = [
        change for change in view.proposed if change.kind is ChangeKind.ADD_NOTE and change.operation == "consolidate"
    ]
    ended = {NoteId(change.target): cast("Sequence[str]", (change.after or {}).get("ended", ())) for change in added}
    return {key: ids for key, ids in ended.items() if ids}


def is_trusted_enough(sources: Iterable[Episode | Note], others: Iterable[Episode | Note]) -> bool:
    """Return whether sources may end what others say: tools and outside text never end what participants said."""
    weight = max((_trust_distance(least_trust(source)) for source in sources), default=len(Trust))
    return all(weight <= _trust_distance(other.trust) for other in others)


def is_about(text: str, row: Episode | Note) -> bool:
    """Return whether a text is about a row's content, not only its speaker; else it cannot end it."""
    if isinstance(row, Note):
        return has_common_terms(text, row.text, min_terms=2)
    original = episode_text_with_dates(row)
    return has_common_terms(
        text, original, min_terms=1 if len(question_terms(original)) <= SHORT else 2, besides=row.speaker
    )


def has_common_terms(text: str, said: str, *, min_terms: int, besides: str = "") -> bool:
    """Return whether a text has `min_terms` content words of another, or all of them if there are fewer."""
    said_terms = set(question_terms(said)).difference(question_terms(besides))
    return len(said_terms.intersection(question_terms(text))) >= min(min_terms, len(said_terms))


def preserves_terms(text: str, old: Note) -> bool:
    """Return whether a text keeps enough of a note's words to replace it."""
    words = set(question_terms(old.text))
    return len(words.intersection(question_terms(text))) >= MIN_PRESERVED_SHARE * len(words)


def _trust_distance(trust: Trust) -> int:
    return max(0, trust.rank - Trust.AGENT.rank)


def _build_draft_note(view: PageContext, proposed: Change) -> Note:
    note = view.drafts.get(proposed.target)
    if note is None:
        note = view.drafts[proposed.target] = build_note(proposed, view.bank.id, view.now)
    return note


def build_note(proposed: Change, bank_id: BankId, now: datetime) -> Note:
    """Return the note that a change adds."""
    after = cast("Mapping[str, Any]", proposed.after or {})
    text = str(after["text"])
    return Note(
        id=NoteId(proposed.target), number=0, bank_id=bank_id, kind=NoteKind(after["kind"]), text=text,
        evidence=tuple(EpisodeId(episode_id) for episode_id in after["evidence"]), trust=Trust(after["trust"]),
        at=datetime.fromisoformat(after["at"]), importance=after.get("importance"), created_at=now,
        terms=note_terms(text),
    )  # fmt: skip


@lru_cache(maxsize=CACHED_TEXTS)
def note_terms(text: str) -> bytes:
    """Return a note's search terms, by `stored_terms`: the same when it is proposed and when it is written."""
    return stored_terms(text, text)
