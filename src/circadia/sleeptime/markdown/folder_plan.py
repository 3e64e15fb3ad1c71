"""What the changes of a dream mean for the files of its folder (DREAM-10, DREAM-11).

A new note becomes an entry: in the place of the one that it replaces, else behind the entry that it is most about. An
entry whose note retires leaves its file and is kept below `.circadia/retired`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final, NamedTuple, cast

from circadia.errors import Conflict, InvalidRequest
from circadia.ids import BankId, EpisodeId, NoteId
from circadia.records.bank import Trust
from circadia.records.change import Change, ChangeKind
from circadia.records.episode import Episode
from circadia.records.note import Note, NoteKind
from circadia.sleeptime.markdown.anchored_folder import RETIRED_FOLDER
from circadia.sleeptime.markdown.edits import (
    Edit,
    EntryAddition,
    EntryRemoval,
    EntryReplacement,
    FactSource,
    apply_edits,
    retired_entry,
)
from circadia.sleeptime.markdown.entries import Document, MarkdownBlock, parse_entries
from circadia.sleeptime.markdown.folder_bank import note_text
from circadia.sleeptime.proposals import projected_notes
from circadia.sleeptime.proposals.similarity import RelatedIndex

LEARNED: Final = PurePosixPath("learned.md")
"""The file of facts that are about nothing in the folder."""
_NEW_FILE: Final = (
    b"---\nname: learned\ndescription: Facts from sessions, on no subject of another file\ntype: project\n---\n"
)
_REPLACED: Final = "a newer entry says what holds"
MIN_SIMILARITY: Final = 0.12
"""Cosine above which two notes are on the same subject, as in `operations/consolidate.py`."""


class Place(NamedTuple):
    path: PurePosixPath
    entry: MarkdownBlock


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderPlan:
    contents: Mapping[PurePosixPath, bytes]
    """New contents by file, those of retired entries included."""
    files: Mapping[int, frozenset[PurePosixPath]]
    """The files of each change, by its number."""
    left_out: Mapping[int, str]
    """Why a change is not in the plan, by its number."""
    added: int
    replaced: int
    retired: int
    """Entries that leave the folder without a new one in their place."""
    moved: int
    """Entries that leave their files: replaced and retired ones."""


@dataclass(kw_only=True, slots=True)
class _Draft:
    edits: dict[PurePosixPath, list[Edit]] = field(default_factory=dict[PurePosixPath, list[Edit]])
    files: dict[int, set[PurePosixPath]] = field(default_factory=dict[int, set[PurePosixPath]])
    """The files of each change."""
    gone: dict[PurePosixPath, list[bytes]] = field(default_factory=dict[PurePosixPath, list[bytes]])
    """What is kept of entries, by the file that they leave."""
    placed: set[str] = field(default_factory=set[str])
    """Ids of the new notes that have a place."""
    left_out: dict[int, str] = field(default_factory=dict[int, str])
    replaced: int = 0

    def add(self, path: PurePosixPath, change: Change, edit: Edit) -> None:
        self.edits.setdefault(path, []).append(edit)
        self.files.setdefault(change.number, set()).add(path)


class FolderPlanner:
    def __init__(
        self, documents: Mapping[PurePosixPath, Document], notes: Sequence[Note], sources: Mapping[EpisodeId, Episode],
        retired: Mapping[PurePosixPath, bytes], now: datetime,
    ) -> None:  # fmt: skip
        """`notes` are those of the bank, `sources` the episodes of new ones, `retired` the files of retired entries."""
        self._documents = dict(documents)
        self._notes = notes
        self._sources = sources
        self._retired = retired
        self._now = now
        self._places: dict[str, list[Place]] = {}
        for path, document in documents.items():
            for entry in document.entries:
                self._places.setdefault(note_text(entry.text), []).append(Place(path, entry))

    def plan(self, changes: Sequence[Change]) -> FolderPlan:
        """Return the new contents of all files that these changes concern; what cannot be written is left out."""
        left_out: dict[int, str] = {}
        while True:
            rest = [change for change in changes if change.number not in left_out]
            draft = self._draft(rest)
            contents, failed = self._write(draft)
            left_out |= {**draft.left_out, **failed}
            if not failed:
                break
        moved = sum(map(len, draft.gone.values()))
        added = sum(change.kind is ChangeKind.ADD_NOTE and change.number in draft.files for change in rest)
        return FolderPlan(
            contents=contents, files={number: frozenset(paths) for number, paths in draft.files.items()},
            left_out=left_out, added=added - draft.replaced, replaced=draft.replaced,
            retired=moved - draft.replaced, moved=moved,
        )  # fmt: skip

    def _draft(self, changes: Sequence[Change]) -> _Draft:
        added = {change.target: change for change in changes if change.kind is ChangeKind.ADD_NOTE}
        draft = _Draft()
        for change in changes:
            if change.kind is ChangeKind.RETIRE_NOTE:
                self._retire(change, added, draft)
        self._place_new([change for key, change in added.items() if key not in draft.placed], draft)
        return draft

    def _retire(self, change: Change, added: Mapping[str, Change], draft: _Draft) -> None:
        text = str((change.before or {}).get("text", ""))
        instead = str((change.after or {}).get("instead", ""))
        places = [
            place for place in self._places.get(text, ()) if _is_editable(self._documents[place.path], place.entry)
        ]
        if not places:
            draft.left_out[change.number] = "its entry is pinned, read-only or gone"
            return
        if instead and instead not in added and all(note.id != instead for note in self._notes):
            draft.left_out[change.number] = "what takes its place was refused"
            return
        new = added.get(instead)
        for path, entry in places:
            if new is not None and instead not in draft.placed:
                draft.placed.add(instead)
                draft.replaced += 1
                draft.add(path, new, EntryReplacement(entry=entry, text=_text_of(new), source=self._source_of(new)))
                draft.files.setdefault(change.number, set()).add(path)
            else:
                draft.add(path, change, EntryRemoval(entry=entry))
            kept = retired_entry(
                self._documents[path], entry, path=path, why=_REPLACED if instead else change.why, day=self._now.date(),
                instead=self._describe(instead, added) or "nothing",
            )  # fmt: skip
            draft.gone.setdefault(path, []).append(kept)

    def _place_new(self, new: Sequence[Change], draft: _Draft) -> None:
        near = RelatedIndex(self._notes).find_nearest_each(
            [_draft_note(change) for change in new], 3, min_similarity=MIN_SIMILARITY
        )
        for change, notes in zip(new, near, strict=True):
            path, headings = self._find_home(notes)
            draft.placed.add(change.target)
            draft.add(
                path, change, EntryAddition(text=_text_of(change), headings=headings, source=self._source_of(change))
            )

    def _find_home(self, notes: Sequence[Note]) -> tuple[PurePosixPath, tuple[str, ...] | None]:
        """Return the file and the headings of the nearest entry in a file that may be changed."""
        for note in notes:
            for path, entry in self._places.get(note.text, ()):
                document = self._documents[path]
                if document.is_writable and not document.is_pinned:
                    return path, entry.headings
        self._documents.setdefault(LEARNED, parse_entries(_NEW_FILE))
        return LEARNED, None

    def _write(self, draft: _Draft) -> tuple[Mapping[PurePosixPath, bytes], Mapping[int, str]]:
        """Return the new contents, and why changes failed, by their numbers."""
        contents: dict[PurePosixPath, bytes] = {}
        failed: dict[int, str] = {}
        for path, edits in draft.edits.items():
            try:
                contents[path] = apply_edits(self._documents[path], edits)
            except (Conflict, InvalidRequest) as error:
                failed |= {number: f"{path}: {error.message}" for number, of in draft.files.items() if path in of}
            if path in draft.gone:
                kept = RETIRED_FOLDER / path
                contents[kept] = self._retired.get(kept, b"") + b"".join(draft.gone[path])
        return contents, failed

    def _source_of(self, change: Change) -> FactSource | None:
        """Return the newest turn that a note rests on; None if it rests on entries alone."""
        evidence = cast("Sequence[str]", (change.after or {}).get("evidence", ()))
        turns = [self._sources[EpisodeId(key)] for key in evidence if EpisodeId(key) in self._sources]
        turns = [turn for turn in turns if "session" in turn.metadata]
        if not turns:
            return None
        newest = max(turns, key=lambda turn: (turn.at, turn.number))
        return FactSource(
            session=str(newest.metadata["session"]),
            line=int(cast("int", newest.metadata["line"])),
            day=newest.at.date(),
        )

    def _describe(self, instead: str, added: Mapping[str, Change]) -> str:
        new = added.get(instead)
        if new is not None:
            return _text_of(new)
        return next((note.text for note in self._notes if note.id == instead), "")


def _is_editable(document: Document, entry: MarkdownBlock) -> bool:
    return document.is_writable and not document.is_pinned and not entry.is_pinned


def _text_of(change: Change) -> str:
    return str((change.after or {})["text"])


def _draft_note(change: Change) -> Note:
    text = _text_of(change)
    return Note(
        id=NoteId(change.target), number=0, bank_id=BankId(""), kind=NoteKind.CONSOLIDATION, text=text, evidence=(),
        trust=Trust.AGENT, at=change.at, created_at=change.at, terms=projected_notes.note_terms(text),
    )  # fmt: skip
